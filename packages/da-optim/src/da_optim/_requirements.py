"""What a constructor requires of a number; each function returns the number as a Python float."""

import math
from collections.abc import Callable


def non_negative(name: str, value: float) -> float:
    """Require a finite number >= 0."""
    return _finite(name, value, "a finite number >= 0", lambda number: number >= 0)


def positive(name: str, value: float) -> float:
    """Require a finite number > 0."""
    return _finite(name, value, "a finite number > 0", lambda number: number > 0)


def at_least_one(name: str, value: float) -> float:
    """Require a finite number >= 1."""
    return _finite(name, value, "a finite number >= 1", lambda number: number >= 1)


def below_one(name: str, value: float) -> float:
    """Require a number in [0, 1)."""
    return _finite(name, value, "a number in [0, 1)", lambda number: 0 <= number < 1)


def at_most_one(name: str, value: float) -> float:
    """Require a number in [0, 1]."""
    return _finite(name, value, "a number in [0, 1]", lambda number: 0 <= number <= 1)


def _finite(name: str, value: float, requirement: str, holds: Callable[[float], bool]) -> float:
    try:
        valid = math.isfinite(value) and holds(value)
    except (TypeError, OverflowError):  # not a number at all, an array of several, or an int beyond all floats
        valid = False
    if not valid:
        raise ValueError(f"{name} must be {requirement}. Received: {name}={value!r}")
    return float(value)
