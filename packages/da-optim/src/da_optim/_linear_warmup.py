"""A straight rise before another schedule."""

from ._constant_lr import ConstantLR
from ._requirements import at_most_one, non_negative
from ._schedule import Observer, Schedule, check_schedule, joined_observer


class LinearWarmup(Schedule):
    """A factor that rises from start to 1 in a straight line, then follows another schedule.

        eta = start + (1 - start) * epoch / epochs           while epoch < epochs
        eta = after.multiplier(epoch - epochs)               from epoch = epochs on

    First value start: with 0 the first step of training moves nothing. Last value that of `after`, whose
    epochs begin at the end of the rise.

    Args:
        epochs: length of the rise in epochs, may be fractional, >= 0; 0 is no rise at all.
        start: first value, in [0, 1].
        after: the schedule that takes over; None for a factor of 1.

    Raises:
        ValueError: if an argument, or the epoch later, is not as stated.

    Source:
        Goyal et al. 2017, "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", section 2.2, gradual
        warmup.

    Example:
        >>> from da_optim import StepLR
        >>> schedule = LinearWarmup(epochs=2, after=StepLR(step_size=10, gamma=0.5))
        >>> [schedule(epoch) for epoch in (0, 1, 2, 11, 12)]
        [0.0, 0.5, 1.0, 1.0, 0.5]
    """

    def __init__(self, epochs: float, start: float = 0.0, after: Schedule | None = None) -> None:
        self.epochs = non_negative("epochs", epochs)
        self.start = at_most_one("start", start)
        self.after = ConstantLR() if after is None else check_schedule("after", after)

    @property
    def observe(self) -> Observer | None:
        """Tells `after` the loss of its epochs, where it goes by the loss."""
        return joined_observer(None, self.epochs, self.after)

    def multiplier(self, epoch: float) -> float:
        """Compute eta_t; see `Schedule.multiplier`."""
        epoch = non_negative("epoch", epoch)
        if epoch < self.epochs:
            return self.start + (1 - self.start) * epoch / self.epochs
        return self.after.multiplier(epoch - self.epochs)
