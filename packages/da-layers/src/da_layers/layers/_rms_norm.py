"""RMSNorm."""

import jax
import jax.numpy as jnp
from jax import lax

from .._layer import Layer
from .._variable import Param
from ._standardize import widened


class RMSNorm(Layer):
    """Divides each position by the root of the mean square of its last axis.

    y = scale * x / sqrt(mean(x^2) + epsilon), the mean over the last axis (Zhang & Sennrich 2019, equation 4).

    Args:
        n: size of the last axis.
        epsilon: added to the mean square.

    Raises:
        ValueError: an input whose last axis is not n or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import RMSNorm
        >>> y = RMSNorm(2).forward(jax.numpy.array([[1.0, 7.0]]))
        >>> [round(float(number), 3) for number in y[0]]
        [0.2, 1.4]
    """

    def __init__(self, n: int, epsilon: float = 1e-5) -> None:
        self.require_sizes(n=n)
        self.n, self.epsilon = n, epsilon
        self.scale = Param(jnp.ones(n), role="scale")

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (..., n), float, to the same shape."""
        self.require(x.ndim >= 1 and x.shape[-1] == self.n, f"x must have shape (..., {self.n})", x__shape=x.shape)
        self.require_float(x)
        y, normal, inverse = _rms_norm(x, self.scale.value, self.epsilon)
        if training:
            self.keep(normal, inverse)
        return y

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (..., n) to the input's; adds to scale."""
        normal, inverse = self.take()
        gx, g_scale = _rms_norm_backward(normal, inverse, self.scale.value, g)
        self.scale.add_grad(g_scale)
        return gx


@jax.jit
def _rms_norm(x: jax.Array, scale: jax.Array, epsilon: float) -> tuple[jax.Array, jax.Array, jax.Array]:
    wide = widened(x)
    inverse = lax.rsqrt((wide * wide).mean(-1, keepdims=True) + epsilon)
    normal = (wide * inverse).astype(x.dtype)
    return normal * scale, normal, inverse.astype(x.dtype)


@jax.jit
def _rms_norm_backward(
    normal: jax.Array, inverse: jax.Array, scale: jax.Array, g: jax.Array
) -> tuple[jax.Array, jax.Array]:
    g_normal = g * scale
    gx = inverse * (g_normal - normal * (g_normal * normal).mean(-1, keepdims=True))
    return gx, (g * normal).sum(tuple(range(g.ndim - 1)))
