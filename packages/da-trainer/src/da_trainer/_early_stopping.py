"""Early stopping: watches the validation loss and remembers the best values."""

import math

from da_layers import Buffer, Param

from ._values import Parts, Values, read_values, write_values


class EarlyStopping:
    """Tells when the validation loss has stopped falling.

    Args:
        patience: epochs without an improvement after which to stop.
        min_delta: how much smaller a loss must be to count as an improvement.
    """

    def __init__(self, patience: int, min_delta: float) -> None:
        self._patience, self._min_delta = patience, min_delta
        self._best_loss, self._waited = math.inf, 0
        self._best: Values | None = None

    def update(self, parts: Parts, loss: float) -> bool:
        """Takes in an epoch's validation loss; remembers Params and Buffers if it is the best; True means stop."""
        if loss < self._best_loss - self._min_delta:
            self._best_loss, self._waited = loss, 0
            values = read_values(parts, slots=False).variables
            kept = {path: value for path, value in values.items() if isinstance(parts.variables[path], (Param, Buffer))}
            self._best = Values(kept, {})
        else:
            self._waited += 1
        return self._waited >= self._patience

    def restore(self, parts: Parts) -> None:
        """Puts back the best Params and Buffers, if there was any best."""
        if self._best is not None:
            write_values(parts, self._best)
