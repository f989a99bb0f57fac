"""The rates of the steps of one epoch or more."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np

from ._step import Rates
from ._values import scalar


class StepRates(NamedTuple):
    """The rates of each step of one epoch or more.

    Attributes:
        lr: learning rate of each step, the schedule's multiplier included.
        eta: the schedule's multiplier of each step.
        weight_decay: lambda, 0 for no decay.
        clip_norm: largest norm of all gradients together, or None for no clipping.
    """

    lr: tuple[float, ...]
    eta: tuple[float, ...]
    weight_decay: float
    clip_norm: float | None

    def at(self, index: int) -> Rates:
        """The rates of one step, as float32 scalars on the device."""
        return self._rates(scalar(self.lr[index]), scalar(self.eta[index]))

    def stacked(self, room: int) -> Rates:
        """The rates of all steps: lr and eta as float32 arrays of `room` entries on the device."""
        return self._rates(_stacked(self.lr, room), _stacked(self.eta, room))

    def _rates(self, lr: jax.Array, eta: jax.Array) -> Rates:
        return Rates(
            lr,
            eta,
            scalar(self.weight_decay) if self.weight_decay else None,
            None if self.clip_norm is None else scalar(self.clip_norm),
        )


@lru_cache(maxsize=16)
def _stacked(values: Sequence[float], room: int) -> jax.Array:
    return jax.device_put(np.pad(np.array(values, np.float32), (0, room - len(values))))
