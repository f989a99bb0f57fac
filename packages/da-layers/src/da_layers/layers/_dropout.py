"""Dropout, of single entries, of whole channels or of whole samples."""

from functools import partial

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
        y, mask = _dropout(x, self.key.next(), 1 - self.rate, shape=self._mask_shape(x.shape))
        self.keep(mask)
        return y

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient of y to that of x, same shape."""
        (mask,) = self.take()
        return g * mask

    def _mask_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


class SpatialDropout(Dropout):
    """Sets random channels of each sample to zero in training, at all places at once, and scales the rest.

    y[b, ..., c] = mask[b, c] * x[b, ..., c] / (1 - rate) (Tompson et al. 2015, section 3.2).

    Args:
        rate: share of the channels that are set to zero, 0 <= rate < 1.
        key: int or random key; the start of the layer's own stream of masks.

    Raises:
        ValueError: a rate outside 0 <= rate < 1, or an input that is not (batch, ..., channels) or whose dtype is not a
            float.

    Example:
        >>> import jax
        >>> from da_layers import SpatialDropout
        >>> y = SpatialDropout(0.5, 0).forward(jax.numpy.ones((2, 5, 3)), training=True)
        >>> bool((y == y[:, :1]).all())
        True
    """

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, ..., channels), float, to the same shape."""
        self.require(x.ndim >= 2, "x must have shape (batch, ..., channels)", x__shape=x.shape)
        return super().forward(x, training)

    def _mask_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], *(1 for _ in shape[1:-1]), shape[-1])


class StochasticDepth(Dropout):
    """Sets random samples to zero in training, and scales the rest: at the end of a `Residual` it skips the branch.

    y[b] = mask[b] * x[b] / (1 - rate) (Huang et al. 2016, section 3; scaled in training).

    Args:
        rate: share of the samples whose branch is skipped, 0 <= rate < 1.
        key: int or random key; the start of the layer's own stream of masks.

    Raises:
        ValueError: a rate outside 0 <= rate < 1, or an input without an axis or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import Dense, Residual, Sequential, StochasticDepth
        >>> block = Residual(Sequential(Dense(3, 3, 0), StochasticDepth(0.2, 1)))
        >>> block.forward(jax.numpy.ones((4, 3)), training=True).shape
        (4, 3)
    """

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, ...), float, to the same shape."""
        self.require(x.ndim >= 1, "x must have shape (batch, ...)", x__shape=x.shape)
        return super().forward(x, training)

    def _mask_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], *(1 for _ in shape[1:]))


@partial(jax.jit, static_argnames="shape")
def _dropout(x: jax.Array, key: jax.Array, keep: float, *, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    # In float32 whatever the default: the masks are the same where x64 is on.
    kept = jax.random.uniform(key, shape, jnp.float32) < jnp.asarray(keep, jnp.float32)
    mask = jnp.where(kept, 1 / jnp.asarray(keep, x.dtype), jnp.zeros((), x.dtype))
    return x * mask, mask
