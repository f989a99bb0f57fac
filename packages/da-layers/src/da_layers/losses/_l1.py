"""L1."""

import jax
import jax.numpy as jnp

from ._mean_loss import Formula, MeanLoss


class L1(MeanLoss):
    """Mean absolute error.

    L = mean(|prediction - target|) over all entries; gradient sign(prediction - target) / number of entries.

    Raises:
        ValueError: prediction and target have different shapes, or the prediction's dtype is not a float.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import L1
        >>> loss = L1()
        >>> float(loss.forward(jnp.array([1.0, 3.0]), jnp.array([0.0, 5.0]))), loss.backward().tolist()
        (1.5, [0.5, -0.5])
    """

    def formula(self, prediction: jax.Array, target: jax.Array) -> tuple[Formula, tuple[float, ...]]:
        """For a float prediction and a target of the same shape."""
        self.require_same_shape(prediction, target)
        return _absolute, ()


def _absolute(prediction: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    difference = prediction - target
    return jnp.abs(difference), jnp.sign(difference)
