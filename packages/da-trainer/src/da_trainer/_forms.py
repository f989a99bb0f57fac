"""Small numbers that stand for the form of a pytree of arrays."""

from typing import Any

import jax

_numbers: dict[Any, int] = {}


def form_of(tree: Any) -> int:
    """A number for the structure, shapes, dtypes and placement of a pytree: what a program is compiled for."""
    leaves, structure = jax.tree.flatten(tree)
    form = (structure, *((leaf.shape, leaf.dtype, leaf.sharding) for leaf in leaves))
    return _numbers.setdefault(form, len(_numbers))
