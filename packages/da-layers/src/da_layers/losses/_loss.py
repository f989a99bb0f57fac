"""The contract of a loss."""

from typing import Any

import jax

from .._calls import Keeps


class Loss(Keeps):
    """An object that maps a prediction and a target to one number, and gives the gradient of the prediction.

    A subclass writes `forward`, which hands what backward needs to `self.keep(...)`, and `backward`, which gets it
    from `self.take()`. It may also write `counted`, `check_labels` and `check_targets`.

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

    def counted(self, target: Any, sample_weight: jax.Array | None = None) -> jax.Array | None:
        """How much each sample counts in a mean over several batches: (samples,); None where all count alike.

        Args:
            target: as for `forward`.
            sample_weight: (samples, ...), what `forward` weighs the samples by.
        """
        return None if sample_weight is None else sample_weight.reshape(len(sample_weight), -1).sum(1)

    def check_labels(self, prediction: Any, lowest: int, highest: int) -> None:
        """Raises a ValueError where integer targets from `lowest` to `highest` do not fit the prediction.

        Called before the first step with the prediction's shape and the range of the integer targets; as
        `check_targets` for a loss that does not override it.
        """
        self.check_targets(lowest, highest)

    def check_targets(self, lowest: float, highest: float) -> None:
        """Raises a ValueError where the loss takes no targets from `lowest` to `highest`; any will do by default."""


_ROUNDING = 1e-3


def check_shares(loss: Loss, lowest: float, highest: float) -> None:
    """Raises a ValueError unless targets are from 0 to 1, but for rounding; the `check_targets` of some losses."""
    loss.require(
        lowest >= -_ROUNDING and highest <= 1 + _ROUNDING,
        "y must be from 0 to 1",
        **{"y.min()": lowest, "y.max()": highest},
    )


def _shapes(tree: Any) -> Any:
    """The same structure with the shape in the place of each array."""
    return jax.tree.map(lambda leaf: getattr(leaf, "shape", leaf), tree)
