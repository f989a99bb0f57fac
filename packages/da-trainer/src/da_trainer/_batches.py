"""The batches of an epoch, gathered on the device."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from da_layers import Loss
from jax import lax

from ._data import Data
from ._step import Watch
from ._values import index_scalar


class Batches:
    """The batches of one pass over the data.

    Args:
        data: checked arrays.
        batch_size: samples in a batch; the last one may be shorter.
        order: (samples,) int32, the order of the samples; None for the order they have.
        drop_last: leave out a last batch that is shorter.

    Attributes:
        sizes: number of samples in each batch.
        full: number of batches that are not short.
        batch_size: samples in a batch that is not short.
        data: the data.
        source: (arrays, order), of which `gather` makes a batch.
    """

    def __init__(self, data: Data, batch_size: int, order: jax.Array | None = None, drop_last: bool = False) -> None:
        self.data, self.batch_size, self.source = data, batch_size, (data.arrays, order)
        end = data.samples - data.samples % batch_size if drop_last else data.samples
        self._starts = range(0, end, batch_size)
        self.sizes = [min(batch_size, data.samples - start) for start in self._starts]
        self.full = sum(size == batch_size for size in self.sizes)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        """The arrays of batch `index`."""
        return _gather(*self.source, index_scalar(self._starts[index]), size=self.sizes[index])

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return (self[index] for index in range(len(self)))

    def check_labels(self, loss: Loss, prediction: Any) -> None:
        """Raises a ValueError where the integer targets do not fit the model's prediction."""
        if self.data.labels is not None:
            loss.check_labels(prediction, *self.data.labels)

    def watch(self, loss: Loss) -> Watch:
        """Checks the labels when the model's prediction is known."""

        def watch(phase: str, _: str, values: Any) -> None:
            if phase == "prediction":
                self.check_labels(loss, values)

        return watch

    def mean_over_samples(self, losses: Any, counted: Any = True) -> float:
        """The mean of the batches' losses, each weighed by its samples; over the batches that are `counted`."""
        weights = np.array(self.sizes, np.float64)
        kept = np.broadcast_to(counted, weights.shape)
        return float(np.average(np.asarray(losses, np.float64)[kept], weights=weights[kept])) if kept.any() else np.nan


class Orders:
    """The orders of the samples, epoch by epoch.

    Args:
        key: random key.
        samples: how many there are.
    """

    def __init__(self, key: jax.Array, samples: int) -> None:
        self._key, self._samples = key, samples
        self._prepared: dict[int, jax.Array] = {}

    def prepare(self, epoch: int) -> None:
        """Has an epoch's order made while the device is busy with the one before."""
        self._prepared = {epoch: shuffled(self._key, epoch, self._samples)}

    def of(self, epoch: int) -> jax.Array:
        """(samples,) int32, the order of an epoch."""
        if epoch not in self._prepared:
            self.prepare(epoch)
        return self._prepared[epoch]


def shuffled(key: jax.Array, epoch: int, samples: int) -> jax.Array:
    """The order of an epoch's samples; depends on the key, the epoch's number and the count of samples alone."""
    return _permutation(key, jax.device_put(np.uint32(epoch)), samples=samples)


@partial(jax.jit, static_argnames="samples")
def _permutation(key: jax.Array, epoch: jax.Array, *, samples: int) -> jax.Array:
    return jax.random.permutation(jax.random.fold_in(key, epoch), samples)


def gather(arrays: Any, order: jax.Array | None, start: jax.Array, size: int) -> Any:
    """The batch of `size` samples from place `start` of the order on; exact, as nothing is computed."""
    if order is None:
        return jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, start, size), arrays)
    rows = lax.dynamic_slice_in_dim(order, start, size)
    return jax.tree.map(lambda a: a.at[rows].get(mode="promise_in_bounds"), arrays)


_gather = jax.jit(gather, static_argnames="size")
