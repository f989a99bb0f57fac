"""Cosine declines, each begun anew at full height."""

import math

from ._requirements import at_least_one, at_most_one, non_negative, positive
from ._schedule import Schedule, whole_periods


class CosineWarmRestarts(Schedule):
    """A factor that falls from 1 towards end along half a cosine, again and again.

        eta = end + (1 - end) * (1 + cos(pi * T_cur / T_i)) / 2

    T_cur is the number of epochs since the last restart, T_i = first_period * factor ** i the length of the
    period i = 0, 1, ... First value 1; no last value. A restart counts from the boundary itself on: at
    epoch = first_period the factor is 1, also where rounding puts the epoch just below it.

    Args:
        first_period: epochs of the first period (T_0), may be fractional, > 0.
        factor: each period's length over that of the one before (T_mult), >= 1.
        end: what each decline runs towards, in [0, 1].

    Raises:
        ValueError: if an argument, or the epoch later, is not as stated.

    Source:
        Loshchilov and Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", equation 5.

    Example:
        >>> schedule = CosineWarmRestarts(first_period=10, factor=2)
        >>> [round(schedule(epoch), 6) for epoch in (0, 5, 10, 20, 30)]
        [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    def __init__(self, first_period: float, factor: float = 1.0, end: float = 0.0) -> None:
        self.first_period = positive("first_period", first_period)
        self.factor = at_least_one("factor", factor)
        self.end = at_most_one("end", end)

    def multiplier(self, epoch: float) -> float:
        """Compute eta_t; see `Schedule.multiplier`."""
        progress = self._progress(non_negative("epoch", epoch) / self.first_period)
        return self.end + (1 - self.end) * (1 + math.cos(math.pi * progress)) / 2

    def _progress(self, time: float) -> float:
        """Find T_cur / T_i at a time counted in first periods."""
        growth = self.factor - 1
        if growth == 0:
            return time - whole_periods(time)
        # Period i begins at 1 + factor + ... + factor ** (i - 1) = (factor ** i - 1) / growth.
        period = whole_periods(math.log1p(time * growth) / math.log1p(growth))
        length = self.factor**period
        return (time - (length - 1) / growth) / length
