"""GroupNorm, and InstanceNorm as the case of one channel a group."""

from functools import partial

import jax
import jax.numpy as jnp

from .._layer import Layer
from .._variable import Param
from ._standardize import standardize, standardize_backward


class GroupNorm(Layer):
    """Normalises each sample over groups of channels (last axis) and every axis between.

    y = scale * (x - mean) / sqrt(variance + epsilon) + bias, mean and variance over a group (Wu & He 2018, section 3).

    Args:
        groups: number of groups; divides n.
        n: size of the last axis.
        epsilon: added to the variance.

    Raises:
        ValueError: groups does not divide n, or an input whose last axis is not n or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import GroupNorm
        >>> GroupNorm(1, 2).forward(jax.numpy.array([[[1.0, 3.0]]])).round(2).tolist()
        [[[-1.0, 1.0]]]
    """

    def __init__(self, groups: int, n: int, epsilon: float = 1e-5) -> None:
        self.require_sizes(groups=groups, n=n)
        self.require(n % groups == 0, "groups must divide n", groups=groups, n=n)
        self.groups, self.n, self.epsilon = groups, n, epsilon
        self.scale = Param(jnp.ones(n), role="scale")
        self.bias = Param(jnp.zeros(n), role="bias")

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, ..., n), float, to the same shape."""
        self.require(
            x.ndim >= 2 and x.shape[-1] == self.n, f"x must have shape (batch, ..., {self.n})", x__shape=x.shape
        )
        self.require_float(x)
        y, normal, inverse = _group_norm(x, self.scale.value, self.bias.value, self.epsilon, groups=self.groups)
        if training:
            self.keep(normal, inverse)
        return y

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (batch, ..., n) to the input's; adds to scale and bias."""
        normal, inverse = self.take()
        gx, g_scale, g_bias = _group_norm_backward(normal, inverse, self.scale.value, g, groups=self.groups)
        self.scale.add_grad(g_scale)
        self.bias.add_grad(g_bias)
        return gx


class InstanceNorm(GroupNorm):
    """Normalises each channel (last axis) of each sample over every axis between.

    y = scale * (x - mean) / sqrt(variance + epsilon) + bias (Ulyanov, Vedaldi & Lempitsky 2016, equation 4).

    Args:
        n: size of the last axis.
        epsilon: added to the variance.

    Raises:
        ValueError: an input of fewer than three axes, whose last axis is not n or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import InstanceNorm
        >>> InstanceNorm(1).forward(jax.numpy.array([[[1.0], [3.0]]])).round(2).tolist()
        [[[-1.0], [1.0]]]
    """

    def __init__(self, n: int, epsilon: float = 1e-5) -> None:
        super().__init__(n, n, epsilon)

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, axis, ..., n), float, to the same shape."""
        self.require(x.ndim >= 3, f"x must have shape (batch, axis, ..., {self.n})", x__shape=x.shape)
        return super().forward(x, training)


def _grouped(x: jax.Array, groups: int) -> tuple[jax.Array, tuple[int, ...]]:
    split = x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)
    return split, (*range(1, x.ndim - 1), x.ndim)


@partial(jax.jit, static_argnames="groups")
def _group_norm(
    x: jax.Array, scale: jax.Array, bias: jax.Array, epsilon: float, *, groups: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    split, axes = _grouped(x, groups)
    normal, inverse, _, _ = standardize(split, axes, epsilon)
    return normal.reshape(x.shape) * scale + bias, normal, inverse


@partial(jax.jit, static_argnames="groups")
def _group_norm_backward(
    normal: jax.Array, inverse: jax.Array, scale: jax.Array, g: jax.Array, *, groups: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    split, axes = _grouped(g * scale, groups)
    gx = standardize_backward(split, normal, inverse, axes).reshape(g.shape)
    rows = tuple(range(g.ndim - 1))
    return gx, (g * normal.reshape(g.shape)).sum(rows), g.sum(rows)
