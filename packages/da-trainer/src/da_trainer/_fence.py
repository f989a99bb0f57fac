"""The fence: eager's rounding inside a compiled program. All that touches JAX's internals is in this file.

Eager runs each primitive as a program of its own, with every operand a run-time value, and each jitted function as
one unit. XLA rounds otherwise when it fuses two of them, shares a subexpression between two units, or folds a
constant into an operation. The trace below stands between a function and the surrounding `jax.jit`, sees the very
primitives that eager would run, and puts `lax.optimization_barrier` where eager's programs end.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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


# Told of each primitive: its name, of a unit the function's; what it took, and what it gave.
Record = Callable[[str, Sequence[Any], Sequence[Any]], None]


def fence[**P, R](function: Callable[P, R], *, barriers: bool = True, record: Record | None = None) -> Callable[P, R]:
    """`function` with every primitive fenced off, to be compiled by `jax.jit`; same arguments and results.

    Args:
        function: what to compile.
        barriers: False puts no barriers, where only the record is wanted.
        record: told of each primitive while `function` is traced.
    """

    @wraps(function)
    def fenced(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, form = jax.tree.flatten((args, kwargs))
        with core.take_current_trace() as parent:
            trace = _FenceTrace(parent, core.TraceTag(), barriers, record)
            # Trees are built inside a trace: some of their nodes ask which.
            with core.set_current_trace(trace):
                inner_args, inner_kwargs = jax.tree.unflatten(form, [_FenceTracer(trace, leaf) for leaf in leaves])
                results, result_form = jax.tree.flatten(function(*inner_args, **inner_kwargs))
            with core.set_current_trace(parent):
                return jax.tree.unflatten(result_form, map(trace.unwrap, results))

    return fenced


@contextmanager
def recording(record: Record) -> Iterator[None]:
    """Tells `record` of each primitive that eager runs inside the block; values stay ordinary arrays."""
    with core.set_current_trace(_RecordingTrace(record)):
        yield


def digest(lowered: Any) -> bytes:
    """Stands for what a lowered program computes: its text, and what JAX keeps beside it.

    That is large constants, and which arguments the program takes: it does not get those that it does not use.
    """
    hashed = hashlib.sha256(lowered.as_text().encode())
    hashed.update(repr(sorted(lowered._lowering.compile_args["kept_var_idx"])).encode())
    for constant in lowered._lowering.const_args:
        hashed.update(np.asarray(constant).tobytes())
    return hashed.digest()


def contains(jaxpr: Any, primitive: str, in_loop: bool = False) -> bool:
    """Whether a traced function calls the primitive of that name, in whatever part of it or in a loop of it."""
    pending = [(jaxpr.jaxpr, not in_loop)]
    while pending:
        part, counts = pending.pop()
        for equation in part.eqns:
            if counts and equation.primitive.name == primitive:
                return True
            below = counts or equation.primitive.name in ("scan", "while")
            pending += [(inner, below) for inner in core.jaxprs_in_params(equation.params)]
    return False


def has_callbacks(lowered: Any) -> bool:
    """Whether a lowered program calls Python functions."""
    return bool(lowered._lowering.compile_args["host_callbacks"])


class _FenceTracer(core.Tracer):  # type: ignore[type-arg]
    __slots__ = ["value"]

    def __init__(self, trace: "_FenceTrace", value: Any) -> None:
        super().__init__(trace, jax.typeof(value))
        self.value = value


class _FenceTrace(core.Trace):
    def __init__(self, parent: Any, tag: Any, barriers: bool, record: Record | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.parent, self.tag, self.record = parent, tag, record
        self.barrier = _barrier if barriers else list

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
                values = self.barrier(values)
            else:
                # A constant operand: without this XLA folds it into the operation.
                values = [v if isinstance(v, core.Tracer) else self.barrier([v])[0] for v in values]
            bound = primitive.bind(*values, **params)
            many = primitive.multiple_results
            results = [_FenceTracer(self, value) for value in self.barrier(bound if many else [bound])]
        if self.record is not None:
            self.record(_name(primitive, params), operands, results)
        return results if many else results[0]

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


class _RecordingTrace(core.EvalTrace):
    def __init__(self, record: Record) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.record = record

    def process_primitive(self, primitive: Any, operands: Sequence[Any], params: dict[str, Any], /) -> Any:
        results = super().process_primitive(primitive, operands, params)  # type: ignore[no-untyped-call]
        if primitive.name not in _OPEN:
            self.record(_name(primitive, params), operands, results if primitive.multiple_results else [results])
        return results


def _name(primitive: Any, params: dict[str, Any]) -> str:
    return str(params.get("name", primitive.name))


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
