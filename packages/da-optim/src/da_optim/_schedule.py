"""What a schedule is."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

Observer = Callable[[float, float], None]


class Schedule(ABC):
    """A factor for the learning rate as a function of the epoch.

    The epoch is fractional: step i of n in epoch e is at e + i / n, counted from 0. The factor is eta_t of
    Loshchilov and Hutter 2019: the learning rate is lr * eta_t, the decoupled decay eta_t * weight_decay.
    A schedule is plain Python arithmetic on floats and is never traced, so a subclass may use `if` freely. A trainer
    may ask for many epochs ahead of training them; where `observe` is not None, for one at a time.

    Example:
        >>> class Halves(Schedule):
        ...     def multiplier(self, epoch):
        ...         return 1.0 if epoch < 10 else 0.5
        >>> Halves()(12.5)
        0.5
    """

    @property
    def observe(self) -> Observer | None:
        """What takes in the epochs trained so far, and the loss of the last, in validation where there is one.

        None where the schedule goes by the epoch alone.
        """
        return None

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


def check_schedule(name: str, schedule: Any) -> Schedule:
    """Require an object with `multiplier`.

    Args:
        name: the argument's, for the message.
        schedule: what came.

    Raises:
        ValueError: it has no `multiplier`, or is a class.

    Example:
        >>> from da_optim import StepLR, check_schedule
        >>> check_schedule("schedule", StepLR(step_size=10))(10)
        0.1
    """
    if not callable(getattr(schedule, "multiplier", None)) or isinstance(schedule, type):
        raise ValueError(f"{name} must be an object with multiplier(epoch). Received: {name}={schedule!r}")
    return schedule


def joined_observer(first: Schedule | None, epochs: float, second: Schedule) -> Observer | None:
    """What tells the loss to `first` up to an epoch, then to `second`; None where neither goes by it."""
    of_first, of_second = (getattr(schedule, "observe", None) for schedule in (first, second))
    if of_first is None and of_second is None:
        return None

    def observe(epoch: float, loss: float) -> None:
        # An epoch that ends where the second begins was the first's.
        after = epoch > at_boundary(epochs)
        if after and of_second is not None:
            of_second(epoch - epochs, loss)
        elif not after and of_first is not None:
            of_first(epoch, loss)

    return observe


def at_boundary(epoch: float) -> float:
    """The epoch, where rounding may have put it just below a boundary: a hair higher."""
    return epoch * (1 + 1e-12)


def whole_periods(ratio: float) -> int:
    """Count the whole periods in a ratio, taking 2.9999999999999996 for the 3 it was before rounding.

    0.3 / 0.1 is such a ratio: the epoch lies on a boundary, its floating-point quotient just below.
    """
    return math.floor(at_boundary(ratio))
