"""Keras on JAX: `fit`, with the steps per execution that are asked for."""

import os
import sys

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
from keras import layers
from serve import HEADS, blocks, ends, positions, serve


def chain(task):
    """An mlp, or with convolutions a cnn."""
    parts = [keras.Input(task.X.shape[1:])]
    for weight, _ in task.maps[:-1]:
        n_out = weight.shape[-1]
        parts.append(
            layers.Dense(n_out, activation="relu")
            if weight.ndim == 2
            else layers.Conv2D(n_out, weight.shape[0], activation="relu")
        )
    model = keras.Sequential([*parts, layers.Flatten(), layers.Dense(task.maps[-1][0].shape[-1])])
    model.set_weights([array for pair in task.maps for array in pair])
    return model


class AddPositions(layers.Layer):
    """Adds the sinusoidal code to the tokens."""

    def call(self, x):
        return x + positions(*x.shape[1:])


def transformer(task):
    (first, last_norm, last), parts = ends(task.weights), blocks(task.weights)
    size, hidden = len(parts[0]["ln1.scale"]), len(parts[0]["ffn1.bias"])
    weights = [first["weight"], first["bias"]]
    inputs = keras.Input(task.X.shape[1:])
    x = AddPositions()(layers.Dense(size)(inputs))
    for block in parts:
        h = layers.LayerNormalization(epsilon=1e-5)(x)
        x = x + layers.MultiHeadAttention(HEADS, size // HEADS)(h, h)
        h = layers.LayerNormalization(epsilon=1e-5)(x)
        h = layers.Dense(hidden)(h)
        h = layers.Activation(lambda h: keras.activations.gelu(h, approximate=False))(h)
        x = x + layers.Dense(size)(h)
        weights += [block["ln1.scale"], block["ln1.bias"]]
        for name in ("query", "key", "value"):
            weights.append(block[f"attn.{name}.weight"].reshape(size, HEADS, -1))
            weights.append(block[f"attn.{name}.bias"].reshape(HEADS, -1))
        weights += [block["attn.output.weight"].reshape(HEADS, -1, size), block["attn.output.bias"]]
        names = "ln2.scale ln2.bias ffn1.weight ffn1.bias ffn2.weight ffn2.bias"
        weights += [block[name] for name in names.split()]
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-5)(x))
    model = keras.Model(inputs, layers.Dense(len(last["bias"]))(x))
    model.set_weights([*map(np.asarray, weights), *last_norm.values(), last["weight"], last["bias"]])
    return model


def make(task):
    model = transformer(task) if task.kind == "transformer" else chain(task)
    model.compile(
        optimizer=keras.optimizers.SGD(task.lr)
        if task.optimizer == "sgd"
        else keras.optimizers.Adam(task.lr, epsilon=1e-8),
        loss="mse" if task.loss == "mse" else keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=int(sys.argv[2]),
    )

    def train(epochs):
        history = model.fit(task.X, task.y, epochs=epochs, batch_size=task.batch_size, shuffle=False, verbose=0).history
        return history["loss"]

    return train


serve(make)
