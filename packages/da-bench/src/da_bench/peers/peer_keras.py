"""Keras on JAX: `fit`, with the steps per execution that are asked for."""

import os
import sys

os.environ["KERAS_BACKEND"] = "jax"

import keras
from serve import serve


def make(task):
    layers = [keras.layers.Dense(width, activation="relu") for width in task.widths[1:-1]]
    model = keras.Sequential([keras.Input((int(task.widths[0]),)), *layers, keras.layers.Dense(int(task.widths[-1]))])
    model.set_weights([array for pair in task.weights for array in pair])
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
