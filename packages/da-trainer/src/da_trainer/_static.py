"""What a compiled step took from the objects as a constant, so that a change of it asks for a new trace."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from da_layers import Variable, children, has_attributes

from ._snapshot import PLAIN

Form = dict[tuple[str, str], tuple[Any, ...]]

# What a step may change of a Variable, or takes as an argument.
_MOVES = frozenset({"name", "_value", "_grad", "_slots"})


def static_form(roots: dict[str, Any], ignore: Collection[str]) -> Form:
    """Every attribute that is no Variable, by root and path, in a form that `first_difference` compares.

    Args:
        roots: objects by the name that paths start with.
        ignore: paths that do not count, nor what is below them.
    """
    form: Form = {}
    for prefix, root in roots.items():
        seen: dict[int, Any] = {}
        pending: list[tuple[str, Any]] = [(prefix, root)]
        while pending:
            path, part = pending.pop()
            if path in ignore:
                continue
            # Each place counts, of a shared object too; and two keys of a dict may have one path.
            form[prefix, path] = (*form.get((prefix, path), ()), _form(part))
            if id(part) not in seen:
                seen[id(part)] = part
                pending += [(f"{path}.{name}".lstrip("."), child) for name, child in _constants(part)]
    return form


def _constants(part: Any) -> Iterator[tuple[str, Any]]:
    """What `part` holds, and the numbers and texts of its class."""
    if has_attributes(part):
        for base in reversed(type(part).__mro__):
            for name, value in vars(base).items():
                if isinstance(value, PLAIN) and not name.startswith("__"):
                    yield name, value
    yield from children(part)


def _form(part: Any) -> tuple[Any, ...]:
    if isinstance(part, Variable):
        own = {name: _form(value) for name, value in vars(part).items() if name not in _MOVES}
        return type(part), tuple(own.items())
    if isinstance(part, (float, complex)):
        return type(part), repr(part)  # 0.0 is not -0.0, and NaN is NaN
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
