"""The fence: eager's rounding inside a compiled program. All that touches JAX's internals is in this file.

Eager runs each primitive as a program of its own, with every operand a run-time value, and each jitted function as
one unit. XLA rounds otherwise when it fuses two of them, shares a subexpression between two units, or folds a
constant into an operation. The trace below stands between a function and the surrounding `jax.jit`, sees the very
primitives that eager would run, and puts `lax.optimization_barrier` where eager's programs end.
"""

import hashlib
from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src import core
from jax.experimental.layout import Layout, with_layout_constraint

# They hold a function, but eager evaluates it operation by operation, not as one unit.
_OPEN = frozenset(
    "checkpoint remat remat2 remat_opt custom_vmap_call custom_linear_solve linear_call composite eval_jaxpr".split()
)


def fence[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """`function` with every primitive fenced off, to be compiled by `jax.jit`; same arguments and results."""

    @wraps(function)
    def fenced(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, form = jax.tree.flatten((args, kwargs))
        with core.take_current_trace() as parent:
            trace = _FenceTrace(parent, core.TraceTag())
            inner_args, inner_kwargs = jax.tree.unflatten(form, [_FenceTracer(trace, leaf) for leaf in leaves])
            with core.set_current_trace(trace):
                result = function(*inner_args, **inner_kwargs)
            return jax.tree.map(trace.unwrap, result)

    return fenced


def digest(lowered: Any) -> bytes:
    """Stands for what a lowered program computes: its text, and the constants that JAX may keep beside the text."""
    hashed = hashlib.sha256(lowered.as_text().encode())
    for constant in lowered._lowering.const_args:
        hashed.update(np.asarray(constant).tobytes())
    return hashed.digest()


def callbacks(lowered: Any) -> Hashable:
    """The Python functions that a lowered program calls; its text only numbers them."""
    return tuple(lowered._lowering.compile_args["host_callbacks"])


class _FenceTracer(core.Tracer):  # type: ignore[type-arg]
    __slots__ = ["value"]

    def __init__(self, trace: "_FenceTrace", value: Any) -> None:
        super().__init__(trace, jax.typeof(value))
        self.value = value


class _FenceTrace(core.Trace):
    def __init__(self, parent: Any, tag: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.parent, self.tag = parent, tag

    def unwrap(self, value: Any) -> Any:
        return value.value if isinstance(value, _FenceTracer) and value._trace.tag is self.tag else value

    def stage_value(self, value: Any) -> Any:
        return value if isinstance(value, _FenceTracer) else self.parent.stage_value(value)

    def process_primitive(self, primitive: Any, operands: Sequence[Any], params: dict[str, Any], /) -> Any:
        if primitive.name in _OPEN:
            with core.set_current_trace(self):
                return primitive.impl(*operands, **params)
        values = [self.unwrap(operand) for operand in operands]
        with core.set_current_trace(self.parent):
            if any(True for _ in core.jaxprs_in_params(params)):
                # A unit: without this XLA merges what two units share, and rounds it once for both.
                values = _barrier(values)
            else:
                # A constant operand: without this XLA folds it into the operation.
                values = [v if isinstance(v, core.Tracer) else _barrier([v])[0] for v in values]
            results = primitive.bind(*values, **params)
            if primitive.multiple_results:
                return [_FenceTracer(self, result) for result in _barrier(results)]
            return _FenceTracer(self, _barrier([results])[0])

    def process_custom_jvp_call(
        self, primitive: Any, function: Any, jvp: Any, operands: Sequence[Any], /, **_: Any
    ) -> Any:
        with core.set_current_trace(self):
            return function.call_wrapped(*operands)

    def process_custom_vjp_call(
        self, primitive: Any, function: Any, forward: Any, backward: Any, operands: Sequence[Any], /, **_: Any
    ) -> Any:
        with core.set_current_trace(self):
            return function.call_wrapped(*operands)


def _barrier(values: Sequence[Any]) -> list[Any]:
    """`values` behind one optimization barrier; typed random keys cannot pass one and need none."""
    fenced = list(values)
    places = [place for place, value in enumerate(fenced) if not _is_key(value)]
    if places:
        passed = lax.optimization_barrier(tuple(_row_major(fenced[place]) for place in places))
        for place, value in zip(places, passed, strict=True):
            fenced[place] = value
    return fenced


def _row_major(value: Any) -> Any:
    """`value` laid out in memory as between eager's programs: a sum's order, and so its rounding, hangs on it."""
    rank = np.ndim(value)
    if rank < 2:
        return value
    return with_layout_constraint(value, Layout(tuple(range(rank))))


def _is_key(value: Any) -> bool:
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
