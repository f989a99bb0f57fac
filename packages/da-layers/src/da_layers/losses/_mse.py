"""MSE."""

import jax

from ._loss import Loss


class MSE(Loss):
    """Mean squared error.

    L = mean((prediction - target)^2) over all entries; gradient 2 (prediction - target) / number of entries.

    Raises:
        ValueError: prediction and target have different shapes, or the prediction's dtype is not a float.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import MSE
        >>> loss = MSE()
        >>> float(loss.forward(jnp.array([1.0, 3.0]), jnp.array([0.0, 1.0]))), loss.backward().tolist()
        (2.5, [1.0, 2.0])
    """

    def forward(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        """The loss, a scalar, for a float prediction and a target of the same shape."""
        self.require_arrays(prediction, target)
        self.require(
            prediction.shape == target.shape,
            "prediction and target must have the same shape",
            prediction__shape=prediction.shape,
            target__shape=target.shape,
        )
        self.require_float(prediction, "prediction")
        value, difference = _mse(prediction, target)
        self.keep(difference)
        return value

    def backward(self) -> jax.Array:
        """The gradient of the prediction, same shape."""
        (difference,) = self.take()
        return _mse_backward(difference)


@jax.jit
def _mse(prediction: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    difference = prediction - target
    return (difference * difference).mean(), difference.astype(prediction.dtype)


@jax.jit
def _mse_backward(difference: jax.Array) -> jax.Array:
    return difference * (2 / difference.size)
