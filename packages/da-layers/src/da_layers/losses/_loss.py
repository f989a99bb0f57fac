"""The contract of a loss."""

from typing import Any

import jax

from .._calls import Keeps


class Loss(Keeps):
    """An object that maps a prediction and a target to one number, and gives the gradient of the prediction.

    A subclass writes `forward`, which hands what backward needs to `self.keep(...)`, and `backward`, which gets it
    from `self.take()`. It may also write `check_labels`.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import Loss
        >>> class MeanAbsoluteError(Loss):
        ...     def forward(self, prediction, target):
        ...         difference = prediction - target
        ...         self.keep(difference)
        ...         return jnp.abs(difference).mean()
        ...     def backward(self):
        ...         (difference,) = self.take()
        ...         return jnp.sign(difference) / difference.size
        >>> loss = MeanAbsoluteError()
        >>> float(loss.forward(jnp.array([1.0, 3.0]), jnp.array([0.0, 5.0]))), loss.backward().tolist()
        (1.5, [0.5, -0.5])
    """

    def forward(self, prediction: Any, target: Any) -> jax.Array:
        """The loss, a scalar: the mean over the samples."""
        raise NotImplementedError(f"{type(self).__name__} must write forward(prediction, target)")

    def backward(self) -> Any:
        """The gradient of the last forward's prediction, of the prediction's shape."""
        raise NotImplementedError(f"{type(self).__name__} must write backward()")

    def require_arrays(self, prediction: Any, target: Any) -> None:
        """Raises a ValueError with the shapes of both, unless prediction and target are an array each.

        A loss calls it first, so that a model with another structure of outputs than the loss takes is told so.
        """
        self.require(
            hasattr(prediction, "shape") and hasattr(target, "shape"),
            "prediction and target must be one array each",
            prediction=_shapes(prediction),
            target=_shapes(target),
        )

    def check_labels(self, prediction: Any, lowest: int, highest: int) -> None:
        """Raises a ValueError where integer targets from `lowest` to `highest` do not fit the prediction.

        Called before the first step with the prediction's shape and the range of the integer targets; any integer
        will do for a loss that does not override it.
        """


def _shapes(tree: Any) -> Any:
    """The same structure with the shape in the place of each array."""
    return jax.tree.map(lambda leaf: getattr(leaf, "shape", leaf), tree)
