"""MaxPool1D and MaxPool2D, AveragePool1D and AveragePool2D."""

import itertools
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from .._layer import Layer
from ._window import Padding

# Of each axis that is pooled: entries of padding in front and behind, and the number of windows.
Frame = tuple[tuple[int, int, int], ...]


class Pool(Layer):
    """What the pooling layers share: windows along the axes between the batch and the channels (last axis)."""

    axes: ClassVar[int]

    def __init__(self, size: int, stride: int | None = None, padding: Padding = "valid") -> None:
        stride = size if stride is None else stride
        self.require_sizes(size=size, stride=stride)
        self.require(padding in ("valid", "same"), "padding must be 'valid' or 'same'", padding=padding)
        self.size, self.stride, self.padding = size, stride, padding

    def frame(self, x: jax.Array) -> Frame:
        """The padding and number of windows along each axis.

        Raises:
            ValueError: x has other axes, holds no window, or its dtype is not a float.
        """
        names = ", ".join(("time",) if self.axes == 1 else ("height", "width"))
        self.require(x.ndim == self.axes + 2, f"x must have shape (batch, {names}, channels)", x__shape=x.shape)
        self.require_float(x)
        lengths = x.shape[1:-1]
        self.require(
            self.padding == "same" or min(lengths) >= self.size,
            f"x must be at least {self.size} along {names}",
            x__shape=x.shape,
        )
        sizes, strides = (self.size,) * self.axes, (self.stride,) * self.axes
        pads = lax.padtype_to_pads(lengths, sizes, strides, self.padding.upper())
        return tuple(
            (front, behind, (front + length + behind - self.size) // self.stride + 1)
            for length, (front, behind) in zip(lengths, pads, strict=True)
        )


class _MaxPool(Pool):
    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, ..., channels), float, to the windows' largest entries."""
        frame = self.frame(x)
        y = _max_pool(x, frame, self.size, self.stride)
        if training:
            self.keep(x, y, frame)
        return y

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient of the windows to that of the input, each to the first of the largest entries."""
        x, y, frame = self.take()
        return _max_pool_backward(x, y, g, frame, self.size, self.stride)


class _AveragePool(Pool):
    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, ..., channels), float, to the windows' means; padding does not count."""
        frame = self.frame(x)
        if training:
            self.keep(x.shape, frame)
        return _average_pool(x, frame, self.size, self.stride)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient of the windows to that of the input, shared evenly by the entries of each."""
        shape, frame = self.take()
        return _average_pool_backward(g, shape, frame, self.size, self.stride)


class MaxPool1D(_MaxPool):
    """The largest entry of each window of a sequence, channel by channel.

    y[b, i, c] = max over j < size of x[b, i stride + j, c]

    Args:
        size: entries in a window.
        stride: from one window to the next; None for the size.
        padding: "valid" leaves out what is in no whole window; "same" pads so that there are length / stride windows,
            rounded up.

    Raises:
        ValueError: an argument is out of its range, or an input that is not (batch, time, channels), is shorter than a
            window, or whose dtype is not a float.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import MaxPool1D
        >>> MaxPool1D(2).forward(jnp.array([[[1.0], [3.0], [2.0], [0.0]]])).ravel().tolist()
        [3.0, 2.0]
    """

    axes = 1


class MaxPool2D(_MaxPool):
    """The largest entry of each window of an image, channel by channel.

    y[b, i, j, c] = max over k, l < size of x[b, i stride + k, j stride + l, c]

    Args:
        size: height and width of a window.
        stride: from one window to the next; None for the size.
        padding: as for `MaxPool1D`.

    Raises:
        ValueError: as `MaxPool1D` raises, of inputs (batch, height, width, channels).

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import MaxPool2D
        >>> MaxPool2D(2).forward(jnp.arange(16.0).reshape(1, 4, 4, 1)).ravel().tolist()
        [5.0, 7.0, 13.0, 15.0]
    """

    axes = 2


class AveragePool1D(_AveragePool):
    """The mean of each window of a sequence, channel by channel.

    y[b, i, c] = mean over j < size of x[b, i stride + j, c], over what is no padding

    Args:
        size: entries in a window.
        stride: from one window to the next; None for the size.
        padding: as for `MaxPool1D`.

    Raises:
        ValueError: as `MaxPool1D` raises.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import AveragePool1D
        >>> AveragePool1D(2).forward(jnp.array([[[1.0], [3.0], [2.0], [0.0]]])).ravel().tolist()
        [2.0, 1.0]
    """

    axes = 1


class AveragePool2D(_AveragePool):
    """The mean of each window of an image, channel by channel.

    y[b, i, j, c] = mean over k, l < size of x[b, i stride + k, j stride + l, c], over what is no padding

    Args:
        size: height and width of a window.
        stride: from one window to the next; None for the size.
        padding: as for `MaxPool1D`.

    Raises:
        ValueError: as `MaxPool2D` raises.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import AveragePool2D
        >>> AveragePool2D(2).forward(jnp.arange(16.0).reshape(1, 4, 4, 1)).ravel().tolist()
        [2.5, 4.5, 10.5, 12.5]
    """

    axes = 2


def _padding(frame: Frame) -> list[tuple[int, int, int]]:
    return [(0, 0, 0), *((front, behind, 0) for front, behind, _ in frame), (0, 0, 0)]


def _offsets(frame: Frame, size: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(size), repeat=len(frame)))


def _taken(x: jax.Array, offset: tuple[int, ...], frame: Frame, stride: int) -> jax.Array:
    """Of each window the entry at `offset`; x is padded."""
    stops = [start + (count - 1) * stride + 1 for start, (_, _, count) in zip(offset, frame, strict=True)]
    return lax.slice(x, (0, *offset, 0), (x.shape[0], *stops, x.shape[-1]), (1, *(stride for _ in frame), 1))


def _put(g: jax.Array, offset: tuple[int, ...], frame: Frame, stride: int, shape: tuple[int, ...]) -> jax.Array:
    """Zeros in the shape of the input, but `g` where `_taken` takes from; what would be in the padding is left out."""
    edges = [
        (start - front, length - (start - front) - ((count - 1) * stride + 1), stride - 1)
        for start, (front, _, count), length in zip(offset, frame, shape[1:-1], strict=True)
    ]
    return lax.pad(g, jnp.zeros((), g.dtype), [(0, 0, 0), *edges, (0, 0, 0)])


@partial(jax.jit, static_argnums=(1, 2, 3))
def _max_pool(x: jax.Array, frame: Frame, size: int, stride: int) -> jax.Array:
    padded = lax.pad(x, jnp.array(-jnp.inf, x.dtype), _padding(frame))
    first, *others = (_taken(padded, offset, frame, stride) for offset in _offsets(frame, size))
    for other in others:
        first = jnp.maximum(first, other)
    return first


@partial(jax.jit, static_argnums=(3, 4, 5))
def _max_pool_backward(x: jax.Array, y: jax.Array, g: jax.Array, frame: Frame, size: int, stride: int) -> jax.Array:
    padded = lax.pad(x, jnp.array(-jnp.inf, x.dtype), _padding(frame))
    gx, given = jnp.zeros_like(x), jnp.zeros(y.shape, bool)
    for offset in _offsets(frame, size):
        here = (_taken(padded, offset, frame, stride) == y) & ~given
        given = given | here
        gx = gx + _put(jnp.where(here, g, 0), offset, frame, stride, x.shape)
    return gx


def _counts(shape: tuple[int, ...], frame: Frame, size: int, stride: int, dtype: jnp.dtype) -> jax.Array:
    """How many entries of each window are no padding."""
    ones = lax.pad(jnp.ones((1, *shape[1:-1], 1), dtype), jnp.zeros((), dtype), _padding(frame))
    return sum((_taken(ones, offset, frame, stride) for offset in _offsets(frame, size)), jnp.zeros((), dtype))


@partial(jax.jit, static_argnums=(1, 2, 3))
def _average_pool(x: jax.Array, frame: Frame, size: int, stride: int) -> jax.Array:
    padded = lax.pad(x, jnp.zeros((), x.dtype), _padding(frame))
    total = sum((_taken(padded, offset, frame, stride) for offset in _offsets(frame, size)), jnp.zeros((), x.dtype))
    return total / _counts(x.shape, frame, size, stride, x.dtype)


@partial(jax.jit, static_argnums=(1, 2, 3, 4))
def _average_pool_backward(g: jax.Array, shape: tuple[int, ...], frame: Frame, size: int, stride: int) -> jax.Array:
    share = g / _counts(shape, frame, size, stride, g.dtype)
    parts = (_put(share, offset, frame, stride, shape) for offset in _offsets(frame, size))
    return sum(parts, jnp.zeros((), g.dtype))
