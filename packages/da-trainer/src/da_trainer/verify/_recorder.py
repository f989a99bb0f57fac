"""A record of one step: what each layer call and phase gave, and each operation inside a chosen one."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
from da_layers import Param, Variable, innermost, observe, walk

from .._fence import fence, recording
from .._frames import MACHINERY, package_of
from .._snapshot import Snapshot
from .._values import Parts, Values, hyperparameters, read_hyperparameters, read_values, write_values

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """The end of a layer call or of a phase of the step.

    Attributes:
        path: path of the layer or Param; "loss" for the loss.
        kind: the class of what has that path.
        direction: "forward", "backward", "clip", "decay", "update" or "skip".
        arrays: what it gave, by name.
    """

    path: str
    kind: str
    direction: str
    arrays: Arrays

    @property
    def name(self) -> tuple[str, str, str]:
        """Tells one event of a step from another."""
        return self.path, self.kind, self.direction


@dataclass(frozen=True)
class Operation:
    """An operation, what called it and at which line of source, and the arrays that it took and gave.

    Attributes:
        caller: path and class of the layer or loss whose own code called it; None where none was running.
    """

    name: str
    caller: tuple[str, str] | None
    line: str
    operands: Arrays
    arrays: Arrays


@dataclass
class Recorder:
    """Collects the events of a step, and the operations of event number `inside`.

    Args:
        paths: path of each layer and loss by its id.
    """

    paths: dict[int, str]
    inside: int | None = None
    events: list[Event] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)

    def call(self, part: Any, direction: str, output: Any) -> None:
        """Takes in the end of a layer's or the loss's forward or backward, with the Variables below it."""
        held = [variable for _, variable in walk(part) if isinstance(variable, Variable)]
        arrays = _named({"output": output}) | {str(variable.name): variable.value for variable in held}
        if direction == "backward":
            arrays |= {f"gradient of {param.name}": param.grad for param in held if isinstance(param, Param)}
        self.events.append(Event(self._path(part), type(part).__name__, direction, arrays))

    def phase(self, phase: str, path: str, values: Any) -> None:
        """Takes in the end of a phase of the step; the prediction is a layer's output, and known already."""
        if phase != "prediction":
            self.events.append(Event(path, "Param" if path else "", phase, _named(values)))

    def operation(self, name: str, operands: Any, results: Any) -> None:
        """Takes in an operation."""
        if len(self.events) == self.inside:
            part = innermost()
            caller = None if part is None else (self._path(part), type(part).__name__)
            self.operations.append(Operation(name, caller, _calling_line(), _named(operands), _named(results)))

    def _path(self, part: Any) -> str:
        return self.paths.get(id(part), "a layer made in the step")


# Runs a step on the objects: (parts, arrays that the step takes, watch).
Step = Callable[[Parts, Any, Callable[[str, str, Any], None]], Any]


def record_loop(parts: Parts, before: Values, taken: Any, step: Step, inside: int | None = None) -> Recorder:
    """Runs `step` eagerly on objects with the values `before`."""
    recorder = Recorder(_paths(parts), inside)
    write_values(parts, before)
    numbers = read_hyperparameters(parts.optimizer)
    with observe(recorder.call), recording(recorder.operation), hyperparameters(parts.optimizer, numbers):
        step(parts, taken, recorder.phase)
    return recorder


def record_compiled(
    parts: Parts, before: Values, taken: Any, step: Step, exact: bool, inside: int | None = None
) -> Recorder:
    """Runs `step` in one compiled call that also returns what is recorded, and leaves the objects as they were."""
    recorder = Recorder(_paths(parts), inside)

    def traced(values: Values, numbers: dict[str, jax.Array], taken: Any) -> tuple[list[Arrays], list[Any]]:
        with observe(recorder.call), hyperparameters(parts.optimizer, numbers):
            write_values(parts, values)
            step(parts, taken, recorder.phase)
        operations = [(operation.operands, operation.arrays) for operation in recorder.operations]
        return [event.arrays for event in recorder.events], operations

    untouched, snapshot = read_values(parts), Snapshot(parts.roots)
    try:
        fenced = fence(traced, barriers=exact, record=recorder.operation)
        events, operations = jax.jit(fenced)(before, read_hyperparameters(parts.optimizer), taken)
    finally:
        snapshot.restore()
        write_values(parts, untouched)
    return Recorder(
        recorder.paths,
        inside,
        [replace(event, arrays=arrays) for event, arrays in zip(recorder.events, events, strict=True)],
        [
            replace(operation, operands=operands, arrays=arrays)
            for operation, (operands, arrays) in zip(recorder.operations, operations, strict=True)
        ],
    )


def _paths(parts: Parts) -> dict[int, str]:
    roots = {"loss": parts.loss, "": parts.model}
    return {id(part): path for prefix, root in roots.items() for path, part in walk(root, prefix)}


def _named(values: Any) -> Arrays:
    leaves = jax.tree_util.tree_leaves_with_path(values)
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        for path, leaf in leaves
        if isinstance(leaf, jax.Array)
    }


def _calling_line() -> str:
    """File and line that called the operation."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if package_of(frame) not in MACHINERY:
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown"
