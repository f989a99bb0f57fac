"""The losses that are a mean of values, one for each entry of the prediction or each row of it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ._loss import Loss

# (prediction, target, *numbers) -> the values and their derivatives by the prediction, in the prediction's shape.
Formula = Callable[..., tuple[jax.Array, jax.Array]]


class MeanLoss(Loss):
    """A loss that is the mean of values, weighted by sample where the samples have weights.

    L = sum_i w_i v_i / sum_i w_i; gradient w_i dv_i / sum_i w_i. A weight of 0 equals the sample's absence.

    A subclass writes `formula`.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import L1
        >>> loss = L1()
        >>> prediction, target = jnp.array([1.0, 2.0, jnp.nan]), jnp.zeros(3)
        >>> float(loss.forward(prediction, target, jnp.array([1.0, 3.0, 0.0]))), loss.backward().tolist()
        (1.75, [0.25, 0.75, 0.0])
    """

    def formula(self, prediction: jax.Array, target: jax.Array) -> tuple[Formula, tuple[float, ...]]:
        """The formula for arrays like these, and its numbers.

        Raises:
            ValueError: prediction and target do not fit each other.
        """
        raise NotImplementedError(f"{type(self).__name__} must write formula(prediction, target)")

    def forward(self, prediction: jax.Array, target: jax.Array, sample_weight: jax.Array | None = None) -> jax.Array:
        """The loss, a scalar.

        Args:
            prediction: float array.
            target: array that the loss takes with it.
            sample_weight: (samples,) or any further axes of the values, 0 or more; None for 1 each.
        """
        self.require_arrays(prediction, target)
        formula, numbers = self.formula(prediction, target)
        self.require_float(prediction, "prediction")
        if sample_weight is not None:
            self.require(
                prediction.shape[: sample_weight.ndim] == sample_weight.shape,
                f"sample_weight must have the first axes of the prediction {prediction.shape}",
                sample_weight__shape=sample_weight.shape,
            )
        value, slopes, scale = _mean(formula, prediction, target, sample_weight, *numbers)
        self.keep(slopes, scale)
        return value

    def backward(self) -> jax.Array:
        """The gradient of the prediction, same shape."""
        return _mean_backward(*self.take())

    def require_same_shape(self, prediction: jax.Array, target: jax.Array) -> None:
        """Raises a ValueError unless prediction and target have the same shape."""
        self.require(
            prediction.shape == target.shape,
            "prediction and target must have the same shape",
            prediction__shape=prediction.shape,
            target__shape=target.shape,
        )


@partial(jax.jit, static_argnums=0)
def _mean(formula: Formula, prediction: Any, target: Any, weight: Any, *numbers: float) -> tuple[Any, Any, Any]:
    values, slopes = formula(prediction, target, *numbers)
    slopes = slopes.astype(prediction.dtype)
    if weight is None:
        return values.mean(), slopes, jnp.full((), 1 / values.size, slopes.dtype)
    if weight.ndim > values.ndim:
        raise ValueError(
            f"sample_weight must have at most the axes of the loss's values {values.shape}. "
            f"Received: sample_weight.shape={weight.shape}"
        )
    weights = jnp.broadcast_to(spread(weight, values.ndim), values.shape).astype(values.dtype)
    total = weights.sum()
    total = jnp.where(total == 0, 1, total)
    # What has no weight adds nothing, though it be NaN.
    value = jnp.where(weights == 0, 0, values * weights).sum() / total
    return value, jnp.where(spread(weight, slopes.ndim) == 0, 0, slopes), spread(weight, slopes.ndim) / total


@jax.jit
def _mean_backward(slopes: jax.Array, scale: jax.Array) -> jax.Array:
    return slopes * scale.astype(slopes.dtype)


def spread(weight: jax.Array, ndim: int) -> jax.Array:
    """Weights of first axes, with axes of length 1 for the others."""
    return weight.reshape(weight.shape + (1,) * (ndim - weight.ndim))
