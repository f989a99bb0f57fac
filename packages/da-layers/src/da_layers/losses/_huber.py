"""Huber."""

import math

import jax
import jax.numpy as jnp

from ._mean_loss import Formula, MeanLoss


class Huber(MeanLoss):
    """Squared error near the target, absolute error far from it.

    L = mean over all entries of e^2 / 2 where |e| <= delta, else delta (|e| - delta / 2), with e = prediction - target;
    gradient e cut to [-delta, delta], by number of entries (Huber 1964, section 4).

    Args:
        delta: where the one turns into the other, above 0.

    Raises:
        ValueError: delta is not above 0, prediction and target have different shapes, or the prediction's dtype is not
            a float.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import Huber
        >>> loss = Huber(delta=1.0)
        >>> float(loss.forward(jnp.array([0.5, 3.0]), jnp.zeros(2))), loss.backward().tolist()
        (1.3125, [0.25, 0.5])
    """

    def __init__(self, delta: float = 1.0) -> None:
        self.require(0 < delta < math.inf, "delta must be a finite number above 0", delta=delta)
        self.delta = float(delta)

    def formula(self, prediction: jax.Array, target: jax.Array) -> tuple[Formula, tuple[float, ...]]:
        """For a float prediction and a target of the same shape."""
        self.require_same_shape(prediction, target)
        return _huber, (self.delta,)


def _huber(prediction: jax.Array, target: jax.Array, delta: float) -> tuple[jax.Array, jax.Array]:
    difference = prediction - target
    cut = jnp.clip(difference, -delta, delta)
    # cut (e - cut / 2) is both cases in one.
    return cut * (difference - cut / 2), cut
