"""A constant rate of decline."""

import math

from ._requirements import non_negative, positive
from ._schedule import Schedule


class ExponentialLR(Schedule):
    """A factor that changes by gamma in every epoch, smoothly within it.

        eta = gamma ** epoch

    First value 1; no last value, it goes on for ever.

    Args:
        gamma: the factor of one epoch, > 0.

    Raises:
        ValueError: if gamma, or the epoch later, is not as stated.

    Source:
        `torch.optim.lr_scheduler.ExponentialLR`, here for fractional epochs too.

    Example:
        >>> schedule = ExponentialLR(gamma=0.25)
        >>> [schedule(epoch) for epoch in (0, 0.5, 1, 2)]
        [1.0, 0.5, 0.25, 0.0625]
    """

    def __init__(self, gamma: float) -> None:
        self.gamma = positive("gamma", gamma)

    def multiplier(self, epoch: float) -> float:
        """Compute eta_t; see `Schedule.multiplier`."""
        return math.pow(self.gamma, non_negative("epoch", epoch))
