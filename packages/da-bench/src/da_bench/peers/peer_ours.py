"""da-trainer: `fit`, by the loop or compiled."""

import sys

from da_layers import MSE, SoftmaxCrossEntropy, mlp
from da_optim import SGD, Adam
from da_trainer import Trainer
from serve import serve


def make(task):
    model = mlp([int(width) for width in task.widths], 0)
    for param, value in zip(model.params(), [array for pair in task.weights for array in pair], strict=True):
        param.value = value
    loss = MSE() if task.loss == "mse" else SoftmaxCrossEntropy()
    optimizer = SGD(task.lr) if task.optimizer == "sgd" else Adam(task.lr)
    trainer = Trainer(model, loss, optimizer, compile=sys.argv[2] == "compiled")

    def train(epochs):
        trainer.fit(task.X, task.y, epochs, task.batch_size, shuffle=False)
        return trainer.history_["train_loss"][-epochs:]

    return train


serve(make)
