"""Workloads: a model with its loss and optimiser, and data for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
from da_layers import MSE, Layer, Loss, SoftmaxCrossEntropy, mlp, transformer_encoder
from da_optim import SGD, Adam
from da_trainer import Trainer

from ._digits import digits_split


@dataclass(frozen=True)
class Workload:
    """A task to train on.

    Attributes:
        name: what tables call it.
        make: a new model, loss and optimiser, the same each time.
        data: (X, y), float32 inputs and the loss's targets.
        batch_size: samples in a batch.

    Example:
        >>> from da_bench import normal_mlp
        >>> workload = normal_mlp(layers=2, width=8, batch=4)
        >>> workload.name, workload.batch_size, [array.shape for array in workload.data()]
        ('mlp 2x8, batch 4', 4, [(4, 8), (4, 8)])
    """

    name: str
    make: Callable[[], tuple[Layer, Loss, Any]]
    data: Callable[[], tuple[Any, Any]]
    batch_size: int

    def trainer(self, compile: bool | Literal["exact", "fused"]) -> Trainer:  # noqa: A002 - as in Trainer
        """A trainer at the start, by the loop or compiled."""
        return Trainer(*self.make(), compile=compile)


def normal_mlp(layers: int = 4, width: int = 512, batch: int = 256) -> Workload:
    """Dense layers with ReLU between them, one batch of normal samples, MSE, SGD."""

    def make() -> tuple[Layer, Loss, Any]:
        return mlp([width] * (layers + 1), jax.random.PRNGKey(0)), MSE(), SGD(0.01)

    def data() -> tuple[Any, Any]:
        X = jax.random.normal(jax.random.PRNGKey(1), (batch, width))
        return X, jax.random.normal(jax.random.PRNGKey(2), (batch, width))

    return Workload(f"mlp {layers}x{width}, batch {batch}", make, data, batch)


def transformer(blocks: int = 4, d_model: int = 256, time: int = 128, batch: int = 32) -> Workload:
    """A transformer encoder of 4 heads, one batch of normal sequences with 10 kinds of label, cross-entropy, SGD."""

    def make() -> tuple[Layer, Loss, Any]:
        model = transformer_encoder(64, d_model, 4, 4 * d_model, blocks, 10, jax.random.PRNGKey(0))
        return model, SoftmaxCrossEntropy(), SGD(0.003)

    def data() -> tuple[Any, Any]:
        X = jax.random.normal(jax.random.PRNGKey(1), (batch, time, 64))
        return X, jax.random.randint(jax.random.PRNGKey(2), (batch,), 0, 10)

    return Workload(f"transformer {blocks}x{d_model}, seq {time}, batch {batch}", make, data, batch)


def digits() -> Workload:
    """The handwritten digits of scikit-learn: 1437 images to train, 64-128-10, cross-entropy, Adam."""

    def make() -> tuple[Layer, Loss, Any]:
        return mlp([64, 128, 10], jax.random.PRNGKey(0)), SoftmaxCrossEntropy(), Adam(1e-3)

    def data() -> tuple[Any, Any]:
        split = digits_split()
        return split.X, split.y

    return Workload("digits 64-128-10, batch 64", make, data, 64)
