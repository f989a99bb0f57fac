"""Two schedules, one after the other."""

from ._requirements import non_negative, positive
from ._schedule import Observer, Schedule, at_boundary, check_schedule, joined_observer


class JoinedLR(Schedule):
    """A factor that follows one schedule, and from an epoch on another, whose own epochs begin there.

        eta = first.multiplier(epoch)              while epoch < epochs
        eta = second.multiplier(epoch - epochs)    from epoch = epochs on

    First value that of `first`, last value that of `second`. Join joined ones for more than two.

    Args:
        first: the schedule that begins.
        epochs: when the other takes over, may be fractional, > 0.
        second: the schedule that takes over.

    Raises:
        ValueError: if an argument, or the epoch later, is not as stated.

    Example:
        >>> from da_optim import ConstantLR, CosineLR
        >>> schedule = JoinedLR(ConstantLR(), 10, CosineLR(4))
        >>> [round(schedule(epoch), 6) for epoch in (0, 10, 12, 14)]
        [1.0, 1.0, 0.5, 0.0]
    """

    def __init__(self, first: Schedule, epochs: float, second: Schedule) -> None:
        self.first, self.second = check_schedule("first", first), check_schedule("second", second)
        self.epochs = positive("epochs", epochs)

    @property
    def observe(self) -> Observer | None:
        """Tells the schedule whose epoch it was, where one of the two goes by the loss."""
        return joined_observer(self.first, self.epochs, self.second)

    def multiplier(self, epoch: float) -> float:
        """Compute eta_t; see `Schedule.multiplier`."""
        if at_boundary(non_negative("epoch", epoch)) < self.epochs:
            return self.first.multiplier(epoch)
        return self.second.multiplier(max(epoch - self.epochs, 0.0))
