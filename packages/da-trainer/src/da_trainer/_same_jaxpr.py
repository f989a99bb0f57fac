"""Whether two traces of a function are the same computation."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, Literal


def same_jaxpr(a: Any, b: Any) -> bool:
    """Whether the closed jaxprs `a` and `b` do the same; functions that run on the host count as equal."""
    return a is b or (
        all(_same(x, y) for x, y in zip(a.consts, b.consts, strict=False))
        and len(a.consts) == len(b.consts)
        and _same_open(a.jaxpr, b.jaxpr)
    )


def _same_open(a: Jaxpr, b: Jaxpr) -> bool:
    if a is b:
        return True
    # What stands in b for each variable of a.
    renamed: dict[Any, Any] = {}

    def bind(here: Sequence[Any], there: Sequence[Any]) -> bool:
        renamed.update(zip(here, there, strict=False))
        return [v.aval for v in here] == [v.aval for v in there]

    def read(here: Sequence[Any], there: Sequence[Any]) -> bool:
        return len(here) == len(there) and all(
            _same(x.val, y.val) and x.aval == y.aval
            if isinstance(x, Literal) and isinstance(y, Literal)
            else not isinstance(x, Literal) and renamed[x] is y
            for x, y in zip(here, there, strict=True)
        )

    return (
        bind([*a.constvars, *a.invars], [*b.constvars, *b.invars])
        and len(a.eqns) == len(b.eqns)
        and all(
            x.primitive is y.primitive
            and read(x.invars, y.invars)
            and _same(x.params, y.params)
            and bind(x.outvars, y.outvars)
            for x, y in zip(a.eqns, b.eqns, strict=True)
        )
        and read(a.outvars, b.outvars)
    )


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if hasattr(a, "consts") and hasattr(b, "consts"):
        return same_jaxpr(a, b)
    if isinstance(a, Jaxpr) and isinstance(b, Jaxpr):
        return _same_open(a, b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    if _is_array(a) and _is_array(b):
        x, y = _numbers(a), _numbers(b)
        return (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())
    if callable(a) and callable(b):
        return True
    return type(a) is type(b) and (repr(a) == repr(b) if isinstance(a, (float, complex)) else bool(a == b))


def _is_array(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray, np.generic))


def _numbers(array: Any) -> Any:
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    return np.asarray(array)
