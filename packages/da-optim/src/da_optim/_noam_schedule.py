"""The schedule of the Transformer."""

import math

from ._requirements import non_negative, positive
from ._schedule import Schedule


class NoamSchedule(Schedule):
    """A factor that rises to 1 in a straight line, then falls with the inverse square root of the epoch.

        eta = min(epoch / warmup, sqrt(warmup / epoch))

    First value 0, so the first step of training moves nothing; peak 1 at epoch = warmup; no last value, it
    falls for ever towards 0. The paper's learning rate is lr * eta with lr = 1 / sqrt(d_model * W), where
    W is the warmup counted in steps.

    Args:
        warmup: epochs of the rise, may be fractional, > 0.

    Raises:
        ValueError: if warmup, or the epoch later, is not as stated.

    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 5.3, equation 3, divided by its peak.

    Example:
        >>> schedule = NoamSchedule(warmup=4)
        >>> [schedule(epoch) for epoch in (0, 2, 4, 16)]
        [0.0, 0.5, 1.0, 0.5]
    """

    def __init__(self, warmup: float) -> None:
        self.warmup = positive("warmup", warmup)

    def multiplier(self, epoch: float) -> float:
        """Compute eta_t; see `Schedule.multiplier`."""
        epoch = non_negative("epoch", epoch)
        return epoch / self.warmup if epoch < self.warmup else math.sqrt(self.warmup / epoch)
