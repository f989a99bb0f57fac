"""What a computation takes from an object as a constant, in a form that can be compared."""

from typing import Any

import numpy as np

from ._variable import Variable

PLAIN = (bool, int, float, complex, str, bytes, type(None))

# What a step may change of a Variable, or takes as an argument.
MOVES = frozenset({"name", "_value", "_grad", "_slots"})


def constant_form(part: Any) -> tuple[Any, ...]:
    """Equal for two objects that a computation cannot tell apart.

    Plain values, NumPy's numbers and arrays, sets, ranges and slices go by what is in them, a Variable by its
    attributes without its value, all else by identity.

    Example:
        >>> import numpy as np
        >>> from da_layers import constant_form
        >>> constant_form(np.ones(2)) == constant_form(np.ones(2)), constant_form(0.0) == constant_form(-0.0)
        (True, False)
    """
    if isinstance(part, Variable):
        own = {name: constant_form(value) for name, value in vars(part).items() if name not in MOVES}
        return type(part), tuple(own.items())
    if isinstance(part, (float, complex)):
        return type(part), repr(part)  # 0.0 is not -0.0, and NaN is NaN
    if isinstance(part, PLAIN):
        return type(part), part
    if isinstance(part, (np.ndarray, np.generic)):
        return type(part), part.dtype.str, part.shape, part.tobytes()
    if isinstance(part, (set, frozenset)):
        return type(part), frozenset(part)
    if isinstance(part, (range, slice)):
        return type(part), repr(part)
    # By identity, and held, so that no later object can have its id.
    return (Same(part),)


class Same:
    """Equal to another only where both hold the same object."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.part is other.part

    def __hash__(self) -> int:
        return id(self.part)
