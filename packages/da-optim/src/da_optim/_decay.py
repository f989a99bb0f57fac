"""Weight decay: as a term of the gradient, or decoupled from it."""

import jax

from ._strong import strong


def l2_decay(gradient: jax.Array, weights: jax.Array, weight_decay: float | jax.Array) -> jax.Array:
    """Add the gradient of (weight_decay / 2) * |w|^2 to the gradient: g + weight_decay * w.

    Args:
        gradient: float array of any shape.
        weights: of the same shape.
        weight_decay: a number >= 0, or a scalar array.

    Returns:
        The sum, with the gradient's shape and dtype.

    Source:
        Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", Algorithms 1 and 2, line 6.

    Example:
        >>> import jax.numpy as jnp
        >>> l2_decay(jnp.array([1.0]), jnp.array([4.0]), 0.5)
        Array([3.], dtype=float32)
    """
    return _l2_decay(gradient, weights, strong(weight_decay))


def decoupled_decay(weights: jax.Array, eta: float | jax.Array, weight_decay: float | jax.Array) -> jax.Array:
    """Shrink the weights apart from the optimiser's step: w - eta * weight_decay * w.

    Args:
        weights: float array of any shape.
        eta: the schedule's multiplier at this step, not the learning rate; a number or a scalar array.
        weight_decay: a number >= 0, or a scalar array.

    Returns:
        The smaller weights, with their shape and dtype.

    Source:
        Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", Algorithm 1 line 9 and
        Algorithm 2 line 12.

    Example:
        >>> import jax.numpy as jnp
        >>> decoupled_decay(jnp.array([4.0]), eta=0.5, weight_decay=0.25)
        Array([3.5], dtype=float32)
    """
    return _decoupled_decay(weights, strong(eta), strong(weight_decay))


@jax.jit
def _l2_decay(gradient: jax.Array, weights: jax.Array, weight_decay: jax.Array) -> jax.Array:
    return (gradient + weight_decay * weights).astype(gradient.dtype)


@jax.jit
def _decoupled_decay(weights: jax.Array, eta: jax.Array, weight_decay: jax.Array) -> jax.Array:
    return (weights - eta * weight_decay * weights).astype(weights.dtype)
