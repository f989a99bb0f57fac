"""BCEWithLogits."""

import jax
import jax.numpy as jnp

from ._loss import check_shares
from ._mean_loss import Formula, MeanLoss


class BCEWithLogits(MeanLoss):
    """Binary cross-entropy of the sigmoid of logits.

    L = mean over all entries of max(z, 0) - z t + log(1 + exp(-|z|)), which is -t log p - (1 - t) log(1 - p) with
    p = sigmoid(z); gradient (p - t) / number of entries (Goodfellow, Bengio & Courville 2016, section 6.2.2.2).

    The target t is 0 or 1, or a share between them, of any number dtype or bool.

    Raises:
        ValueError: prediction and target have different shapes, or the prediction's dtype is not a float.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import BCEWithLogits
        >>> loss = BCEWithLogits()
        >>> round(float(loss.forward(jnp.zeros(2), jnp.array([0, 1]))), 4), loss.backward().tolist()
        (0.6931, [0.25, -0.25])
    """

    check_targets = check_shares

    def formula(self, prediction: jax.Array, target: jax.Array) -> tuple[Formula, tuple[float, ...]]:
        """For float logits and a target of the same shape."""
        self.require_same_shape(prediction, target)
        return _binary_cross_entropy, ()


def _binary_cross_entropy(z: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    t = target.astype(z.dtype)
    values = jnp.maximum(z, 0) - z * t + jnp.log1p(jnp.exp(-jnp.abs(z)))
    return values, jax.nn.sigmoid(z) - t
