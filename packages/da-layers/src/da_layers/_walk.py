"""The one rule for what belongs to an object: attributes, lists, tuples, deques and dicts, under any name."""

import dataclasses
import sys
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from ._variable import Variable

_FOREIGN = frozenset({"jax", "jaxlib", "numpy", "ml_dtypes", "da_trainer"} | set(sys.stdlib_module_names))


def children(owner: Any) -> Iterator[tuple[str, Any]]:
    """Yields (name, child) for what `owner` holds; nothing for arrays, numbers, functions and foreign objects."""
    if isinstance(owner, dict):
        for key, child in owner.items():
            yield str(key), child
    elif isinstance(owner, (list, tuple, deque)):
        for index, child in enumerate(owner):
            yield str(index), child
    elif has_attributes(owner):
        yield from vars(owner).items()


def has_attributes(owner: Any) -> bool:
    """Whether the walk goes into the attributes of `owner`: layers, users' own objects, dataclasses."""
    if isinstance(owner, (type, Variable)) or not hasattr(owner, "__dict__"):
        return False
    if isinstance(owner, SimpleNamespace) or dataclasses.is_dataclass(owner):
        return True
    return type(owner).__module__.partition(".")[0] not in _FOREIGN


def walk(root: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (path, object) for everything under `root`, depth first, `root` itself first; a shared object once.

    Paths are attribute names, indices and keys joined by dots, as in `layers.0.weight`.
    """
    seen: dict[int, Any] = {}
    pending: list[tuple[str, Any]] = [(prefix, root)]
    while pending:
        path, owner = pending.pop()
        if id(owner) in seen:
            continue
        # Held, not only its id: a temporary's id may be given to the next object.
        seen[id(owner)] = owner
        yield path, owner
        below = [(f"{path}.{name}" if path else name, child) for name, child in children(owner)]
        pending.extend(reversed(below))
