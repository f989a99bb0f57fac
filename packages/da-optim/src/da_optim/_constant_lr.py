"""The learning rate as it is."""

from ._requirements import non_negative
from ._schedule import Schedule


class ConstantLR(Schedule):
    """A factor of 1 at every epoch.

    Example:
        >>> ConstantLR()(7.5)
        1.0
    """

    def multiplier(self, epoch: float) -> float:
        """Give 1."""
        non_negative("epoch", epoch)
        return 1.0
