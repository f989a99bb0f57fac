"""LayerNorm."""

import jax
import jax.numpy as jnp

from .._layer import Layer
from .._variable import Param
from ._standardize import standardize, standardize_backward


class LayerNorm(Layer):
    """Normalises each position over its last axis.

    y = scale * (x - mean) / sqrt(variance + epsilon) + bias, mean and variance over the last axis
    (Ba, Kiros & Hinton 2016, section 3).

    Args:
        n: size of the last axis.
        epsilon: added to the variance.

    Raises:
        ValueError: an input whose last axis is not n or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import LayerNorm
        >>> LayerNorm(2).forward(jax.numpy.array([[1.0, 3.0]])).round(2).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(self, n: int, epsilon: float = 1e-5) -> None:
        self.require_sizes(n=n)
        self.n, self.epsilon = n, epsilon
        self.scale = Param(jnp.ones(n), role="scale")
        self.bias = Param(jnp.zeros(n), role="bias")

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (..., n), float, to the same shape."""
        self.require(x.ndim >= 1 and x.shape[-1] == self.n, f"x must have shape (..., {self.n})", x__shape=x.shape)
        self.require_float(x)
        y, normal, inverse = _layer_norm(x, self.scale.value, self.bias.value, self.epsilon)
        if training:
            self.keep(normal, inverse)
        return y

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (..., n) to the input's; adds to scale and bias."""
        normal, inverse = self.take()
        gx, g_scale, g_bias = _layer_norm_backward(normal, inverse, self.scale.value, g)
        self.scale.add_grad(g_scale)
        self.bias.add_grad(g_bias)
        return gx


@jax.jit
def _layer_norm(
    x: jax.Array, scale: jax.Array, bias: jax.Array, epsilon: float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    normal, inverse, _, _ = standardize(x, (x.ndim - 1,), epsilon)
    return normal * scale + bias, normal, inverse


@jax.jit
def _layer_norm_backward(
    normal: jax.Array, inverse: jax.Array, scale: jax.Array, g: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    rows = tuple(range(g.ndim - 1))
    gx = standardize_backward(g * scale, normal, inverse, (g.ndim - 1,))
    return gx, (g * normal).sum(rows), g.sum(rows)
