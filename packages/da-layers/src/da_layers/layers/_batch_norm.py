"""BatchNorm."""

import math

import jax
import jax.numpy as jnp
from jax import lax

from .._layer import Layer
from .._variable import Buffer, Param
from ._standardize import standardize, standardize_backward


class BatchNorm(Layer):
    """Normalises each channel (last axis) over the batch and every axis between.

    Training: y = scale * (x - mean) / sqrt(variance + epsilon) + bias with the batch's mean and biased variance, and
    running = (1 - momentum) * running + momentum * batch, for mean and unbiased variance (of one value there is none,
    and the running variance stays).
    Otherwise: the same y with the running mean and variance (Ioffe & Szegedy 2015, Algorithms 1 and 2).

    Args:
        n: size of the last axis.
        momentum: share of the new batch in the running statistics, 0 to 1.
        epsilon: added to the variance.

    Raises:
        ValueError: a momentum outside 0 to 1, or an input whose last axis is not n or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import BatchNorm
        >>> layer = BatchNorm(1)
        >>> layer.forward(jax.numpy.array([[1.0], [3.0]]), training=True).round(2).tolist()
        [[-1.0], [1.0]]
        >>> layer.running_mean.value
        Array([0.2], dtype=float32)
    """

    def __init__(self, n: int, momentum: float = 0.1, epsilon: float = 1e-5) -> None:
        self.require_sizes(n=n)
        self.require(0 <= momentum <= 1, "momentum must be from 0 to 1", momentum=momentum)
        self.n, self.momentum, self.epsilon = n, momentum, epsilon
        self.scale = Param(jnp.ones(n), role="scale")
        self.bias = Param(jnp.zeros(n), role="bias")
        self.running_mean = Buffer(jnp.zeros(n))
        self.running_variance = Buffer(jnp.ones(n))

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, ..., n), float, to the same shape; training moves the running statistics."""
        self.require(
            x.ndim >= 2 and x.shape[-1] == self.n, f"x must have shape (batch, ..., {self.n})", x__shape=x.shape
        )
        self.require_float(x)
        scale, bias = self.scale.value, self.bias.value
        if not training:
            return _normalize(x, scale, bias, self.running_mean.value, self.running_variance.value, self.epsilon)
        y, normal, inverse, mean, variance = _batch_norm(
            x,
            scale,
            bias,
            self.running_mean.value,
            self.running_variance.value,
            self.momentum,
            self.epsilon,
        )
        self.running_mean.value, self.running_variance.value = mean, variance
        self.keep(normal, inverse)
        return y

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (batch, ..., n) to the input's; adds to scale and bias."""
        normal, inverse = self.take()
        gx, g_scale, g_bias = _batch_norm_backward(normal, inverse, self.scale.value, g)
        self.scale.add_grad(g_scale)
        self.bias.add_grad(g_bias)
        return gx


@jax.jit
def _normalize(
    x: jax.Array, scale: jax.Array, bias: jax.Array, mean: jax.Array, variance: jax.Array, epsilon: float
) -> jax.Array:
    return ((x - mean) * lax.rsqrt(variance + epsilon) * scale + bias).astype(x.dtype)


@jax.jit
def _batch_norm(
    x: jax.Array,
    scale: jax.Array,
    bias: jax.Array,
    running_mean: jax.Array,
    running_variance: jax.Array,
    momentum: float,
    epsilon: float,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    normal, inverse, mean, variance = standardize(x, tuple(range(x.ndim - 1)), epsilon)
    count = math.prod(x.shape[:-1])
    unbiased = variance.reshape(-1) * (count / (count - 1)) if count > 1 else running_variance
    new_mean = (1 - momentum) * running_mean + momentum * mean.reshape(-1)
    new_variance = (1 - momentum) * running_variance + momentum * unbiased
    # The running statistics keep their dtype whatever comes in.
    new_mean, new_variance = new_mean.astype(running_mean.dtype), new_variance.astype(running_variance.dtype)
    return normal * scale + bias, normal, inverse, new_mean, new_variance


@jax.jit
def _batch_norm_backward(
    normal: jax.Array, inverse: jax.Array, scale: jax.Array, g: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    rows = tuple(range(g.ndim - 1))
    gx = standardize_backward(g * scale, normal, inverse, rows)
    return gx, (g * normal).sum(rows), g.sum(rows)
