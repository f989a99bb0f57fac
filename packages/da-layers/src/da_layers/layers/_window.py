"""Windows that move along the axes of a sequence, an image or a volume."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

Padding = Literal["same", "valid"]
Axes = tuple[int, ...]

NAMES = {1: "time", 2: "height, width", 3: "depth, height, width"}


class Window(NamedTuple):
    """How a convolution's window moves; one number for each axis.

    Attributes:
        stride: from one place to the next.
        padding: "same", "valid", "causal" (all of it in front), or zeros at both ends.
        dilation: from one entry of the window to the next.
        groups: groups of channels that stay apart.
    """

    stride: Axes
    padding: Padding | Literal["causal"] | int
    dilation: Axes
    groups: int = 1

    def pads(self, lengths: Axes, size: Axes) -> list[tuple[int, int]]:
        """Zeros in front of and behind each axis."""
        reach = self.reach(size)
        if isinstance(self.padding, int):
            return [(self.padding, self.padding)] * len(size)
        if self.padding == "causal":
            return [(each - 1, 0) for each in reach]
        return list(lax.padtype_to_pads(lengths, reach, self.stride, self.padding.upper()))

    def reach(self, size: Axes) -> Axes:
        """From the first to the last entry of a window, both counted."""
        return tuple(step * (each - 1) + 1 for each, step in zip(size, self.dilation, strict=True))

    def fits(self, lengths: Axes, size: Axes) -> bool:
        """Whether there is a place for the window along each axis."""
        padded = zip(lengths, self.pads(lengths, size), self.reach(size), strict=True)
        return all(length + front + behind >= reach for length, (front, behind), reach in padded)

    def convolve(self, x: jax.Array, weight: jax.Array) -> jax.Array:
        """x (batch, *lengths, channels) with weight (*size, channels / groups, outputs); linear in both."""
        axes = "DHW"[3 - len(self.stride) :]
        dtype = jnp.result_type(x, weight)
        return lax.conv_general_dilated(
            x.astype(dtype),
            weight.astype(dtype),
            self.stride,
            self.pads(x.shape[1:-1], weight.shape[:-2]),
            rhs_dilation=self.dilation,
            dimension_numbers=(f"N{axes}C", f"{axes}IO", f"N{axes}C"),
            feature_group_count=self.groups,
        )
