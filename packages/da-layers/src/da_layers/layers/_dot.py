"""The product of two arrays, rounded in one way wherever it stands."""

import math

import jax
import jax.numpy as jnp
from jax import lax

# The axes along which terms are summed, and those that both arrays share: of each, (of a, of b).
Axes = tuple[tuple[int, ...], tuple[int, ...]]
_FEW = 8


def dot(a: jax.Array, b: jax.Array, summed: Axes, shared: Axes = ((), ())) -> jax.Array:
    """The sum of a times b along the axes `summed`: the shared axes, then the other axes of a, then those of b.

    On a CPU XLA writes out itself a product of few terms that is small or a vector, and rounds the one or the other
    term as it suits the program around it. Here those terms are rounded before they are summed; all else goes to
    XLA's library.
    """
    of_a, of_b = _others(a, summed[0] + shared[0]), _others(b, summed[1] + shared[1])
    rows, columns = [a.shape[axis] for axis in of_a], [b.shape[axis] for axis in of_b]
    sizes = math.prod(rows), math.prod(columns), math.prod(a.shape[axis] for axis in summed[0])
    if sizes[2] >= _FEW or (max(sizes) >= _FEW and min(sizes[:2]) > 1):
        return lax.dot_general(a, b, (summed, shared))
    blocks = [a.shape[axis] for axis in shared[0]]
    dtype = jnp.promote_types(jnp.result_type(a, b), jnp.float32)
    left = a.transpose(*shared[0], *of_a, *summed[0]).reshape(*blocks, sizes[0], 1, sizes[2]).astype(dtype)
    right = b.transpose(*shared[1], *of_b, *summed[1]).reshape(*blocks, 1, *sizes[1:]).astype(dtype)
    products = lax.optimization_barrier(left * right)
    return products.sum(-1).reshape(*blocks, *rows, *columns).astype(jnp.result_type(a, b))


def _others(x: jax.Array, axes: tuple[int, ...]) -> list[int]:
    return [axis for axis in range(x.ndim) if axis not in axes]
