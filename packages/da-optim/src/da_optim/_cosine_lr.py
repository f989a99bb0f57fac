"""One half period of a cosine."""

import math

from ._requirements import at_most_one, non_negative, positive
from ._schedule import Schedule


class CosineLR(Schedule):
    """A factor that falls from 1 to end along half a cosine.

        eta = end + (1 - end) * (1 + cos(pi * epoch / epochs)) / 2

    First value 1; last value end, reached at epoch = epochs and kept after it.

    Args:
        epochs: length of the decline in epochs, may be fractional, > 0.
        end: last value, in [0, 1].

    Raises:
        ValueError: if an argument, or the epoch later, is not as stated.

    Source:
        Loshchilov and Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", equation 5,
        without a restart.

    Example:
        >>> schedule = CosineLR(epochs=10)
        >>> [round(schedule(epoch), 6) for epoch in (0, 5, 10, 11)]
        [1.0, 0.5, 0.0, 0.0]
    """

    def __init__(self, epochs: float, end: float = 0.0) -> None:
        self.epochs = positive("epochs", epochs)
        self.end = at_most_one("end", end)

    def multiplier(self, epoch: float) -> float:
        """Compute eta_t; see `Schedule.multiplier`."""
        progress = min(non_negative("epoch", epoch) / self.epochs, 1)
        return self.end + (1 - self.end) * (1 + math.cos(math.pi * progress)) / 2
