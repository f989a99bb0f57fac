"""Dropout."""

import jax
import jax.numpy as jnp

from .._layer import Layer
from .._variable import Key, Seed


class Dropout(Layer):
    """Sets random entries to zero in training, and scales the rest.

    y = mask * x / (1 - rate) with P(mask = 1) = 1 - rate; the identity otherwise (Srivastava et al. 2014, section 4;
    scaled in training).

    Args:
        rate: share of the entries that are set to zero, 0 <= rate < 1.
        key: int or random key; the start of the layer's own stream of masks.

    Raises:
        ValueError: a rate outside 0 <= rate < 1, or an input whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import Dropout
        >>> x = jax.numpy.ones((2, 3))
        >>> bool((Dropout(0.5, 0).forward(x) == x).all())
        True
    """

    def __init__(self, rate: float, key: Seed) -> None:
        self.require(0 <= rate < 1, "rate must be from 0 to below 1", rate=rate)
        self.rate = rate
        self.key = Key(key)

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x of any shape, float, to the same shape."""
        self.require_float(x)
        if not training:
            return x
        y, mask = _dropout(x, self.key.next(), 1 - self.rate)
        self.keep(mask)
        return y

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient of y to that of x, same shape."""
        (mask,) = self.take()
        return g * mask


@jax.jit
def _dropout(x: jax.Array, key: jax.Array, keep: float) -> tuple[jax.Array, jax.Array]:
    # In float32 whatever the default: the masks are the same where x64 is on.
    kept = jax.random.uniform(key, x.shape, jnp.float32) < jnp.asarray(keep, jnp.float32)
    mask = jnp.where(kept, 1 / jnp.asarray(keep, x.dtype), jnp.zeros((), x.dtype))
    return x * mask, mask
