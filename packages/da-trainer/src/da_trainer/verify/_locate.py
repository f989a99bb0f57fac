"""Finds where inside a step the two executors part, and which of them is nearer to float64."""

import copy
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

from .._bits import bits_equal
from .._values import Parts, Values
from ._recorder import Arrays, Event, Operation, Recorder, Step, record_compiled, record_loop
from ._referee import judge
from ._report import Divergence, Referee
from ._ulps import largest_ulps

_UNSEEN = (
    "no verdict: where each layer call and phase has to hand out what it gave, both give the same, so XLA rounds "
    "otherwise only where it may join them"
)


def locate(
    loop_parts: Parts, compiled_parts: Parts, before: Values, taken: Any, step: Step, number: int, exact: bool
) -> tuple[Divergence, Referee] | None:
    """Runs one step again with both executors and compares what each layer call, phase and operation gave.

    Args:
        loop_parts: objects as they were before the step, for the loop; copies of them are run.
        compiled_parts: the same for the compiled step.
        before: the values from before the step.
        taken: arrays that the step takes: rates and batch.
        step: runs the step on parts.
        number: the step's number, from 1.
        exact: whether the compiled step is the exact one.

    Returns:
        None where the two give the same.
    """

    def loop(inside: int | None = None) -> Recorder:
        return record_loop(copy.deepcopy(loop_parts), before, taken, step, inside)

    def compiled(inside: int | None = None) -> Recorder:
        return record_compiled(copy.deepcopy(compiled_parts), before, taken, step, exact, inside)

    loop_events, compiled_events = loop().events, compiled().events
    place = _first_difference(loop_events, compiled_events)
    if place is None:
        return None
    a = _at(loop_events, place) or loop_events[-1]
    b = _at(compiled_events, place) or compiled_events[-1]
    value = _first_differing(a, b)
    ulps = largest_ulps(a.arrays[value], b.arrays[value]) if value in a.arrays and value in b.arrays else None
    divergence = Divergence(number, a.path, a.kind, a.direction, value, None, None, ulps)
    operation = _operation(loop(place), compiled(place))
    if operation is not None:
        divergence = replace(divergence, operation=operation.name, line=operation.line)
        if operation.caller not in (None, (a.path, a.kind)):
            # It is the layer around this one that works on what this one takes.
            path, kind = operation.caller
            divergence = replace(divergence, path=path, kind=kind, value=f"what {a.path} takes", ulps=None)
    return divergence, judge(loop_parts, before, taken, step, place, value, a, b)


def unseen(number: int) -> tuple[Divergence, Referee]:
    """What is known of a step that differs only while nothing inside it is looked at."""
    return Divergence(number, "", "the whole step", "unknown", "", None, None, None), Referee(None, None, None, _UNSEEN)


def _operation(loop: Recorder, compiled: Recorder) -> Operation | None:
    """The first operation that gave something else, or that only one of the two ran and whose result counts."""
    a, b = loop.operations, compiled.operations
    a_calls, b_calls = ([(operation.name, operation.line) for operation in record] for record in (a, b))
    # Traced and eager calls of jnp may differ by a conversion, which changes no value.
    lonely: list[tuple[Operation, str]] = []
    for tag, a_start, a_end, b_start, b_end in SequenceMatcher(None, a_calls, b_calls, autojunk=False).get_opcodes():
        if tag != "equal":
            lonely += [(operation, "the loop") for operation in a[a_start:a_end]]
            lonely += [(operation, "compiled") for operation in b[b_start:b_end]]
            continue
        for first, second in zip(a[a_start:a_end], b[b_start:b_end], strict=True):
            if not bits_equal(first.arrays, second.arrays):
                taken = [*_changed(first.operands, second.operands), *_changed(second.operands, first.operands)]
                return _producer(lonely, taken) or second
    return _producer(lonely, [array for operation, _ in lonely for array in operation.arrays.values()])


def _changed(arrays: Arrays, others: Arrays) -> list[Any]:
    return [array for name, array in arrays.items() if name not in others or not bits_equal(array, others[name])]


def _producer(lonely: list[tuple[Operation, str]], taken: list[Any]) -> Operation | None:
    """The last operation of one executor alone that gave one of the arrays `taken`."""
    for operation, ran in reversed(lonely):
        if any(bits_equal(given, array) for given in operation.arrays.values() for array in taken):
            return replace(operation, name=f"{operation.name}, which only {ran} runs,")
    return None


def _first_difference(loop: list[Any], compiled: list[Any]) -> int | None:
    for place, (a, b) in enumerate(zip(loop, compiled, strict=False)):
        if a.name != b.name or not bits_equal(a.arrays, b.arrays):
            return place
    return None if len(loop) == len(compiled) else min(len(loop), len(compiled))


def _at(entries: list[Any], place: int) -> Any:
    return entries[place] if place < len(entries) else None


def _first_differing(a: Event, b: Event) -> str:
    """The name of what differs: of the Variables before the output, which comes from them."""
    names = sorted(a.arrays.keys() | b.arrays.keys(), key=lambda name: name.startswith(("output", "gradient")))
    for name in names:
        if name not in a.arrays or name not in b.arrays or not bits_equal(a.arrays[name], b.arrays[name]):
            return name
    return ""
