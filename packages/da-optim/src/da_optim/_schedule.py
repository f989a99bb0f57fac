"""What a schedule is."""

import math
from abc import ABC, abstractmethod


class Schedule(ABC):
    """A factor for the learning rate as a function of the epoch.

    The epoch is fractional: step i of n in epoch e is at e + i / n, counted from 0. The factor is eta_t of
    Loshchilov and Hutter 2019: the learning rate is lr * eta_t, the decoupled decay eta_t * weight_decay.
    A schedule is plain Python arithmetic on floats and is never traced, so a subclass may use `if` freely.

    Example:
        >>> class Halves(Schedule):
        ...     def multiplier(self, epoch):
        ...         return 1.0 if epoch < 10 else 0.5
        >>> Halves()(12.5)
        0.5
    """

    @abstractmethod
    def multiplier(self, epoch: float) -> float:
        """Compute eta_t.

        Args:
            epoch: epochs since training began, fractional, >= 0.

        Returns:
            The factor for the learning rate.
        """

    def __call__(self, epoch: float) -> float:
        """Compute eta_t; the same as `multiplier`."""
        return self.multiplier(epoch)


def at_boundary(epoch: float) -> float:
    """The epoch, where rounding may have put it just below a boundary: a hair higher."""
    return epoch * (1 + 1e-12)


def whole_periods(ratio: float) -> int:
    """Count the whole periods in a ratio, taking 2.9999999999999996 for the 3 it was before rounding.

    0.3 / 0.1 is such a ratio: the epoch lies on a boundary, its floating-point quotient just below.
    """
    return math.floor(at_boundary(ratio))
