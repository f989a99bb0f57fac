"""What convolutions and their transposes share."""

from typing import Any, ClassVar

import jax

from .._layer import Layer
from .._variable import Param
from ._window import NAMES, Axes, Window


class WindowLayer(Layer):
    """A layer whose weights are those of a window that moves along the axes between batch and channels.

    A subclass has `forward`, and the gradients of `backward`.
    """

    axes: ClassVar[int]
    n_in: int
    window: Window
    weight: Param
    bias: Param | None

    def each_axis(self, *names: str, **given: Any) -> list[Axes]:
        """Those of the `given` sizes that may be one number or one for each axis, as the latter.

        Raises:
            ValueError: one of the sizes is no integer of 1 or more, or there are others than 1 or as many as axes.
        """
        self.require_sizes(**given)
        found = [
            tuple(size) if isinstance(size, (tuple, list)) else (size,) * self.axes
            for size in (given[name] for name in names)
        ]
        for sizes in found:
            self.require(len(sizes) == self.axes, f"{', '.join(names)} must be one number, or {self.axes}", **given)
        return found

    def require_input(self, x: jax.Array) -> None:
        """Raises a ValueError unless x is (batch, *lengths, n_in) and float."""
        self.require(
            x.ndim == self.axes + 2 and x.shape[-1] == self.n_in,
            f"x must have shape (batch, {NAMES[self.axes]}, {self.n_in})",
            x__shape=x.shape,
        )
        self.require_float(x)

    def gradients(self, x: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Those of x, of the weights and of the bias."""
        raise NotImplementedError

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient of y to that of x; adds to weight and bias."""
        (x,) = self.take()
        gx, g_weight, g_bias = self.gradients(x, g)
        self.weight.add_grad(g_weight)
        if self.bias:
            self.bias.add_grad(g_bias)
        return gx
