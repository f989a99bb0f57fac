"""What every peer trains: the network, its first weights, the data and the optimiser, handed over as one file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from da_layers import Conv2D, Dense, Flatten, Layer, ReLU, Sequential, mlp, transformer_encoder

from .._digits import digits_split


@dataclass(frozen=True)
class Task:
    """A network to train, and on what.

    Attributes:
        name: what tables call it.
        kind: which network a peer is to build: "mlp", "cnn" or "transformer".
        model: our own of that kind; the file has its weights by path.
        loss: "cross_entropy" with integer labels, or "mse".
        optimizer: "sgd" or "adam".
        lr: learning rate.
        batch_size: samples in a batch; a short last one is left out, and the order stays.
        data: (X, y), float32 and int32 or float32.
        epochs: epochs that one turn of a measurement takes.
        compared: first epochs whose losses must be those of ours.
    """

    name: str
    kind: str
    model: Callable[[], Layer]
    loss: str
    optimizer: str
    lr: float
    batch_size: int
    data: Callable[[], tuple[Any, Any]]
    epochs: int
    compared: int = 3

    def write(self, path: Path) -> int:
        """Writes all of it into an .npz file that needs NumPy alone to be read; returns the steps of an epoch."""
        X, y = self.data()
        contents: dict[str, Any] = {f"weights.{path}": value for path, value in self.model().state_dict().items()}
        contents |= {"X": np.asarray(X, np.float32), "y": np.asarray(y), "kind": self.kind}
        contents |= {"loss": self.loss, "optimizer": self.optimizer, "lr": self.lr, "batch_size": self.batch_size}
        np.savez(path, allow_pickle=False, **contents)
        return len(X) // self.batch_size


def small_cnn() -> Layer:
    """Two convolutions and a Dense, for images of 8x8."""
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    convolutions = Conv2D(1, 16, 3, keys[0], padding="valid"), ReLU(), Conv2D(16, 32, 3, keys[1], padding="valid")
    return Sequential(*convolutions, ReLU(), Flatten(), Dense(512, 10, keys[2]))


def _digits() -> tuple[Any, Any]:
    split = digits_split()
    return split.X, split.y


def _images() -> tuple[Any, Any]:
    X, y = _digits()
    return X.reshape(-1, 8, 8, 1), y


def _normal() -> tuple[Any, Any]:
    shape = (8 * 256, 512)
    return jax.random.normal(jax.random.PRNGKey(1), shape), jax.random.normal(jax.random.PRNGKey(2), shape)


def _sequences() -> tuple[Any, Any]:
    X = jax.random.normal(jax.random.PRNGKey(1), (32, 128, 64))
    return X, jax.random.randint(jax.random.PRNGKey(2), (32,), 0, 10)


TASKS = {
    "digits": Task(
        "digits 64-128-10, batch 64, Adam",
        "mlp",
        lambda: mlp([64, 128, 10], jax.random.PRNGKey(0)),
        "cross_entropy",
        "adam",
        1e-3,
        64,
        _digits,
        100,
    ),
    "mlp": Task(
        "mlp 4x512, batch 256, SGD",
        "mlp",
        lambda: mlp([512] * 5, jax.random.PRNGKey(0)),
        "mse",
        "sgd",
        0.01,
        256,
        _normal,
        20,
    ),
    # After an epoch of 22 steps rounding has grown past the fourth digit.
    "cnn": Task(
        "cnn 16-32, digits 8x8, batch 64, Adam", "cnn", small_cnn, "cross_entropy", "adam", 1e-3, 64, _images, 20, 1
    ),
    "transformer": Task(
        "transformer 4x256, seq 128, batch 32, SGD",
        "transformer",
        lambda: transformer_encoder(64, 256, 4, 1024, 4, 10, jax.random.PRNGKey(0)),
        "cross_entropy",
        "sgd",
        0.003,
        32,
        _sequences,
        3,
    ),
}
