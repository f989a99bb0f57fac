"""dense-armor's loop: `fit`, one batch after another."""

import jax
from dense_armor.utility.neural.losses import MSE, SoftmaxCrossEntropy
from dense_armor.utility.neural.models import mlp
from dense_armor.utility.neural.trainer import Trainer
from dense_armor.utility.optim.adam import Adam
from dense_armor.utility.optim.sgd import SGD
from serve import serve


def make(task):
    if task.kind != "mlp":
        raise NotImplementedError(f"its way to build a {task.kind} is not written here")
    shapes = [weight.shape for weight, _ in task.maps]
    model = mlp([*(n_in for n_in, _ in shapes), shapes[-1][1]], jax.random.PRNGKey(0))
    for param, array in zip(model.params(), [array for pair in task.maps for array in pair], strict=True):
        param.value = jax.numpy.asarray(array)
    loss = MSE() if task.loss == "mse" else SoftmaxCrossEntropy()
    trainer = Trainer(model, loss, SGD(task.lr) if task.optimizer == "sgd" else Adam(task.lr))

    def train(epochs):
        trainer.fit(task.X, task.y, epochs, task.batch_size, jax.random.PRNGKey(0), shuffle=False)
        jax.block_until_ready([param.value for param in model.params()])
        return trainer.history_["train_loss"][-epochs:]

    return train


serve(make)
