"""The fence: eager's rounding inside a compiled program. All that touches JAX's internals is in this file.

Eager runs each primitive as a program of its own, with every operand a run-time value, and each jitted function as
one unit. XLA rounds otherwise when it fuses two of them, shares a subexpression between two units, folds a constant
into an operation, reads one operand for two, or leaves out a result of a unit. The trace below stands between a
function and the surrounding `jax.jit`, sees the very primitives that eager would run, puts
`lax.optimization_barrier` where eager's programs end, and keeps the operands and results that they have.
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

from ._origins import PRODUCTS, Origin, Origins, Work, is_array

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
                inner_args, inner_kwargs = jax.tree.unflatten(form, map(trace.argument, leaves))
                results, result_form = jax.tree.flatten(function(*inner_args, **inner_kwargs))
            with core.set_current_trace(parent):
                return jax.tree.unflatten(result_form, trace.finish(results))

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


# Where there are no barriers, nobody asks where values come from.
_UNTRACKED = Origin(-1, frozenset())


class _FenceTracer(core.Tracer):  # type: ignore[type-arg]
    __slots__ = ["first", "made_of", "origin", "value"]

    def __init__(
        self, trace: "_FenceTrace", value: Any, origin: Origin, made_of: Sequence[Any] = (), first: Any = None
    ) -> None:
        super().__init__(trace, jax.typeof(value))
        self.value, self.origin, self.made_of, self.first = value, origin, made_of, first


class _FenceTrace(core.Trace):
    def __init__(self, parent: Any, tag: Any, barriers: bool, record: Record | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.parent, self.tag, self.record = parent, tag, record
        self.barriers, self.barrier = barriers, _barrier if barriers else list
        self.origins = Origins()
        self.units: list[list[_FenceTracer]] = []
        self.used_by_effects: list[Any] = []

    def argument(self, value: Any) -> _FenceTracer:
        return _FenceTracer(self, value, self.origin(value))

    def origin(self, value: Any) -> Origin:
        if self.owns(value):
            return value.origin
        return self.origins.of_value(value) if self.barriers else _UNTRACKED

    def owns(self, value: Any) -> bool:
        return isinstance(value, _FenceTracer) and value._trace.tag is self.tag

    def unwrap(self, value: Any) -> Any:
        return value.value if self.owns(value) else value

    def results(
        self,
        primitive: Any,
        params: dict[str, Any],
        operands: Sequence[Any],
        given: Sequence[Origin],
        values: Sequence[Any],
    ) -> list[_FenceTracer]:
        """The results of a primitive, of a unit with the first entries of those that it may not go without."""
        types, result_types = list(map(jax.typeof, operands)), list(map(jax.typeof, values))
        origins = self.origins.of_results(primitive, params, types, given, result_types)
        made_of = [operand for operand in operands if self.owns(operand)]
        looked_at = [
            place
            for place, (value, origin) in enumerate(zip(values, origins, strict=True))
            if len(values) > 1 and origin.work != Work.PRODUCT and _has_entries(value)
        ]
        firsts: dict[int, Any] = {}
        if looked_at:
            # Behind one barrier: what nothing uses has been looked at, and its memory is free, before the rest is used.
            passed = self.barrier([*values, *(_first_entry(values[place]) for place in looked_at)])
            values, firsts = passed[: len(values)], dict(zip(looked_at, passed[len(values) :], strict=True))
        results = [
            _FenceTracer(self, value, origin, made_of, firsts.get(place))
            for place, (value, origin) in enumerate(zip(values, origins, strict=True))
        ]
        if looked_at:
            self.units.append(results)
        return results

    def finish(self, results: Sequence[Any]) -> list[Any]:
        """The function's results; one of them hangs on the results of units that nothing else uses."""
        values = [self.unwrap(result) for result in results]
        unused = self.unused(results)
        places = [place for place, value in enumerate(values) if unused and _has_entries(value)]
        if places:
            smallest = min(places, key=lambda place: np.size(values[place]))
            values[smallest] = _hung_on(values[smallest], unused)
        return values

    def unused(self, results: Sequence[Any]) -> list[Any]:
        """First entries of results that nothing uses, of units of which something is: or XLA would change the unit."""
        used: set[int] = set()
        pending = [*results, *self.used_by_effects]
        while pending:
            value = pending.pop()
            if self.owns(value) and id(value) not in used:
                used.add(id(value))
                pending += value.made_of
        return [
            result.first
            for unit in self.units
            if any(id(result) in used for result in unit)
            for result in unit
            if id(result) not in used and result.first is not None
        ]

    def apart(self, given: Sequence[Origin], values: list[Any]) -> list[Any]:
        """`values` of origins `given`, those copied that XLA may take for an earlier one."""
        seen: set[int] = set()
        for place, origin in enumerate(given):
            if not seen.isdisjoint(origin.same) and _has_entries(values[place]):
                values[place] = _copy(values[place])
            seen |= origin.same
        return values

    def stage_value(self, value: Any) -> Any:
        if isinstance(value, _FenceTracer):
            return value
        return _FenceTracer(self, self.parent.stage_value(value), self.origin(value))

    def process_primitive(self, primitive: Any, operands: Sequence[Any], params: dict[str, Any], /) -> Any:
        if primitive.name in _OPEN:
            with core.set_current_trace(self):
                return primitive.impl(*operands, **params)
        values = [self.unwrap(operand) for operand in operands]
        given = [self.origin(operand) for operand in operands]
        body = next(core.jaxprs_in_params(params), None)
        with core.set_current_trace(self.parent):
            if self.barriers and (body is not None or primitive.name in PRODUCTS):
                values = self.apart(given, values)
            if body is not None:
                # A unit: without this XLA merges what two units share, and rounds it once for both.
                values = self.barrier(values)
            else:
                # A constant operand: without this XLA folds it into the operation.
                values = [v if isinstance(v, core.Tracer) else self.barrier([v])[0] for v in values]
            bound = primitive.bind(*values, **params)
            many = primitive.multiple_results
            bound = self.barrier(bound if many else [bound])
            if self.barriers:
                results = self.results(primitive, params, operands, given, bound)
            else:
                results = [_FenceTracer(self, value, _UNTRACKED) for value in bound]
        if self.barriers and _has_effect(primitive, body, operands):
            self.used_by_effects += operands
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

    def process_shard_map(self, *_: Any, **__: Any) -> Any:
        raise ValueError(
            "jax.shard_map must be inside a function under jax.jit, which is one unit. Received: jax.shard_map alone"
        )


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


