"""The referee: a step again in float64, the truth to measure both executors against."""

import copy
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._values import Parts, Values
from ._recorder import Event, Step, record_loop
from ._report import Referee


def judge(
    parts: Parts, before: Values, taken: Any, step: Step, place: int, value: str, loop: Event, compiled: Event
) -> Referee:
    """Which of two values of event number `place` is nearer to what float64 gives from the same start."""

    def none(reason: str) -> Referee:
        return Referee(None, None, None, f"no verdict: {reason}")

    if loop.name != compiled.name or value not in loop.arrays or value not in compiled.arrays:
        return none("the two run different operations")
    a, b = loop.arrays[value], compiled.arrays[value]
    if not jnp.issubdtype(a.dtype, jnp.floating) or a.shape != b.shape:
        return none("the values are not floats of one shape")
    try:
        with jax.enable_x64(True):
            wide_before, wide_taken = jax.tree.map(_widen, (before, taken))
            event = record_loop(copy.deepcopy(parts), wide_before, wide_taken, step).events[place]
            truth = event.arrays.get(value)
    except Exception as error:
        return none(f"the step does not run in float64 ({type(error).__name__}: {error})")
    if event.name != loop.name or truth is None or truth.shape != a.shape:
        return none("in float64 the step takes another way")
    if truth.dtype != jnp.float64:
        return none(f"float64 is not available there: {truth.dtype}")
    loop_error, compiled_error = _relative_error(a, truth), _relative_error(b, truth)
    if math.isinf(loop_error) and math.isinf(compiled_error):
        return none("neither of the two values, or not the true one, is finite")
    nearer = "neither" if loop_error == compiled_error else "loop" if loop_error < compiled_error else "compiled"
    return Referee(nearer, loop_error, compiled_error)


def _widen(array: jax.Array) -> jax.Array:
    return array.astype(jnp.float64) if jnp.issubdtype(array.dtype, jnp.floating) else array


def _relative_error(array: Any, truth: Any) -> float:
    reference = np.asarray(truth, np.float64)
    if not reference.size:
        return 0.0
    error = np.abs(np.asarray(array, np.float64) - reference).max() / (np.abs(reference).max() or 1.0)
    return float(error) if np.isfinite(error) else math.inf
