"""Conv2D."""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax

from .._layer import Layer
from .._variable import Param, Seed
from ._initial import he_normal

Padding = Literal["same", "valid"]


class Conv2D(Layer):
    """Convolution of images, channels last.

    y[b, i, j, o] = sum over di, dj, c of x[b, i s + di, j s + dj, c] W[di, dj, c, o] + b[o], with stride s
    (LeCun et al. 1998, section II; "same" pads with zeros so that the output has ceil(size / s) places).

    Weights start at normal(0, 1) * sqrt(2 / (size^2 n_in)), biases at zero.

    Args:
        n_in: channels of the input.
        n_out: channels of the output.
        size: height and width of the window.
        key: int or random key for the weights.
        stride: step of the window.
        padding: "same" or "valid".

    Raises:
        ValueError: a size or stride below 1, another padding, an input that is not (batch, height, width, n_in) or
            whose dtype is not a float, or with "valid" one smaller than the window.

    Example:
        >>> import jax
        >>> from da_layers import Conv2D
        >>> Conv2D(1, 4, 3, jax.random.key(0), stride=2).forward(jax.numpy.ones((2, 8, 8, 1))).shape
        (2, 4, 4, 4)
    """

    def __init__(self, n_in: int, n_out: int, size: int, key: Seed, stride: int = 1, padding: Padding = "same") -> None:
        self.require(
            min(n_in, n_out, size, stride) >= 1,
            "sizes must be 1 or more",
            n_in=n_in,
            n_out=n_out,
            size=size,
            stride=stride,
        )
        self.require(padding in ("same", "valid"), "padding must be 'same' or 'valid'", padding=repr(padding))
        self.n_in, self.size, self.stride, self.padding = n_in, size, stride, padding
        self.weight = he_normal(key, (size, size, n_in, n_out), size * size * n_in)
        self.bias = Param(jnp.zeros(n_out), role="bias")

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, height, width, n_in), float, to (batch, height', width', n_out)."""
        self.require(
            x.ndim == 4 and x.shape[-1] == self.n_in,
            f"x must have shape (batch, height, width, {self.n_in})",
            x__shape=x.shape,
        )
        self.require_float(x)
        self.require(
            self.padding == "same" or min(x.shape[1:3]) >= self.size,
            f"x must be at least {self.size} high and wide where nothing is padded",
            x__shape=x.shape,
        )
        if training:
            self.keep(x)
        return _conv(x, self.weight.value, self.bias.value, stride=self.stride, padding=self.padding)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient of y to that of x; adds to weight and bias."""
        (x,) = self.take()
        gx, g_weight, g_bias = _conv_backward(x, self.weight.value, g, stride=self.stride, padding=self.padding)
        self.weight.add_grad(g_weight)
        self.bias.add_grad(g_bias)
        return gx


def _linear(x: jax.Array, weight: jax.Array, stride: int, padding: str) -> jax.Array:
    return lax.conv_general_dilated(
        x, weight, (stride, stride), padding.upper(), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@partial(jax.jit, static_argnames=("stride", "padding"))
def _conv(x: jax.Array, weight: jax.Array, bias: jax.Array, *, stride: int, padding: str) -> jax.Array:
    return _linear(x, weight, stride, padding) + bias


# A convolution is linear in x and in W, so each gradient is the transpose of that linear map, applied to g.
@partial(jax.jit, static_argnames=("stride", "padding"))
def _conv_backward(
    x: jax.Array, weight: jax.Array, g: jax.Array, *, stride: int, padding: str
) -> tuple[jax.Array, jax.Array, jax.Array]:
    (g_input,) = jax.linear_transpose(lambda a: _linear(a, weight, stride, padding), x)(g)
    (g_weight,) = jax.linear_transpose(lambda w: _linear(x, w, stride, padding), weight)(g)
    return g_input, g_weight, g.sum((0, 1, 2))
