"""ConvTranspose1D and ConvTranspose2D."""

import math
from functools import partial

import jax
import jax.numpy as jnp

from .._variable import Param, Seed
from ._initial import he_normal
from ._window import Axes, Padding, Window
from ._window_layer import WindowLayer


class _ConvTranspose(WindowLayer):
    def __init__(
        self,
        n_in: int,
        n_out: int,
        size: int | Axes,
        key: Seed,
        stride: int | Axes = 1,
        padding: Padding | int = "same",
        bias: bool = True,
    ) -> None:
        given = {"n_in": n_in, "n_out": n_out, "size": size, "stride": stride}
        self.size, stride = self.each_axis("size", "stride", **given)
        known = padding in ("same", "valid") if isinstance(padding, str) else type(padding) is int and padding >= 0
        self.require(known, "padding must be 'same', 'valid' or a number of places", padding=repr(padding))
        self.n_in, self.n_out = n_in, n_out
        self.window = Window(stride, padding, (1,) * self.axes)
        # So many inputs add up to an output.
        added = max(1, math.prod(self.size) * n_in // math.prod(stride))
        self.weight = he_normal(key, (*self.size, n_out, n_in), added)
        self.bias = Param(jnp.zeros(n_out), role="bias") if bias else None

    def lengths(self, places: Axes) -> Axes:
        """The output's lengths, from the input's."""
        padding, stride = self.window.padding, self.window.stride
        if padding == "same":
            return tuple(place * step for place, step in zip(places, stride, strict=True))
        cut = 2 * padding if isinstance(padding, int) else 0
        along = zip(places, stride, self.size, strict=True)
        return tuple((place - 1) * step + size - cut for place, step, size in along)

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, *places, n_in), float, to (batch, *lengths, n_out)."""
        self.require_input(x)
        lengths = self.lengths(x.shape[1:-1])
        self.require(min(lengths) >= 1, "padding must leave an entry along each axis", x__shape=x.shape, y=lengths)
        if training:
            self.keep(x)
        bias = self.bias.value if self.bias else None
        return _spread(x, self.weight.value, bias, window=self.window, lengths=lengths)

    def gradients(self, x: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Those of x, of the weights and of the bias."""
        return _spread_backward(x, self.weight.value, g, window=self.window)


class ConvTranspose1D(_ConvTranspose):
    """Transposed convolution of sequences, channels last: makes them longer.

    y[b, i s + d - p, o] = sum over all i, d, c with that place of x[b, i, c] W[d, o, c], + b[o], with stride s and p
    places cut off in front; the transpose of a Conv1D from n_out to n_in channels (Zeiler et al. 2010).

    Args:
        n_in: channels of the input.
        n_out: channels of the output.
        size: entries in the window.
        key: int or random key for the weights.
        stride: step of the window: how many times as long the output is.
        padding: "same" (stride * time places), "valid" ((time - 1) * stride + size), or a number of places that are cut
            off at both ends of the latter.
        bias: False leaves b out.

    Raises:
        ValueError: an argument is out of its range, or an input that is not (batch, time, n_in), of which padding
            leaves nothing, or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import ConvTranspose1D
        >>> ConvTranspose1D(4, 2, 3, jax.random.key(0), stride=2).forward(jax.numpy.ones((2, 8, 4))).shape
        (2, 16, 2)
    """

    axes = 1


class ConvTranspose2D(_ConvTranspose):
    """Transposed convolution of images, channels last: makes them larger.

    As `ConvTranspose1D`, along height and width (Zeiler et al. 2010; Dumoulin & Visin 2016, section 4).

    Args:
        n_in: channels of the input.
        n_out: channels of the output.
        size: height and width of the window, a pair or one number for both.
        key: int or random key for the weights.
        stride: step of the window, a pair or one number.
        padding: as for `ConvTranspose1D`.
        bias: False leaves b out.

    Raises:
        ValueError: as `ConvTranspose1D` raises, of inputs (batch, height, width, n_in).

    Example:
        >>> import jax
        >>> from da_layers import ConvTranspose2D
        >>> ConvTranspose2D(4, 2, 3, jax.random.key(0), stride=2).forward(jax.numpy.ones((2, 4, 4, 4))).shape
        (2, 8, 8, 2)
    """

    axes = 2


@partial(jax.jit, static_argnames=("window", "lengths"))
def _spread(x: jax.Array, weight: jax.Array, bias: jax.Array | None, *, window: Window, lengths: Axes) -> jax.Array:
    dtype = jnp.result_type(x, weight)
    shape = jax.ShapeDtypeStruct((x.shape[0], *lengths, weight.shape[-2]), dtype)
    (y,) = jax.linear_transpose(lambda a: window.convolve(a, weight), shape)(x.astype(dtype))
    return y if bias is None else y + bias


@partial(jax.jit, static_argnames="window")
def _spread_backward(
    x: jax.Array, weight: jax.Array, g: jax.Array, *, window: Window
) -> tuple[jax.Array, jax.Array, jax.Array]:
    (g_weight,) = jax.linear_transpose(lambda w: window.convolve(g, w), weight)(x.astype(jnp.result_type(g, weight)))
    return window.convolve(g, weight), g_weight, g.sum(tuple(range(g.ndim - 1)))
