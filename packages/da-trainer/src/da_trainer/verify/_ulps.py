"""Distance between floats, counted in representable numbers."""

from typing import Any

import jax.numpy as jnp
import numpy as np

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def largest_ulps(a: Any, b: Any) -> int | None:
    """The largest number of representable floats between entries of a and b; None for other dtypes or shapes."""
    if a.shape != b.shape or a.dtype != b.dtype or not jnp.issubdtype(a.dtype, jnp.floating):
        return None
    if a.size == 0:
        return 0
    ordered_a, ordered_b = _ordered(np.asarray(a)), _ordered(np.asarray(b))
    return int((np.maximum(ordered_a, ordered_b) - np.minimum(ordered_a, ordered_b)).max())


def _ordered(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The floats as unsigned integers in the same order; -0 and +0 are neighbours."""
    unsigned = _UNSIGNED[array.dtype.itemsize]
    bits = np.atleast_1d(np.ascontiguousarray(array)).view(unsigned)
    sign = unsigned(1 << (8 * array.dtype.itemsize - 1))
    return np.where(bits & sign, ~bits, bits | sign)
