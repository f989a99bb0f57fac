"""Focal."""

import math

import jax
import jax.numpy as jnp

from ._loss import check_shares
from ._mean_loss import Formula, MeanLoss


class Focal(MeanLoss):
    """Binary cross-entropy of logits that counts less what is already right.

    L = mean over all entries of -a_t (1 - p_t)^gamma log(p_t), with p_t = sigmoid(z) and a_t = alpha where t = 1,
    p_t = 1 - sigmoid(z) and a_t = 1 - alpha where t = 0 (Lin et al. 2017, section 3.2).

    Args:
        gamma: how much less, 0 or more; 0 is `BCEWithLogits` by a_t.
        alpha: weight of t = 1, in [0, 1]; None for a_t = 1.

    Raises:
        ValueError: gamma or alpha is out of its range, prediction and target have different shapes, or the prediction's
            dtype is not a float.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import Focal
        >>> loss = Focal(gamma=2.0)
        >>> round(float(loss.forward(jnp.zeros(2), jnp.array([0, 1]))), 4)
        0.1733
    """

    def __init__(self, gamma: float = 2.0, alpha: float | None = None) -> None:
        self.require(0 <= gamma < math.inf, "gamma must be a finite number of 0 or more", gamma=gamma)
        self.require(alpha is None or 0 <= alpha <= 1, "alpha must be None or in [0, 1]", alpha=alpha)
        self.gamma, self.alpha = float(gamma), alpha

    check_targets = check_shares

    def formula(self, prediction: jax.Array, target: jax.Array) -> tuple[Formula, tuple[float, ...]]:
        """For float logits and a target of 0 and 1 of the same shape."""
        self.require_same_shape(prediction, target)
        right, wrong = (1.0, 1.0) if self.alpha is None else (self.alpha, 1 - self.alpha)
        return _focal, (self.gamma, right, wrong)


def _focal(z: jax.Array, target: jax.Array, gamma: float, one: float, zero: float) -> tuple[jax.Array, jax.Array]:
    positive = target.astype(bool)
    u = jnp.where(positive, z, -z)
    q, surprise = jax.nn.sigmoid(-u), jax.nn.softplus(-u)  # 1 - p_t and -log p_t
    weight = jnp.where(positive, one, zero) * q**gamma
    slope = -weight * (gamma * (1 - q) * surprise + q)
    return weight * surprise, jnp.where(positive, slope, -slope)
