"""Rotary positions: the formula."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


@partial(jax.jit, static_argnames=("heads", "back"))
def rotate(x: jax.Array, start: Any, *, heads: int, back: bool = False) -> jax.Array:
    """Turns each pair (x_i, x_{i + d/2}) of a head of size d by the angle t / 10000^(2i/d) at the place t.

    Su et al. 2021, section 3.4.2, with the halves of a head as pairs.

    Args:
        x: (batch, time, heads * d).
        start: the place of the first token.
        heads: number of heads.
        back: turns the other way, as the gradient is.
    """
    batch, time, size = x.shape
    half = size // heads // 2
    angles = (start + jnp.arange(time))[:, None] * 10000 ** (-jnp.arange(half) / half)
    cos, sin = (part.astype(x.dtype)[:, None] for part in (jnp.cos(angles), jnp.sin(angles)))
    first, second = jnp.split(x.reshape(batch, time, heads, 2 * half), 2, -1)
    sin = -sin if back else sin
    # Of a sum of two products, either may be rounded: not so behind a barrier.
    across = lax.optimization_barrier((-second * sin, first * sin))
    turned = first * cos + across[0], second * cos + across[1]
    return jnp.concatenate(turned, -1).reshape(x.shape)
