"""The softmax formula, for attention and for the cross-entropy."""

import jax
import jax.numpy as jnp


def softmax(x: jax.Array) -> jax.Array:
    """exp(x - max) / sum(exp(x - max)) over the last axis."""
    powers = jnp.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def softmax_backward(p: jax.Array, g: jax.Array) -> jax.Array:
    """p * (g - sum(g * p)), the gradient of x from the gradient `g` of `p = softmax(x)`."""
    return p * (g - (g * p).sum(-1, keepdims=True))
