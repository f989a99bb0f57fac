"""Dense: an affine map of the last axis."""

import jax
import jax.numpy as jnp
from jax import lax

from .._layer import Layer
from .._variable import Param, Seed
from ._dot import dot
from ._initial import he_normal


class Dense(Layer):
    """An affine map of the last axis.

    y = x W + b

    Weights start at normal(0, 1) * sqrt(2 / n_in) (He et al. 2015, section 2.2), biases at zero.

    Args:
        n_in: size of the input's last axis.
        n_out: size of the output's last axis.
        key: int or random key for the weights.
        bias: False leaves b out.

    Raises:
        ValueError: a size that is no integer of 1 or more, or an input whose last axis is not n_in or whose dtype is
            not a float.

    Example:
        >>> import jax
        >>> from da_layers import Dense
        >>> Dense(3, 2, jax.random.key(0)).forward(jax.numpy.ones((4, 3))).shape
        (4, 2)
    """

    def __init__(self, n_in: int, n_out: int, key: Seed, bias: bool = True) -> None:
        self.require_sizes(n_in=n_in, n_out=n_out)
        self.n_in, self.n_out = n_in, n_out
        self.weight = he_normal(key, (n_in, n_out), n_in)
        self.bias = Param(jnp.zeros(n_out), role="bias") if bias else None

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (..., n_in), float, to (..., n_out)."""
        self.require(
            x.ndim >= 1 and x.shape[-1] == self.n_in, f"x must have shape (..., {self.n_in})", x__shape=x.shape
        )
        self.require_float(x)
        if training:
            self.keep(x)
        if self.bias is None:
            return product(x, self.weight.value)
        return _affine(x, self.weight.value, self.bias.value)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (..., n_out) to the input's (..., n_in); adds to weight and bias."""
        (x,) = self.take()
        if self.bias is None:
            gx, g_weight = product_backward(x, self.weight.value, g)
        else:
            gx, g_weight, g_bias = _affine_backward(x, self.weight.value, g)
            self.bias.add_grad(g_bias)
        self.weight.add_grad(g_weight)
        return gx


_FEW_ROWS = 3


@jax.jit
def product(x: jax.Array, weight: jax.Array) -> jax.Array:
    return dot(x, weight, ((x.ndim - 1,), (0,)))


@jax.jit
def _affine(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    return product(x, weight) + bias


@jax.jit
def product_backward(x: jax.Array, weight: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
    rows = tuple(range(x.ndim - 1))
    g_input = dot(g, weight, ((g.ndim - 1,), (1,)))
    return g_input, weight_gradient(x, g, rows)


def weight_gradient(x: jax.Array, g: jax.Array, rows: tuple[int, ...]) -> jax.Array:
    """The sum over `rows` of x times g: the gradient of the weights of a product."""
    if x.ndim == 2 and len(x) <= _FEW_ROWS:
        # On a CPU XLA writes out every sum over so few rows itself. Turned round first, the large go to the library.
        return dot(lax.optimization_barrier(x.T), g, ((1,), (0,)))
    return dot(x, g, (rows, rows))


@jax.jit
def _affine_backward(x: jax.Array, weight: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    return *product_backward(x, weight, g), g.sum(tuple(range(g.ndim - 1)))
