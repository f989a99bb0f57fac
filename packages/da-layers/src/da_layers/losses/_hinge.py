"""Hinge."""

import jax
import jax.numpy as jnp

from ._mean_loss import Formula, MeanLoss


class Hinge(MeanLoss):
    """Loss of a margin: nothing where a score is on the right side by 1 or more.

    L = mean over all entries of max(0, 1 - t z); gradient -t / number of entries where 1 - t z > 0, else 0
    (Cortes & Vapnik 1995, section 3).

    The target t is -1 or 1, of any signed number dtype.

    Raises:
        ValueError: prediction and target have different shapes, or the prediction's dtype is not a float.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import Hinge
        >>> loss = Hinge()
        >>> float(loss.forward(jnp.array([2.0, 0.5]), jnp.array([1, -1]))), loss.backward().tolist()
        (0.75, [0.0, 0.5])
    """

    def check_targets(self, lowest: float, highest: float) -> None:
        """Raises a ValueError unless the smallest and the largest target are -1 or 1."""
        self.require({lowest, highest} <= {-1, 1}, "y must be -1 or 1", **{"y.min()": lowest, "y.max()": highest})

    def formula(self, prediction: jax.Array, target: jax.Array) -> tuple[Formula, tuple[float, ...]]:
        """For float scores and a target of the same shape."""
        self.require_same_shape(prediction, target)
        return _hinge, ()


def _hinge(z: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    t = target.astype(z.dtype)
    margin = 1 - t * z
    return jnp.maximum(margin, 0), jnp.where(margin > 0, -t, 0)
