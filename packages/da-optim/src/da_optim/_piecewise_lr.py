"""A factor that is set anew at given epochs."""

from bisect import bisect_right
from collections.abc import Mapping

from ._requirements import non_negative, positive
from ._schedule import Schedule, at_boundary


class PiecewiseLR(Schedule):
    """A factor that is 1, and from given epochs on another.

        eta = factors[e] with e the last of the epochs <= epoch, 1 before the first

    First value 1, last value that of the last epoch.

    Args:
        factors: the factor by the epoch from which it counts; epochs may be fractional, > 0, factors >= 0.

    Raises:
        ValueError: if an argument, or the epoch later, is not as stated.

    Source:
        He et al. 2016, "Deep Residual Learning for Image Recognition", section 4.2.

    Example:
        >>> schedule = PiecewiseLR({30: 0.1, 60: 0.01})
        >>> [schedule(epoch) for epoch in (0, 29.9, 30, 75)]
        [1.0, 1.0, 0.1, 0.01]
    """

    def __init__(self, factors: Mapping[float, float]) -> None:
        if not isinstance(factors, Mapping):
            raise ValueError(f"factors must be a dict of factors by epoch. Received: factors={factors!r}")
        checked = [(positive("epoch", epoch), non_negative("factor", factor)) for epoch, factor in factors.items()]
        self.factors = dict(sorted(checked))

    def multiplier(self, epoch: float) -> float:
        """Compute eta_t; see `Schedule.multiplier`."""
        place = bisect_right([*self.factors], at_boundary(non_negative("epoch", epoch)))
        return [1.0, *self.factors.values()][place]
