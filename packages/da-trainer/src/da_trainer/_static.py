"""What a compiled step took from the objects as a constant, so that a change of it asks for a new trace."""

from collections.abc import Collection
from typing import Any

import numpy as np
from da_layers import Param, Variable, walk

from ._snapshot import PLAIN

Form = dict[tuple[str, str], tuple[Any, ...]]


def static_form(roots: dict[str, Any], ignore: Collection[str]) -> Form:
    """Every attribute that is no Variable, by root and path, in a form that `first_difference` compares.

    Args:
        roots: objects by the name that paths start with.
        ignore: paths that do not count, nor what is below them.
    """
    form: Form = {}
    for prefix, root in roots.items():
        ignored = set(ignore)
        for path, part in walk(root, prefix):
            if path in ignored or path.rpartition(".")[0] in ignored:
                ignored.add(path)
            else:
                form[prefix, path] = _form(part)
    return form


def _form(part: Any) -> tuple[Any, ...]:
    if isinstance(part, Param):
        return Param, part.role, part.trainable
    if isinstance(part, Variable):
        return (type(part),)
    if isinstance(part, PLAIN):
        return type(part), part
    if isinstance(part, np.ndarray):
        return np.ndarray, part.dtype.str, part.shape, part.tobytes()
    if isinstance(part, set):
        return set, frozenset(part)
    # By identity, and held, so that no later object can have its id.
    return (_Same(part),)


def first_difference(before: Form, now: Form) -> str | None:
    """The path of the first attribute that is not as it was, or None."""
    for place in [*before, *now]:
        if before.get(place) != now.get(place):
            return place[1]
    return None


class _Same:
    """Equal to another only where both hold the same object."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.part is other.part

    def __hash__(self) -> int:
        return id(self.part)
