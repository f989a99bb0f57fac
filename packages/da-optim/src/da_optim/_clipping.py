"""Clipping by the norm of all gradients together."""

from collections.abc import Iterable

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
    return _norm(_stacked_sums(gradients))


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

    Raises:
        ValueError: if max_norm is a number below 0 or NaN.

    Source:
        Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks",
        Algorithm 1.

    Example:
        >>> import jax.numpy as jnp
        >>> clip_by_global_norm([jnp.array([3.0]), jnp.array([4.0])], max_norm=2.5)
        ([Array([1.5], dtype=float32), Array([2.], dtype=float32)], Array(5., dtype=float32))
    """
    if not isinstance(max_norm, jax.Array) and not max_norm >= 0:
        raise ValueError(f"max_norm must be >= 0. Received: max_norm={max_norm!r}")
    gradients = list(gradients)
    scale, norm = clipping_scale(_stacked_sums(gradients), max_norm)
    return [scale_gradient(gradient, scale) for gradient in gradients], norm


def sum_of_squares(gradient: jax.Array) -> jax.Array:
    """The sum of the squares of an array's entries, in float32 or wider; the part of one array in the global norm.

    Example:
        >>> import jax.numpy as jnp
        >>> sum_of_squares(jnp.array([3.0, 4.0]))
        Array(25., dtype=float32)
    """
    return _sum_of_squares(gradient)


def clipping_scale(sums: jax.Array, max_norm: float | jax.Array) -> tuple[jax.Array, jax.Array]:
    """What `clip_by_global_norm` multiplies each gradient by.

    Args:
        sums: (arrays,), the `sum_of_squares` of each.
        max_norm: a number >= 0, or a scalar array.

    Returns:
        The scale, 1 where the norm is at most max_norm, and the norm.

    Example:
        >>> import jax.numpy as jnp
        >>> clipping_scale(jnp.array([9.0, 16.0]), max_norm=2.5)
        (Array(0.5, dtype=float32), Array(5., dtype=float32))
    """
    return _clipping_scale(sums, strong(max_norm))


def scale_gradient(gradient: jax.Array, scale: jax.Array) -> jax.Array:
    """gradient * scale, in the gradient's dtype.

    Example:
        >>> import jax.numpy as jnp
        >>> scale_gradient(jnp.array([3.0, 4.0]), jnp.array(0.5))
        Array([1.5, 2. ], dtype=float32)
    """
    return _scale_gradient(gradient, scale)


def _stacked_sums(gradients: Iterable[jax.Array]) -> jax.Array:
    sums = [_sum_of_squares(gradient) for gradient in gradients]
    return jnp.stack(sums) if sums else jnp.zeros(0)


@jax.jit
def _sum_of_squares(gradient: jax.Array) -> jax.Array:
    wide = gradient.astype(jnp.promote_types(gradient.dtype, jnp.float32))
    return jnp.sum(wide * wide)


@jax.jit
def _norm(sums: jax.Array) -> jax.Array:
    return jnp.sqrt(sums.sum())


@jax.jit
def _clipping_scale(sums: jax.Array, max_norm: jax.Array) -> tuple[jax.Array, jax.Array]:
    norm = _norm(sums)
    small = norm <= max_norm  # False for NaN, which the quotient then carries on
    return jnp.where(small, 1, max_norm) / jnp.where(small, 1, norm), norm


@jax.jit
def _scale_gradient(gradient: jax.Array, scale: jax.Array) -> jax.Array:
    return (gradient * scale).astype(gradient.dtype)
