"""The formula that every norm layer shares."""

import jax
from jax import lax

Axes = tuple[int, ...]


def standardize(x: jax.Array, axes: Axes, epsilon: float) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """(x - mean) / sqrt(variance + epsilon) over `axes`, with the inverse deviation, mean and biased variance."""
    mean = x.mean(axes, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(axes, keepdims=True)
    inverse = lax.rsqrt(variance + epsilon)
    return centred * inverse, inverse, mean, variance


def standardize_backward(g: jax.Array, normal: jax.Array, inverse: jax.Array, axes: Axes) -> jax.Array:
    """Gradient of x, from the gradient `g` of the standardised `normal`."""
    return inverse * (g - g.mean(axes, keepdims=True) - normal * (g * normal).mean(axes, keepdims=True))
