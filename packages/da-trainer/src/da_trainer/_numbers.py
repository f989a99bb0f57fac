"""Numbers that users hand in, checked."""

import math
import operator
from typing import Any

import jax
import numpy as np


def check_count(name: str, value: Any, least: int) -> int:
    """`value` as an int of at least `least`.

    Raises:
        ValueError: it is no integer, or smaller.
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if isinstance(value, bool) or count < least:
        raise ValueError(f"{name} must be an integer of {least} or more. Received: {name}={value!r}")
    return count


def is_number(value: Any) -> bool:
    """Whether it is a finite number of 0 or more."""
    return is_finite(value) and value >= 0


def is_finite(value: Any) -> bool:
    """Whether it is a finite number, or an array of one."""
    scalar = isinstance(value, (np.ndarray, jax.Array)) and value.ndim == 0
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return (scalar or number) and math.isfinite(value)
