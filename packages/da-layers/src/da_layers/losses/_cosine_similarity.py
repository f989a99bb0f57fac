"""CosineSimilarity."""

import jax
import jax.numpy as jnp

from ._mean_loss import Formula, MeanLoss

# Squared lengths below count as this, so that a row of zeros has a gradient.
_LEAST = 1e-16


class CosineSimilarity(MeanLoss):
    """How far rows point away from the target's, whatever their lengths.

    L = mean over rows of 1 - p.t / (|p| |t|); gradient (p (p.t) / |p|^2 - t) / (|p| |t|) / number of rows. Lengths
    below 1e-8 count as 1e-8.

    Raises:
        ValueError: prediction and target have different shapes or no axis, or the prediction's dtype is not a float.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import CosineSimilarity
        >>> loss = CosineSimilarity()
        >>> float(loss.forward(jnp.array([[1.0, 0.0]]), jnp.array([[0.0, 2.0]]))), loss.backward().tolist()
        (1.0, [[0.0, -1.0]])
    """

    def formula(self, prediction: jax.Array, target: jax.Array) -> tuple[Formula, tuple[float, ...]]:
        """For a float prediction (..., size) and a target of the same shape."""
        self.require_same_shape(prediction, target)
        self.require(prediction.ndim >= 1, "prediction must have shape (..., size)", prediction__shape=())
        return _cosine, ()


def _cosine(p: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    squared, of_target = ((array * array).sum(-1, keepdims=True) for array in (p, t))
    lengths = jnp.sqrt(jnp.maximum(squared, _LEAST)) * jnp.sqrt(jnp.maximum(of_target, _LEAST))
    product = (p * t).sum(-1, keepdims=True)
    # One product and one sum, which can be rounded in one way only.
    across = p * jnp.where(squared > _LEAST, product / jnp.maximum(squared, _LEAST), 0) - t
    return 1 - (product / lengths)[..., 0], across / lengths