def _copy(value: Any) -> Any:
    """An array of its own with the entries of `value`: a choice whose outcome XLA cannot know."""
    always = _barrier([np.True_])[0]
    return lax.select_n(always, jnp.zeros_like(value), value)


def _has_effect(primitive: Any, body: Any, operands: Sequence[Any]) -> bool:
    return (
        "callback" in primitive.name
        or primitive.name == "debug_print"
        or bool(getattr(body, "effects", ()))
        or not all(isinstance(jax.typeof(operand), core.ShapedArray) for operand in operands)
    )


def _first_entry(value: Any) -> Any:
    return lax.slice(value, [0] * np.ndim(value), [1] * np.ndim(value))


def _hung_on(value: Any, others: Sequence[Any]) -> Any:
    """`value`, for which XLA has to work out `others` too, arrays of one entry."""
    never = _barrier([np.False_])[0]
    for other in others:
        never = never & lax.squeeze(lax.eq(other, lax.full_like(other, 0)), range(np.ndim(other)))
    return _barrier([lax.select_n(never, value, jnp.zeros_like(value))])[0]


def _has_entries(value: Any) -> bool:
    """Whether `value` is an array of numbers, and not empty."""
    return is_array(value) and np.size(value) > 0 and jax.typeof(value).dtype != jax.dtypes.float0


def _row_major(value: Any) -> Any:
    """`value` laid out in memory as between eager's programs: a sum's order, and so its rounding, hangs on it."""
    rank = np.ndim(value)
    if rank < 2:
        return value
    return with_layout_constraint(value, Layout(tuple(range(rank))))


def _is_key(value: Any) -> bool:
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
