"""Triplet."""

import math

import jax
import jax.numpy as jnp
from jax import lax

from ._mean_loss import Formula, MeanLoss

# Added to each difference, so that equal rows have a distance with a slope.
_APART = 1e-6


class Triplet(MeanLoss):
    """An anchor must be nearer to a sample of its kind than to another, by a margin.

    L = mean over triplets of max(0, |a - p| - |a - n| + margin), with |d| the length of d + 1e-6 (Schroff, Kalenichenko
    & Philbin 2015, section 3.1). The prediction has the rows of anchor, positive and negative along its last axis but
    one; the target is not looked at.

    Args:
        margin: how much nearer, above 0.

    Raises:
        ValueError: a margin that is not above 0, or a prediction that is not (..., 3, size) or whose dtype is not a
            float.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import Triplet
        >>> rows = jnp.array([[[0.0, 0.0], [3.0, 4.0], [0.0, 5.5]]])
        >>> round(float(Triplet(margin=1.0).forward(rows, jnp.zeros(1))), 3)
        0.5
    """

    def __init__(self, margin: float = 1.0) -> None:
        self.require(0 < margin < math.inf, "margin must be a finite number above 0", margin=margin)
        self.margin = float(margin)

    def formula(self, prediction: jax.Array, target: jax.Array) -> tuple[Formula, tuple[float, ...]]:
        """For a float prediction (..., 3, size)."""
        self.require(
            prediction.ndim >= 2 and prediction.shape[-2] == 3,
            "prediction must have shape (..., 3, size)",
            prediction__shape=prediction.shape,
        )
        return _triplet, (self.margin,)


def _triplet(rows: jax.Array, _: jax.Array, margin: float) -> tuple[jax.Array, jax.Array]:
    anchor, positive, negative = (rows[..., index, :] for index in range(3))
    to_positive, near = _distance(anchor, positive)
    to_negative, far = _distance(anchor, negative)
    excess = to_positive - to_negative + margin
    # XLA divides by multiplying. Of a difference of two products, either may be rounded: not so behind a barrier.
    near, far = lax.optimization_barrier((near, far))
    slopes = jnp.stack([near - far, -near, far], -2)
    return jnp.maximum(excess, 0), jnp.where(excess[..., None, None] > 0, slopes, 0)


def _distance(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The length of a - b, and its slope by a."""
    difference = a - b + _APART
    length = jnp.sqrt((difference * difference).sum(-1, keepdims=True))
    return length[..., 0], difference / jnp.where(length == 0, 1, length)
