"""A polynomial decline to an end value."""

import math

from ._requirements import at_most_one, non_negative, positive
from ._schedule import Schedule


class PolynomialLR(Schedule):
    """A factor that falls from 1 to end along a power of the epochs that remain.

        eta = end + (1 - end) * (1 - epoch / epochs) ** power

    First value 1; last value end, reached at epoch = epochs and kept after it. Power 1 is a straight line.

    Args:
        epochs: length of the decline in epochs, may be fractional, > 0.
        power: exponent, > 0.
        end: last value, in [0, 1].

    Raises:
        ValueError: if an argument, or the epoch later, is not as stated.

    Source:
        The "poly" policy of Chen et al. 2018, "DeepLab: Semantic Image Segmentation with Deep Convolutional
        Nets, Atrous Convolution, and Fully Connected CRFs".

    Example:
        >>> schedule = PolynomialLR(epochs=4, power=2)
        >>> [schedule(epoch) for epoch in (0, 2, 4, 5)]
        [1.0, 0.25, 0.0, 0.0]
    """

    def __init__(self, epochs: float, power: float = 1.0, end: float = 0.0) -> None:
        self.epochs = positive("epochs", epochs)
        self.power = positive("power", power)
        self.end = at_most_one("end", end)

    def multiplier(self, epoch: float) -> float:
        """Compute eta_t; see `Schedule.multiplier`."""
        remaining = 1 - min(non_negative("epoch", epoch) / self.epochs, 1)
        return self.end + (1 - self.end) * math.pow(remaining, self.power)
