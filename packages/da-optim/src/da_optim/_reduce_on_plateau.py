"""A factor that shrinks where the loss no longer falls."""

import math

from ._requirements import at_most_one, below_one, non_negative
from ._schedule import Schedule


class ReduceOnPlateau(Schedule):
    """A factor that is multiplied by `factor` each time the loss has not fallen for some epochs.

        eta = max(end, factor ** k), k the number of plateaus so far

    A trainer calls `observe` with the loss after each epoch: the validation loss where there is one. A plateau is
    `patience` epochs in a row without a loss below best - min_delta; then the count begins anew. First value 1, last
    value end where there are plateaus enough.

    It counts what it is told: give each trainer an object of its own.

    Args:
        factor: what each plateau multiplies by, in [0, 1).
        patience: epochs of a plateau, an integer >= 1.
        min_delta: how much smaller a loss must be to have fallen, >= 0.
        end: smallest value, in [0, 1].

    Raises:
        ValueError: if an argument, or the epoch later, is not as stated.

    Source:
        The rule of Keras' ReduceLROnPlateau, without cooldown.

    Example:
        >>> schedule = ReduceOnPlateau(factor=0.5, patience=2)
        >>> for epoch, loss in enumerate((1.0, 0.9, 0.95, 0.92)):
        ...     schedule.observe(epoch + 1, loss)
        >>> schedule(4)
        0.5
    """

    def __init__(self, factor: float = 0.1, patience: int = 10, min_delta: float = 1e-4, end: float = 0.0) -> None:
        if isinstance(patience, bool) or not isinstance(patience, int) or patience < 1:
            raise ValueError(f"patience must be an integer >= 1. Received: patience={patience!r}")
        self.factor, self.patience = below_one("factor", factor), patience
        self.min_delta, self.end = non_negative("min_delta", min_delta), at_most_one("end", end)
        self._eta, self._best, self._waited = 1.0, math.inf, 0

    def observe(self, epoch: float, loss: float) -> None:
        """Takes in the loss of an epoch; one that is NaN has not fallen. The count of epochs plays no part."""
        if loss < self._best - self.min_delta:
            self._best, self._waited = loss, 0
            return
        self._waited += 1
        if self._waited == self.patience:
            self._eta, self._waited = max(self.end, self._eta * self.factor), 0

    def multiplier(self, epoch: float) -> float:
        """Compute eta_t, the same for all epochs until `observe` is called; see `Schedule.multiplier`."""
        non_negative("epoch", epoch)
        return self._eta
