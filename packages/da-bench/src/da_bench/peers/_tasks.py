"""What every peer trains: the network, its first weights, the data and the optimiser, handed over as one file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from da_layers import mlp

from .._digits import digits_split


@dataclass(frozen=True)
class Task:
    """Dense layers with ReLU between them.

    Attributes:
        name: what tables call it.
        widths: entries of the input, each hidden layer and the output.
        loss: "cross_entropy" with integer labels, or "mse".
        optimizer: "sgd" or "adam".
        lr: learning rate.
        batch_size: samples in a batch; a short last one is left out, and the order stays.
        data: (X, y), float32 and int32 or float32.
    """

    name: str
    widths: tuple[int, ...]
    loss: str
    optimizer: str
    lr: float
    batch_size: int
    data: Callable[[], tuple[Any, Any]]

    def write(self, path: Path) -> int:
        """Writes all of it into an .npz file that needs NumPy alone to be read; returns the steps of an epoch."""
        X, y = self.data()
        model = mlp(list(self.widths), jax.random.PRNGKey(0))
        contents: dict[str, Any] = {f"parameter_{i}": param.value for i, param in enumerate(model.params())}
        contents |= {"X": np.asarray(X, np.float32), "y": np.asarray(y), "widths": np.array(self.widths)}
        contents |= {"loss": self.loss, "optimizer": self.optimizer, "lr": self.lr, "batch_size": self.batch_size}
        np.savez(path, allow_pickle=False, **contents)
        return len(X) // self.batch_size


def _digits() -> tuple[Any, Any]:
    split = digits_split()
    return split.X, split.y


def _normal() -> tuple[Any, Any]:
    shape = (8 * 256, 512)
    return jax.random.normal(jax.random.PRNGKey(1), shape), jax.random.normal(jax.random.PRNGKey(2), shape)


TASKS = {
    "digits": Task("digits 64-128-10, batch 64, Adam", (64, 128, 10), "cross_entropy", "adam", 1e-3, 64, _digits),
    "mlp": Task("mlp 4x512, batch 256, SGD", (512,) * 5, "mse", "sgd", 0.01, 256, _normal),
}
