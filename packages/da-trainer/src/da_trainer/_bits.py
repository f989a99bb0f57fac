"""Comparison of arrays by their bytes."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class BitsComparison:
    """What `bits_equal` found; true where every array has the same bytes.

    Attributes:
        differences: path of each differing leaf, and how it differs.
    """

    differences: dict[str, str]

    def __bool__(self) -> bool:
        return not self.differences


def bits_equal(a: Any, b: Any) -> BitsComparison:
    """Compares two pytrees of arrays byte by byte: NaN equals NaN of the same bits, and 0.0 differs from -0.0.

    Args:
        a: a pytree of arrays, numbers and random keys.
        b: another.

    Returns:
        A comparison that is true or false in a condition, and lists the leaves that differ.

    Raises:
        ValueError: a leaf is something else, whose bytes are no numbers.

    Example:
        >>> import numpy as np
        >>> from da_trainer import bits_equal
        >>> bool(bits_equal({"w": np.zeros(2)}, {"w": np.zeros(2)}))
        True
        >>> bits_equal({"w": np.zeros(2)}, {"w": np.array([0.0, -0.0])}).differences
        {"['w']": '1 of 2 entries differ, by at most 0'}
    """
    leaves_a, leaves_b = (dict(jax.tree_util.tree_leaves_with_path(tree)) for tree in (a, b))
    differences = {jax.tree_util.keystr(path): "on one side only" for path in leaves_a.keys() ^ leaves_b.keys()}
    for path in leaves_a.keys() & leaves_b.keys():
        difference = _difference(_host(leaves_a[path]), _host(leaves_b[path]))
        if difference:
            differences[jax.tree_util.keystr(path)] = difference
    return BitsComparison(dict(sorted(differences.items())))


def _host(leaf: Any) -> np.ndarray[Any, Any]:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.ascontiguousarray(leaf)
    if array.dtype.kind in "OSU":
        raise ValueError(f"a and b must hold arrays, numbers and random keys. Received: {leaf!r}")
    return array


def _difference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
    if a.tobytes() == b.tobytes():
        return ""
    bytes_a, bytes_b = (array.reshape(-1, 1).view(np.uint8) for array in (a, b))
    places = (bytes_a != bytes_b).any(1)
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    largest = np.abs(a.reshape(-1)[places].astype(wide) - b.reshape(-1)[places].astype(wide)).max()
    return f"{int(places.sum())} of {a.size} entries differ, by at most {largest:.3g}"
