"""Equal drops at equal distances."""

from ._requirements import non_negative, positive
from ._schedule import Schedule, whole_periods


class StepLR(Schedule):
    """A factor that is multiplied by gamma every step_size epochs.

        eta = gamma ** floor(epoch / step_size)

    First value 1; no last value, it goes on for ever. The drop counts from the boundary itself on: at
    epoch = step_size the factor is gamma, also where rounding puts the quotient just below the whole number.

    Args:
        step_size: epochs from one drop to the next, may be fractional, > 0.
        gamma: what a drop multiplies by, > 0.

    Raises:
        ValueError: if an argument, or the epoch later, is not as stated.

    Source:
        Goyal et al. 2017, "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", section 5.1, in equal
        steps; `torch.optim.lr_scheduler.StepLR`.

    Example:
        >>> schedule = StepLR(step_size=30, gamma=0.5)
        >>> [schedule(epoch) for epoch in (0, 29.9, 30, 60)]
        [1.0, 1.0, 0.5, 0.25]
    """

    def __init__(self, step_size: float, gamma: float = 0.1) -> None:
        self.step_size = positive("step_size", step_size)
        self.gamma = positive("gamma", gamma)

    def multiplier(self, epoch: float) -> float:
        """Compute eta_t; see `Schedule.multiplier`."""
        return self.gamma ** whole_periods(non_negative("epoch", epoch) / self.step_size)
