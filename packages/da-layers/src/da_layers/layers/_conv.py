"""Conv1D, Conv2D and Conv3D, and the depthwise and separable forms."""

import math
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp

from .._layer import Layer
from .._variable import Param, Seed, as_key
from ._initial import he_normal
from ._window import NAMES, Axes, Padding, Window
from ._window_layer import WindowLayer


class _Conv(WindowLayer):
    def __init__(
        self,
        n_in: int,
        n_out: int,
        size: int | Axes,
        key: Seed,
        stride: int | Axes = 1,
        padding: Padding | Literal["causal"] | int = "same",
        dilation: int | Axes = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        given = {"n_in": n_in, "n_out": n_out, "size": size, "stride": stride, "dilation": dilation, "groups": groups}
        self.size, stride, dilation = self.each_axis("size", "stride", "dilation", **given)
        self.require(n_in % groups == n_out % groups == 0, "groups must divide n_in and n_out", **given)
        words = "'same', 'valid', 'causal'" if self.axes == 1 else "'same', 'valid'"
        known = (type(padding) is int and padding >= 0) or (isinstance(padding, str) and repr(padding) in words)
        self.require(known, f"padding must be {words} or a number of zeros", padding=repr(padding))
        self.n_in = n_in
        self.window = Window(stride, padding, dilation, groups)
        self.weight = he_normal(key, (*self.size, n_in // groups, n_out), math.prod(self.size) * n_in // groups)
        self.bias = Param(jnp.zeros(n_out), role="bias") if bias else None

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, *lengths, n_in), float, to (batch, *places, n_out)."""
        self.require_input(x)
        self.require(
            self.window.fits(x.shape[1:-1], self.size),
            f"x, with its padding, must be at least {self.window.reach(self.size)} along {NAMES[self.axes]}",
            x__shape=x.shape,
        )
        if training:
            self.keep(x)
        return _conv(x, self.weight.value, self.bias.value if self.bias else None, window=self.window)

    def gradients(self, x: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Those of x, of the weights and of the bias."""
        return _conv_backward(x, self.weight.value, g, window=self.window)


class Conv1D(_Conv):
    """Convolution of sequences, channels last.

    y[b, i, o] = sum over d, c of x[b, i s + d l, c] W[d, c, o] + b[o], with stride s and dilation l (Waibel et al.
    1989; "causal" lets no place see a later one, as in van den Oord et al. 2016, section 2.1).

    Weights start at normal(0, 1) * sqrt(2 / (size n_in / groups)), biases at zero.

    Args:
        n_in: channels of the input.
        n_out: channels of the output.
        size: entries in the window.
        key: int or random key for the weights.
        stride: step of the window.
        padding: "same" (zeros so that there are length / stride places, rounded up), "valid" (none), "causal" (all in
            front), or a number of zeros at both ends.
        dilation: from one entry of the window to the next.
        groups: groups of channels that stay apart; divides n_in and n_out.
        bias: False leaves b out.

    Raises:
        ValueError: an argument is out of its range, or an input that is not (batch, time, n_in), holds no window, or
            whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import Conv1D
        >>> layer = Conv1D(2, 4, 3, jax.random.key(0), padding="causal", dilation=2)
        >>> layer.forward(jax.numpy.ones((2, 8, 2))).shape
        (2, 8, 4)
    """

    axes = 1


class Conv2D(_Conv):
    """Convolution of images, channels last.

    y[b, i, j, o] = sum over di, dj, c of x[b, i s + di l, j s + dj l, c] W[di, dj, c, o] + b[o], with stride s and
    dilation l (LeCun et al. 1998, section II; Yu & Koltun 2016, section 2).

    Weights start at normal(0, 1) * sqrt(2 / (size^2 n_in / groups)), biases at zero.

    Args:
        n_in: channels of the input.
        n_out: channels of the output.
        size: height and width of the window, a pair or one number for both.
        key: int or random key for the weights.
        stride: step of the window, a pair or one number.
        padding: "same", "valid", or a number of zeros on each side, as for `Conv1D`.
        dilation: from one entry of the window to the next, a pair or one number.
        groups: groups of channels that stay apart; divides n_in and n_out.
        bias: False leaves b out.

    Raises:
        ValueError: an argument is out of its range, or an input that is not (batch, height, width, n_in), holds no
            window, or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import Conv2D
        >>> Conv2D(1, 4, 3, jax.random.key(0), stride=2).forward(jax.numpy.ones((2, 8, 8, 1))).shape
        (2, 4, 4, 4)
    """

    axes = 2


class Conv3D(_Conv):
    """Convolution of volumes or films, channels last.

    y[b, p, o] = sum over d, c of x[b, p s + d l, c] W[d, c, o] + b[o], where places p and offsets d have three
    coordinates (Ji et al. 2013, section 2.1).

    Args:
        n_in: channels of the input.
        n_out: channels of the output.
        size: depth, height and width of the window, three numbers or one for all.
        key: int or random key for the weights.
        stride: step of the window.
        padding: as for `Conv2D`.
        dilation: from one entry of the window to the next.
        groups: groups of channels that stay apart; divides n_in and n_out.
        bias: False leaves b out.

    Raises:
        ValueError: as `Conv2D` raises, of inputs (batch, depth, height, width, n_in).

    Example:
        >>> import jax
        >>> from da_layers import Conv3D
        >>> Conv3D(1, 4, (1, 3, 3), jax.random.key(0)).forward(jax.numpy.ones((2, 4, 8, 8, 1))).shape
        (2, 4, 8, 8, 4)
    """

    axes = 3


class DepthwiseConv2D(Conv2D):
    """Convolution of each channel of an image by itself.

    y[b, i, j, c m + k] = sum over di, dj of x[b, i s + di l, j s + dj l, c] W[di, dj, 0, c m + k] + b[c m + k], with m
    outputs a channel (Chollet 2017, section 3).

    Args:
        n_in: channels of the input.
        size: height and width of the window, a pair or one number for both.
        key: int or random key for the weights.
        multiplier: outputs a channel.
        **options: stride, padding, dilation and bias of `Conv2D`.

    Raises:
        ValueError: as `Conv2D` raises.

    Example:
        >>> import jax
        >>> from da_layers import DepthwiseConv2D
        >>> DepthwiseConv2D(4, 3, jax.random.key(0), multiplier=2).forward(jax.numpy.ones((2, 8, 8, 4))).shape
        (2, 8, 8, 8)
    """

    def __init__(self, n_in: int, size: int | Axes, key: Seed, multiplier: int = 1, **options: Any) -> None:
        super().__init__(n_in, n_in * multiplier, size, key, groups=n_in, **options)


class SeparableConv2D(Layer):
    """A depthwise convolution, then a map of the channels at each place.

    y = pointwise(depthwise(x)), where pointwise is a Conv2D with a window of 1 (Chollet 2017, section 3).

    Args:
        n_in: channels of the input.
        n_out: channels of the output.
        size: height and width of the depthwise window, a pair or one number for both.
        key: int or random key for the weights.
        multiplier: outputs a channel of the depthwise convolution.
        **options: stride, padding and dilation of the depthwise convolution.

    Raises:
        ValueError: as `Conv2D` raises.

    Example:
        >>> import jax
        >>> from da_layers import SeparableConv2D
        >>> SeparableConv2D(4, 6, 3, jax.random.key(0)).forward(jax.numpy.ones((2, 8, 8, 4))).shape
        (2, 8, 8, 6)
    """

    def __init__(self, n_in: int, n_out: int, size: int | Axes, key: Seed, multiplier: int = 1, **options: Any) -> None:
        depthwise_key, pointwise_key = jax.random.split(as_key(key))
        self.depthwise = DepthwiseConv2D(n_in, size, depthwise_key, multiplier, bias=False, **options)
        self.pointwise = Conv2D(n_in * multiplier, n_out, 1, pointwise_key)

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, height, width, n_in), float, to (batch, height', width', n_out)."""
        return self.pointwise.forward(self.depthwise.forward(x, training), training)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient of y to that of x; adds to both convolutions."""
        return self.depthwise.backward(self.pointwise.backward(g))


@partial(jax.jit, static_argnames="window")
def _conv(x: jax.Array, weight: jax.Array, bias: jax.Array | None, *, window: Window) -> jax.Array:
    y = window.convolve(x, weight)
    return y if bias is None else y + bias


# A convolution is linear in x and in W, so each gradient is the transpose of that linear map, applied to g.
@partial(jax.jit, static_argnames="window")
def _conv_backward(
    x: jax.Array, weight: jax.Array, g: jax.Array, *, window: Window
) -> tuple[jax.Array, jax.Array, jax.Array]:
    (g_input,) = jax.linear_transpose(lambda a: window.convolve(a, weight), x)(g)
    (g_weight,) = jax.linear_transpose(lambda w: window.convolve(x, w), weight)(g)
    return g_input, g_weight, g.sum(tuple(range(g.ndim - 1)))
