"""da-trainer: `fit`, by the loop or compiled."""

import sys

import jax
from da_layers import MSE, Conv2D, Dense, Flatten, ReLU, Sequential, SoftmaxCrossEntropy, mlp, transformer_encoder
from da_optim import SGD, Adam
from da_trainer import Trainer
from serve import HEADS, blocks, ends, serve


def make_model(task):
    if task.kind == "transformer":
        first, _, last = ends(task.weights)
        layers = blocks(task.weights)
        hidden = layers[0]["ffn1.weight"].shape[1]
        sizes = *first["weight"].shape, HEADS, hidden, len(layers), last["weight"].shape[1]
        return transformer_encoder(*sizes, jax.random.key(0))
    shapes = [weight.shape for weight, _ in task.maps]
    if task.kind == "mlp":
        return mlp([*(n_in for n_in, _ in shapes), shapes[-1][1]], 0)
    convolutions = [Conv2D(*shape[2:], shape[0], 0, padding="valid") for shape in shapes[:-1]]
    return Sequential(*(layer for conv in convolutions for layer in (conv, ReLU())), Flatten(), Dense(*shapes[-1], 0))


def make(task):
    model = make_model(task)
    model.load_state_dict(task.weights)
    loss = MSE() if task.loss == "mse" else SoftmaxCrossEntropy()
    optimizer = SGD(task.lr) if task.optimizer == "sgd" else Adam(task.lr)
    trainer = Trainer(model, loss, optimizer, compile=sys.argv[2] == "compiled")

    def train(epochs):
        trainer.fit(task.X, task.y, epochs, task.batch_size, shuffle=False)
        return trainer.history_["train_loss"][-epochs:]

    train.facts = lambda: {"compile seconds": trainer.compile_seconds, "temporary bytes": trainer.temporary_bytes}
    return train


serve(make)
