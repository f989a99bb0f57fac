"""The product of two arrays, rounded in one way wherever it stands."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

# The axes along which terms are summed, and those that both arrays share: of each, (of a, of b).
Axes = tuple[tuple[int, ...], tuple[int, ...]]
_FEW = 8


def dot(a: jax.Array, b: jax.Array, summed: Axes, shared: Axes = ((), ())) -> jax.Array:
    """The sum of a times b along the axes `summed`: the shared axes, then the other axes of a, then those of b.

    On a CPU XLA writes out itself a product of few terms that is small or a vector, and rounds the one or the other
    term as it suits the program around it. Here those terms are rounded before they are summed; all else is left to
    XLA.
    """
    of_a, of_b = _others(a, summed[0] + shared[0]), _others(b, summed[1] + shared[1])
    rows, columns, terms = _size(a, of_a), _size(b, of_b), _size(a, summed[0])
    fits = [a.shape[axis] for axis in summed[0] + shared[0]] == [b.shape[axis] for axis in summed[1] + shared[1]]
    if not fits or terms >= _FEW or (max(rows, columns) >= _FEW and min(rows, columns) > 1):
        return lax.dot_general(a, b, (summed, shared))
    dtype = jnp.promote_types(jnp.result_type(a, b), jnp.float32)
    place = len(shared[0])
    left = a.transpose(*shared[0], *of_a, *summed[0]).astype(dtype)
    right = b.transpose(*shared[1], *of_b, *summed[1]).astype(dtype)
    left = jnp.expand_dims(left, tuple(range(place + len(of_a), place + len(of_a) + len(of_b))))
    right = jnp.expand_dims(right, tuple(range(place, place + len(of_a))))
    products = lax.optimization_barrier(left * right)
    return products.sum(tuple(range(products.ndim - len(summed[0]), products.ndim))).astype(jnp.result_type(a, b))


def _others(x: jax.Array, axes: tuple[int, ...]) -> list[int]:
    return [axis for axis in range(x.ndim) if axis not in axes]


def _size(x: jax.Array, axes: Sequence[int]) -> int:
    return math.prod(x.shape[axis] for axis in axes)
