"""KLDivergence."""

import jax
import jax.numpy as jnp

from ._loss import check_shares
from ._mean_loss import Formula, MeanLoss


class KLDivergence(MeanLoss):
    """Divergence of the softmax of logits from the target's probabilities.

    L = mean over rows of sum_j t_j (log t_j - log softmax(z)_j); gradient (softmax(z) sum_j t_j - t) / number of rows
    (Kullback & Leibler 1951, section 2). Log-probabilities are logits too, with the same softmax.

    Raises:
        ValueError: prediction and target have different shapes or no axis, or the prediction's dtype is not a float.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import KLDivergence
        >>> loss = KLDivergence()
        >>> round(float(loss.forward(jnp.zeros((1, 2)), jnp.array([[0.0, 1.0]]))), 4), loss.backward().tolist()
        (0.6931, [[0.5, -0.5]])
    """

    check_targets = check_shares

    def formula(self, prediction: jax.Array, target: jax.Array) -> tuple[Formula, tuple[float, ...]]:
        """For logits (..., classes) and probabilities of the same shape."""
        self.require_same_shape(prediction, target)
        self.require(prediction.ndim >= 1, "prediction must have shape (..., classes)", prediction__shape=())
        return _kl_divergence, ()


def _kl_divergence(z: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    log_p = jax.nn.log_softmax(z)
    # What has no probability adds nothing.
    log_t = jnp.log(jnp.where(target == 0, 1, target))
    values = jnp.where(target == 0, 0, target * (log_t - log_p)).sum(-1)
    return values, jnp.exp(log_p) * target.sum(-1, keepdims=True) - target
