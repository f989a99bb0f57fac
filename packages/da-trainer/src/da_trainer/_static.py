"""What a compiled step took from the objects as a constant, so that a change of it asks for a new trace."""

from collections.abc import Collection
from typing import Any

import numpy as np
from da_layers import Param, Variable, walk

from ._snapshot import PLAIN
from ._values import is_hyperparameter

Form = dict[str, tuple[Any, ...]]


def static_form(roots: dict[str, Any], ignore: Collection[str] = ()) -> Form:
    """Every attribute that is no Variable, by path, in a form that `first_difference` compares.

    Args:
        roots: objects by the name that paths start with.
        ignore: paths that do not count, as a step writes them before it reads them.
    """
    form: Form = {}
    for prefix, root in roots.items():
        for path, part in walk(root, prefix):
            if path in ignore or (prefix == "optimizer" and is_hyperparameter(part)):
                continue
            if isinstance(part, Param):
                form[path] = (Param, part.role, part.trainable)
            elif isinstance(part, Variable):
                form[path] = (type(part),)
            elif isinstance(part, PLAIN):
                form[path] = (type(part), part)
            elif isinstance(part, np.ndarray):
                form[path] = (np.ndarray, part.dtype.str, part.shape, part.tobytes())
            else:
                # By identity, and held, so that no later object can have its id.
                form[path] = (_Same(part),)
    return form


def first_difference(before: Form, now: Form) -> str | None:
    """The path of the first attribute that is not as it was, or None."""
    for path in before.keys() | now.keys():
        if before.get(path) != now.get(path):
            return path
    return None


class _Same:
    """Equal to another only where both hold the same object."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.part is other.part

    def __hash__(self) -> int:
        return id(self.part)
