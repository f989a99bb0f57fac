"""The contract of a loss."""

from typing import Any

import jax

from .._calls import Keeps, track_methods


class Loss(Keeps):
    """An object that maps a prediction and a target to one number, and gives the gradient of the prediction.

    A subclass writes `forward`, which hands what backward needs to `self.keep(...)`, and `backward`, which gets it
    from `self.take()`. It may also write `check_labels`.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        track_methods(cls)

    def forward(self, prediction: Any, target: Any) -> jax.Array:
        """The loss, a scalar: the mean over the samples."""
        raise NotImplementedError(f"{type(self).__name__} must write forward(prediction, target)")

    def backward(self) -> Any:
        """The gradient of the last forward's prediction, of the prediction's shape."""
        raise NotImplementedError(f"{type(self).__name__} must write backward()")

    def check_labels(self, prediction: Any, lowest: int, highest: int) -> None:
        """Raises a ValueError where integer targets from `lowest` to `highest` do not fit the prediction.

        Called before the first step with the prediction's shape and the range of the integer targets; any integer
        will do for a loss that does not override it.
        """
