"""One rise and one fall over the whole training."""

import math

from ._requirements import at_most_one, non_negative, positive
from ._schedule import Schedule


class OneCycleLR(Schedule):
    """A factor that rises from start to 1 and falls to end, each along half a cosine.

        eta = start + (1 - start) * (1 - cos(pi * epoch / (rise * epochs))) / 2        while epoch < rise * epochs
        eta = end + (1 - end) * (1 + cos(pi * (epoch / epochs - rise) / (1 - rise))) / 2    then

    First value start; last value end, from epoch = epochs on. The optimiser's lr is the highest learning rate.

    Args:
        epochs: length of the cycle in epochs, may be fractional, > 0.
        rise: share of the cycle that rises, in [0, 1].
        start: first value, in [0, 1].
        end: last value, in [0, 1].

    Raises:
        ValueError: if an argument, or the epoch later, is not as stated.

    Source:
        Smith and Topin 2018, "Super-Convergence: Very Fast Training of Neural Networks Using Large Learning
        Rates", section 3; cosines in place of straight lines as in fastai and PyTorch, whose defaults these are.

    Example:
        >>> schedule = OneCycleLR(epochs=10)
        >>> [round(schedule(epoch), 6) for epoch in (0, 1.5, 3, 6.5, 10)]
        [0.04, 0.52, 1.0, 0.500002, 4e-06]
    """

    def __init__(self, epochs: float, rise: float = 0.3, start: float = 0.04, end: float = 4e-6) -> None:
        self.epochs = positive("epochs", epochs)
        self.rise, self.start, self.end = (
            at_most_one("rise", rise),
            at_most_one("start", start),
            at_most_one("end", end),
        )

    def multiplier(self, epoch: float) -> float:
        """Compute eta_t; see `Schedule.multiplier`."""
        progress = non_negative("epoch", epoch) / self.epochs
        if progress >= 1:
            return self.end
        if progress < self.rise:
            return self.start + (1 - self.start) * (1 - math.cos(math.pi * progress / self.rise)) / 2
        return self.end + (1 - self.end) * (1 + math.cos(math.pi * (progress - self.rise) / (1 - self.rise))) / 2
