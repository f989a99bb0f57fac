"""MSE."""

import jax

from ._mean_loss import Formula, MeanLoss


class MSE(MeanLoss):
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

    def formula(self, prediction: jax.Array, target: jax.Array) -> tuple[Formula, tuple[float, ...]]:
        """For a float prediction and a target of the same shape."""
        self.require_same_shape(prediction, target)
        return _square, ()


def _square(prediction: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    difference = prediction - target
    return difference * difference, 2 * difference
