"""Finds where inside a step the two executors part, and which of them is nearer to float64."""

import copy
from typing import Any

from .._bits import bits_equal
from .._values import Parts, Values
from ._recorder import Event, Recorder, Step, record_compiled, record_loop
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
    operation, line = _operation(loop(place), compiled(place))
    ulps = largest_ulps(a.arrays[value], b.arrays[value]) if value in a.arrays and value in b.arrays else None
    divergence = Divergence(number, a.path, a.kind, a.direction, value, operation, line, ulps)
    return divergence, judge(loop_parts, before, taken, step, place, value, a, b)


def unseen(number: int) -> tuple[Divergence, Referee]:
    """What is known of a step that differs only while nothing inside it is looked at."""
    return Divergence(number, "", "the whole step", "unknown", "", None, None, None), Referee(None, None, None, _UNSEEN)


def _operation(loop: Recorder, compiled: Recorder) -> tuple[str | None, str | None]:
    place = _first_difference(loop.operations, compiled.operations)
    if place is None:
        return None, None
    a, b = _at(loop.operations, place), _at(compiled.operations, place)
    if a is None or b is None or a.name != b.name:
        names = (found.name if found else "nothing" for found in (b, a))
        return "{}, where the loop runs {},".format(*names), (b or a).line
    return a.name, b.line


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
