"""Loops inside compiled programs that keep the bits of what they repeat."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def unchanged(index: jax.Array, stop: jax.Array | int) -> jax.Array:
    """`index`, which is below `stop`, by way of a sort.

    XLA's CPU writes a small loop of plain operations out as one function, and rounds across what the fence keeps
    apart. A loop that sorts it leaves as it is.
    """
    return lax.sort(jnp.stack([index, jnp.asarray(stop, index.dtype)]))[0]


def scan_with(wrap: Callable[[Any], Any]) -> Callable[..., tuple[Any, Any]]:
    """A scan whose body is wrapped, by the fence or by nothing.

    Args:
        wrap: takes the body, and gives it back as it is to be traced.
    """

    def scan(body: Callable[[Any, Any], tuple[Any, Any]], init: Any, inputs: Any, reverse: bool) -> tuple[Any, Any]:
        wrapped, length = wrap(body), len(jax.tree.leaves(inputs)[0])
        _, shapes = jax.eval_shape(wrapped, init, part_at(inputs, 0))
        outputs = jax.tree.map(lambda shape: jnp.zeros((length, *shape.shape), shape.dtype), shapes)

        def step(index: jax.Array, carry: Any) -> Any:
            place = unchanged(index, length)
            place = length - 1 - place if reverse else place
            inner, outputs = carry
            inner, output = wrapped(inner, part_at(inputs, place))
            put = partial(lax.dynamic_update_index_in_dim, index=place, axis=0)
            return inner, jax.tree.map(put, outputs, output)

        return lax.fori_loop(0, length, step, (init, outputs))

    return scan


def part_at(arrays: Any, index: jax.Array | int) -> Any:
    """Entry `index` along the first axis of each array."""
    return jax.tree.map(partial(lax.dynamic_index_in_dim, index=index, keepdims=False), arrays)
