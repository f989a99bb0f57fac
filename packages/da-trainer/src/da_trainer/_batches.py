"""The batches of one epoch or more, gathered on the device."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import jax
import numpy as np
from da_layers import Loss
from jax import lax

from ._data import Data
from ._step import Watch
from ._values import index_scalar


class Batches:
    """The batches of one pass over the data or more, one after another.

    Args:
        data: checked arrays.
        batch_size: samples in a batch; the last one of a pass may be shorter.
        orders: the order of the samples in each epoch; None for the order they have.
        drop_last: leave out a last batch that is shorter.
        epochs: the number of each pass.

    Attributes:
        sizes: number of samples in each batch of a pass.
        batch_size: samples in a batch that is not short.
        data: the data.
        orders: as given.
        epochs: as given.
    """

    def __init__(
        self,
        data: Data,
        batch_size: int,
        orders: "Orders | None" = None,
        drop_last: bool = False,
        epochs: range = range(1),
    ) -> None:
        self.data, self.batch_size, self.orders, self.epochs = data, batch_size, orders, epochs
        end = data.samples - data.samples % batch_size if drop_last else data.samples
        self.sizes = [min(batch_size, data.samples - start) for start in range(0, end, batch_size)]

    def __len__(self) -> int:
        return len(self.sizes) * len(self.epochs)

    @property
    def most_epochs(self) -> int:
        """Epochs that one compiled call may go through: programs have room for the rates and orders of so many."""
        return max(1, min(_MOST_STEPS // len(self.sizes), _MOST_PLACES // self.data.samples))

    @cached_property
    def all_orders(self) -> jax.Array | None:
        """(most epochs, samples) int32, the orders of the epochs; None for the order that the samples have."""
        return None if self.orders is None else self.orders.of_all(self.epochs, self.most_epochs)

    def place(self, index: int) -> tuple[int, int]:
        """The number of the epoch that batch `index` is in, and its place there."""
        passes, place = divmod(index, len(self.sizes))
        return self.epochs[passes], place

    def source(self, epoch: int) -> tuple[Any, jax.Array | None]:
        """(arrays, order), of which `gather` makes a batch of the epoch."""
        return self.data.arrays, None if self.orders is None else self.orders.of(epoch)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        """The arrays of batch `index`."""
        epoch, place = self.place(index)
        return _gather(*self.source(epoch), index_scalar(place * self.batch_size), size=self.sizes[place])

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

    def mean_over_samples(self, losses: Any, counted: Any = True, epoch: int = 0) -> float:
        """The mean of the losses of a pass, each weighed by its batch's samples; over those that are `counted`.

        Where samples count differently, as by weights, each loss is weighed by what its batch's samples count.
        """
        weights = np.where(counted, self._weights(epoch), 0)
        total = weights.sum()
        # What does not count adds nothing, though it be NaN.
        return float((np.where(weights > 0, losses, 0) * weights).sum() / total) if total else np.nan

    @cached_property
    def _sizes(self) -> np.ndarray:
        return np.array(self.sizes, np.float64)

    def _weights(self, epoch: int) -> np.ndarray:
        of_samples = self.data.counts
        if of_samples is None:
            return self._sizes
        if self.orders is not None:
            of_samples = of_samples[self.orders.on_host(epoch)]
        return np.array([of_samples[i * self.batch_size :][:size].sum() for i, size in enumerate(self.sizes)])


# Steps, and entries of all orders, that a program has room for.
_MOST_STEPS, _MOST_PLACES = 4096, 2**20


class Orders:
    """The orders of the samples, epoch by epoch, each by the key, the epoch's number and the count of samples alone.

    NumPy makes them, several times faster than a sort on the device would, and mostly while the device is busy.

    Args:
        key: random key.
        samples: how many there are.
    """

    def __init__(self, key: jax.Array, samples: int) -> None:
        self._seed = jax.device_get(jax.random.key_data(key)).ravel().tolist()
        self._samples = samples
        # The last one asked for: an epoch asks for its own again and again.
        self._last: tuple[int, jax.Array] | None = None

    def on_host(self, epoch: int) -> np.ndarray:
        """(samples,) int32, the order of an epoch."""
        generator = np.random.Generator(np.random.Philox([*self._seed, epoch]))
        return generator.permutation(self._samples).astype(np.int32)

    def of(self, epoch: int) -> jax.Array:
        """(samples,) int32, the order of an epoch, on the device."""
        if self._last is None or self._last[0] != epoch:
            self._last = epoch, jax.device_put(self.on_host(epoch))
        return self._last[1]

    def of_all(self, epochs: range, room: int) -> jax.Array:
        """(room, samples) int32, the orders of the epochs, zeros behind them, on the device."""
        orders = np.zeros((room, self._samples), np.int32)
        for order, epoch in zip(orders, epochs, strict=False):
            order[:] = self.on_host(epoch)
        return jax.device_put(orders)


def gather(arrays: Any, order: jax.Array | None, start: jax.Array, size: int) -> Any:
    """The batch of `size` samples from place `start` of the order on; exact, as nothing is computed."""
    if order is None:
        return jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, start, size), arrays)
    rows = lax.dynamic_slice_in_dim(order, start, size)
    return jax.tree.map(lambda a: a.at[rows].get(mode="promise_in_bounds"), arrays)


_gather = jax.jit(gather, static_argnames="size")
