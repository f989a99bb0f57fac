"""The one rule for what belongs to an object: attributes, lists, tuples, deques and dicts, under any name."""

import dataclasses
import sys
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from ._variable import Variable

# What a layer holds from forward to backward passes through it and is not part of it.
KEPT = ("_kept", "_kept_in")

_FOREIGN = frozenset({"jax", "jaxlib", "numpy", "ml_dtypes", "da_trainer"} | set(sys.stdlib_module_names))


def children(owner: Any) -> Iterator[tuple[str, Any]]:
    """Yields (name, child) for what `owner` holds; nothing for arrays, numbers, functions and foreign objects.

    Example:
        >>> from da_layers import ReLU, Residual, children
        >>> [name for name, child in children(Residual(ReLU()))]
        ['inner']
    """
    if isinstance(owner, dict):
        for key, child in owner.items():
            yield str(key), child
    elif isinstance(owner, (list, tuple, deque)):
        for index, child in enumerate(owner):
            yield str(index), child
    elif has_attributes(owner):
        for name, child in vars(owner).items():
            if name not in KEPT:
                yield name, child
    if has_slots(owner):
        for base in reversed(type(owner).__mro__):
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__") and hasattr(owner, name):
                    yield name, getattr(owner, name)


def has_attributes(owner: Any) -> bool:
    """Whether the walk goes into the attributes of `owner`: layers, users' own objects, dataclasses.

    Example:
        >>> import jax
        >>> from da_layers import ReLU, has_attributes
        >>> has_attributes(ReLU()), has_attributes(jax.numpy.ones(2))
        (True, False)
    """
    return hasattr(owner, "__dict__") and _is_ours(owner)


def has_slots(owner: Any) -> bool:
    """Whether the walk goes into the `__slots__` of `owner`.

    Example:
        >>> from da_layers import ReLU, has_slots
        >>> class Pair:
        ...     __slots__ = ("left", "right")
        >>> has_slots(Pair()), has_slots(ReLU())
        (True, False)
    """
    # A named tuple has __slots__ that hold nothing.
    if isinstance(owner, tuple):
        return False
    return any("__slots__" in vars(base) for base in type(owner).__mro__) and _is_ours(owner)


def is_part(owner: Any) -> bool:
    """Whether `owner` is a Variable or something that the walk goes into.

    Example:
        >>> from da_layers import ReLU, is_part
        >>> is_part(ReLU()), is_part([]), is_part(1.0)
        (True, True, False)
    """
    return isinstance(owner, (Variable, dict, list, tuple, deque)) or has_attributes(owner) or has_slots(owner)


def _is_ours(owner: Any) -> bool:
    """Whether an object is the user's or the library's own, not one of JAX, NumPy or Python."""
    if isinstance(owner, (type, Variable)):
        return False
    if isinstance(owner, SimpleNamespace) or dataclasses.is_dataclass(owner):
        return True
    return type(owner).__module__.partition(".")[0] not in _FOREIGN


def walk(root: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (path, object) for everything under `root`, depth first, `root` itself first; a shared object once.

    Paths are attribute names, indices and keys joined by dots, as in `layers.0.weight`.

    Example:
        >>> from da_layers import ReLU, Residual, Sequential, walk
        >>> [path for path, part in walk(Sequential(Residual(ReLU())))]
        ['', 'layers', 'layers.0', 'layers.0.inner']
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
