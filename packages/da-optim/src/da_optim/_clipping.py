"""Clipping by the norm of all gradients together."""

from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp

from ._strong import strong


def global_norm(gradients: Iterable[jax.Array]) -> jax.Array:
    """Compute the Euclidean norm of all gradients together: sqrt of the sum of all squares.

    Args:
        gradients: float arrays of any shapes and dtypes.

    Returns:
        A scalar: float32, or float64 if a gradient is. The squares are summed in that dtype.

    Example:
        >>> import jax.numpy as jnp
        >>> global_norm([jnp.array([3.0]), jnp.array([[4.0]])])
        Array(5., dtype=float32)
    """
    return _global_norm(list(gradients))


def clip_by_global_norm(
    gradients: Iterable[jax.Array], max_norm: float | jax.Array
) -> tuple[list[jax.Array], jax.Array]:
    """Scale all gradients by one factor, so that their norm together is at most max_norm.

        g <- g                        if norm <= max_norm
        g <- g * max_norm / norm      otherwise

    Nothing is divided by a norm of 0. If the norm is NaN, so is every gradient returned.

    Args:
        gradients: float arrays of any shapes and dtypes.
        max_norm: a number >= 0, or a scalar array.

    Returns:
        The clipped gradients, with their shapes and dtypes, and the norm from before clipping.

    Source:
        Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks",
        Algorithm 1.

    Example:
        >>> import jax.numpy as jnp
        >>> clip_by_global_norm([jnp.array([3.0]), jnp.array([4.0])], max_norm=2.5)
        ([Array([1.5], dtype=float32), Array([2.], dtype=float32)], Array(5., dtype=float32))
    """
    return _clip_by_global_norm(list(gradients), strong(max_norm))


@jax.jit
def _global_norm(gradients: Sequence[jax.Array]) -> jax.Array:
    wide = (gradient.astype(jnp.promote_types(gradient.dtype, jnp.float32)) for gradient in gradients)
    return jnp.sqrt(sum((jnp.sum(gradient * gradient) for gradient in wide), jnp.float32(0)))


@jax.jit
def _clip_by_global_norm(gradients: Sequence[jax.Array], max_norm: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    norm = _global_norm(gradients)
    small = norm <= max_norm  # False for NaN, which the quotient then carries on
    scale = jnp.where(small, 1, max_norm) / jnp.where(small, 1, norm)
    return [(gradient * scale).astype(gradient.dtype) for gradient in gradients], norm
