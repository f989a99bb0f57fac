"""Layers that change the shape only, or reduce it."""

import math
from functools import partial

import jax
import jax.numpy as jnp

from .._layer import Layer


class Flatten(Layer):
    """Joins every axis but the first into one.

    Example:
        >>> import jax
        >>> from da_layers import Flatten
        >>> Flatten().forward(jax.numpy.ones((2, 3, 4))).shape
        (2, 12)
    """

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, ...) to (batch, product of the rest)."""
        self.require(x.ndim >= 2, "x must have shape (batch, ...)", x__shape=x.shape)
        if training:
            self.keep(x.shape)
        return x.reshape(x.shape[0], math.prod(x.shape[1:]))

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient to the input's shape."""
        (shape,) = self.take()
        return g.reshape(shape)


class Reshape(Layer):
    """Gives each sample another shape.

    Args:
        shape: axes of a sample, the batch left out; one of them may be -1, which stands for the rest.

    Raises:
        ValueError: an axis is no integer of 1 or more, more than one is -1, or an input's samples have another size.

    Example:
        >>> import jax
        >>> from da_layers import Reshape
        >>> Reshape(8, -1).forward(jax.numpy.ones((2, 64))).shape
        (2, 8, 8)
    """

    def __init__(self, *shape: int) -> None:
        whole = all(type(axis) is int and (axis >= 1 or axis == -1) for axis in shape)
        self.require(whole and shape.count(-1) <= 1, "shape must hold sizes of 1 or more, and -1 once", shape=shape)
        self.shape = shape

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, ...) to (batch, *shape)."""
        size, known = math.prod(x.shape[1:]), abs(math.prod(self.shape))
        fits = size % known == 0 if -1 in self.shape else size == known
        self.require(x.ndim >= 1 and fits, f"x must have shape (batch, ...) that fits {self.shape}", x__shape=x.shape)
        if training:
            self.keep(x.shape)
        return x.reshape(x.shape[0], *(size // known if axis == -1 else axis for axis in self.shape))

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient to the input's shape."""
        (shape,) = self.take()
        return g.reshape(shape)


class GlobalAveragePool(Layer):
    """Mean over every axis between the batch and the channels (last axis): of an image, or of a sequence's tokens.

    Example:
        >>> import jax
        >>> from da_layers import GlobalAveragePool
        >>> GlobalAveragePool().forward(jax.numpy.ones((2, 5, 4))).shape
        (2, 4)
    """

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, ..., n) to (batch, n)."""
        self.require(x.ndim >= 3, "x must have shape (batch, axis, ..., n)", x__shape=x.shape)
        if training:
            self.keep(x.shape)
        return _middle_mean(x)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (batch, n) to the input's (batch, ..., n)."""
        (shape,) = self.take()
        return _middle_mean_backward(g, shape)


@jax.jit
def _middle_mean(x: jax.Array) -> jax.Array:
    return x.mean(tuple(range(1, x.ndim - 1)))


@partial(jax.jit, static_argnums=1)
def _middle_mean_backward(g: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    spread = g.reshape(shape[0], *(1 for _ in shape[1:-1]), shape[-1]) / math.prod(shape[1:-1])
    return jnp.broadcast_to(spread, shape)
