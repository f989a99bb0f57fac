"""LeakyReLU, PReLU and ELU: rectifiers that let something through below zero."""

import jax
import jax.numpy as jnp

from .._layer import Layer
from .._variable import Param
from ._activations import _Activation


class LeakyReLU(_Activation):
    """Rectifier with a small slope below zero.

    y = x where x > 0, else slope * x; the derivative at 0 is slope (Maas, Hannun & Ng 2013, section 2).

    Args:
        slope: of the part below zero.

    Example:
        >>> import jax
        >>> from da_layers import LeakyReLU
        >>> LeakyReLU(0.5).forward(jax.numpy.array([-1.0, 2.0])).tolist()
        [-0.5, 2.0]
    """

    def __init__(self, slope: float = 0.01) -> None:
        self.slope = slope

    def _forward(self, x: jax.Array) -> jax.Array:
        return _leaky(x, self.slope)

    def _backward(self, x: jax.Array, g: jax.Array) -> jax.Array:
        return _leaky_backward(x, g, self.slope)


class ELU(_Activation):
    """Exponential linear unit.

    y = x where x > 0, else alpha * (exp(x) - 1) (Clevert, Unterthiner & Hochreiter 2016, equation 16).

    Args:
        alpha: minus the limit of y below zero.

    Example:
        >>> import jax
        >>> from da_layers import ELU
        >>> ELU().forward(jax.numpy.array([-1000.0, 2.0])).tolist()
        [-1.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def _forward(self, x: jax.Array) -> jax.Array:
        return _elu(x, self.alpha)

    def _backward(self, x: jax.Array, g: jax.Array) -> jax.Array:
        return _elu_backward(x, g, self.alpha)


class PReLU(Layer):
    """Rectifier whose slope below zero is learned, for each channel or for all.

    y = x where x > 0, else slope * x (He et al. 2015, equation 1).

    Args:
        n: size of the input's last axis, each entry with a slope of its own; 1 for one slope for all.
        slope: the first slope.

    Raises:
        ValueError: n is below 1, or an input whose last axis is not n where n > 1, or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import PReLU
        >>> PReLU().forward(jax.numpy.array([-1.0, 2.0])).tolist()
        [-0.25, 2.0]
    """

    def __init__(self, n: int = 1, slope: float = 0.25) -> None:
        self.require_sizes(n=n)
        self.n = n
        self.slope = Param(jnp.full(n, slope), role="scale")

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (..., n), float, of any shape where n = 1, to the same shape."""
        self.require(
            self.n == 1 or (x.ndim >= 1 and x.shape[-1] == self.n),
            f"x must have shape (..., {self.n})",
            x__shape=x.shape,
        )
        self.require_float(x)
        if training:
            self.keep(x)
        return _leaky(x, self.slope.value)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient to the input's, same shape; adds to slope."""
        (x,) = self.take()
        gx, g_slope = _prelu_backward(x, g, self.slope.value)
        self.slope.add_grad(g_slope)
        return gx


@jax.jit
def _leaky(x: jax.Array, slope: jax.Array | float) -> jax.Array:
    return jnp.where(x > 0, x, x * slope).astype(x.dtype).reshape(x.shape)


@jax.jit
def _leaky_backward(x: jax.Array, g: jax.Array, slope: jax.Array | float) -> jax.Array:
    return jnp.where(x > 0, g, g * slope).astype(g.dtype).reshape(g.shape)


@jax.jit
def _prelu_backward(x: jax.Array, g: jax.Array, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    g_slope = (g * jnp.minimum(x, 0)).reshape(-1, slope.size).sum(0)
    return _leaky_backward(x, g, slope), g_slope


@jax.jit
def _elu(x: jax.Array, alpha: float) -> jax.Array:
    # Of x above zero the exponential might overflow; where() would hide that from forward only.
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.minimum(x, 0))).astype(x.dtype)


@jax.jit
def _elu_backward(x: jax.Array, g: jax.Array, alpha: float) -> jax.Array:
    return jnp.where(x > 0, g, g * alpha * jnp.exp(jnp.minimum(x, 0))).astype(g.dtype)
