"""Softmax: the formula, for attention and for the cross-entropy, and the layer."""

import jax
import jax.numpy as jnp

from .._layer import Layer


def softmax(x: jax.Array) -> jax.Array:
    """exp(x - max) / sum(exp(x - max)) over the last axis."""
    powers = jnp.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def softmax_backward(p: jax.Array, g: jax.Array) -> jax.Array:
    """p * (g - sum(g * p)), the gradient of x from the gradient `g` of `p = softmax(x)`."""
    return p * (g - (g * p).sum(-1, keepdims=True))


class Softmax(Layer):
    """Probabilities along the last axis.

    y = exp(x - max(x)) / sum(exp(x - max(x))) (Bridle 1990). Before a cross-entropy leave it out: SoftmaxCrossEntropy
    takes logits.

    Raises:
        ValueError: an input without an axis, or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import Softmax
        >>> Softmax().forward(jax.numpy.array([1000.0, 1000.0])).tolist()
        [0.5, 0.5]
    """

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (..., classes), float, to the same shape."""
        self.require(x.ndim >= 1, "x must have shape (..., classes)", x__shape=x.shape)
        self.require_float(x)
        p = _softmax(x)
        if training:
            self.keep(p)
        return p

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient of y to that of x, same shape."""
        (p,) = self.take()
        return _softmax_backward(p, g)


_softmax, _softmax_backward = jax.jit(softmax), jax.jit(softmax_backward)
