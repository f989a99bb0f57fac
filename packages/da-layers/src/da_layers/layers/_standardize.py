"""The formula that every norm layer shares."""

import jax
import jax.numpy as jnp
from jax import lax

Axes = tuple[int, ...]


def widened(x: jax.Array) -> jax.Array:
    """x in float32 at least: squares of float16 numbers overflow from 256 on."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def standardize(x: jax.Array, axes: Axes, epsilon: float) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """(x - mean) / sqrt(variance + epsilon) over `axes`, with the inverse deviation, mean and biased variance."""
    wide = widened(x)
    mean = wide.mean(axes, keepdims=True)
    centred = wide - mean
    variance = (centred * centred).mean(axes, keepdims=True)
    inverse = lax.rsqrt(variance + epsilon)
    normal, inverse, mean, variance = (part.astype(x.dtype) for part in (centred * inverse, inverse, mean, variance))
    return normal, inverse, mean, variance


def standardize_backward(g: jax.Array, normal: jax.Array, inverse: jax.Array, axes: Axes) -> jax.Array:
    """Gradient of x, from the gradient `g` of the standardised `normal`."""
    return inverse * (g - g.mean(axes, keepdims=True) - normal * (g * normal).mean(axes, keepdims=True))
