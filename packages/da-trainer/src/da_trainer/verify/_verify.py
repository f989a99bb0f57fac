"""Verify: both executors from the same start, step by step, on copies."""

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._batches import Batches, Orders
from .._bits import bits_equal
from .._compile_error import RefusedStepError
from .._compiled import Compiled
from .._data import Data, naming_shapes
from .._loop import Loop
from .._nonfinite import NonFiniteStep, nonfinite_error
from .._rates import StepRates
from .._step import Options, Watch, train_step
from .._values import Parts, Values, read_values
from ._locate import locate, unseen
from ._report import Divergence, Referee, Report, ValueComparison
from ._ulps import largest_ulps

if TYPE_CHECKING:
    from .._trainer import Trainer

# A step that is refused is traced anew each time to look for where it parts: so many steps are looked at.
_REFUSED_STEPS = 10


def verify(trainer: "Trainer", data: Data, batch_size: int, steps: int, key: jax.Array, shuffle: bool) -> Report:
    """Runs `steps` steps with both executors on copies of the trainer's objects, and compares them."""
    # A schedule may have state too, and rates are asked of it.
    trainer = copy.copy(trainer)
    trainer.schedule = _copied("schedule", trainer.schedule)
    comparison = _Comparison(trainer)
    with _global_generators_restored(), naming_shapes(data):
        return comparison.run(_steps(trainer, data, batch_size, steps, key, shuffle))


class _Comparison:
    """Two copies of the trainer's objects, one for each executor."""

    def __init__(self, trainer: "Trainer") -> None:
        self.trainer = trainer
        self.exact = trainer.compile != "fused"
        self.loop, self.compiled = Loop(), Compiled(self.exact)
        self.loop_parts, self.compiled_parts = (_copied_parts(trainer.parts()) for _ in range(2))
        self.losses: list[tuple[float, float]] = []
        self.found: tuple[Divergence, Referee] | None = None

    def run(self, steps: "Iterator[_Step]") -> Report:
        """Compares step by step, until the last or until one of the two cannot go on."""
        for step in steps:
            before = read_values(self.loop_parts)
            try:
                losses = self._both(step)
            except RefusedStepError as refusal:
                values = _compare(self.loop_parts, self.compiled_parts)
                # What cannot be compiled may not be traceable here either.
                with suppress(Exception):
                    self._search_refused(step, steps)
                return self._report(values, str(refusal))
            if losses is None:
                if self.found is None:
                    self._locate(step, before)
                break
            self.losses.append(losses)
            if self.found is None and not (bits_equal(*losses) and self._values_equal()):
                self._locate(step, before)
        return self._report(_compare(self.loop_parts, self.compiled_parts))

    def _both(self, step: "_Step") -> tuple[float, float] | None:
        """The two losses; None where one executor finds the step not finite, and the other does not."""
        outcomes: list[Any] = []
        # The compiled one first: where it refuses the step, the loop has not taken it.
        for executor, parts in ((self.compiled, self.compiled_parts), (self.loop, self.loop_parts)):
            try:
                executor.look_again()
                executor.load(parts)
                executor.run(parts, step.batches, step.span, step.rates, self.trainer.options)
                outcomes.append(float(executor.store(parts).loss[0]))
            except NonFiniteStep as bad:
                outcomes.append(bad)
        nonfinite = [outcome for outcome in outcomes if isinstance(outcome, NonFiniteStep)]
        if len(nonfinite) == 2:
            raise nonfinite_error(self.loop_parts, nonfinite[0], self.trainer.options) from None
        return None if nonfinite else (outcomes[1], outcomes[0])

    def _values_equal(self) -> bool:
        return bool(bits_equal(read_values(self.loop_parts), read_values(self.compiled_parts)))

    def _locate(self, step: "_Step", before: Values) -> None:
        self.found = self._located(step, before) or unseen(step.number)

    def _located(self, step: "_Step", before: Values) -> tuple[Divergence, Referee] | None:
        taken = (step.rates.at(step.index), step.batches[step.index])
        body = partial(_recorded_step, self.trainer.options)
        return locate(self.loop_parts, self.compiled_parts, before, taken, body, step.number, self.exact)

    def _search_refused(self, step: "_Step | None", steps: "Iterator[_Step]") -> None:
        """Follows a step that carries hidden state until it shows: the loop has that state, each trace starts anew."""
        for _ in range(_REFUSED_STEPS):
            if step is None or self.found is not None:
                return
            before = read_values(self.loop_parts)
            self.found = self._located(step, before)
            self.loop.run(self.loop_parts, step.batches, step.span, step.rates, self.trainer.options)
            step = next(steps, None)

    def _report(self, values: list[ValueComparison], refusal: str = "") -> Report:
        loop, compiled = ([losses[place] for losses in self.losses] for place in (0, 1))
        divergence, referee = self.found or (None, None)
        if refusal:
            # Such a step is another computation each time it runs: there is no truth to measure against.
            referee = None
        mode = "exact" if self.exact else "fused"
        return Report(mode, loop, compiled, values, divergence, referee, refusal)


@dataclass(frozen=True)
class _Step:
    """A step of the comparison: which batch, at which rates, and its number from 1."""

    number: int
    batches: Batches
    index: int
    rates: StepRates

    @property
    def span(self) -> range:
        """The step alone, as executors take steps."""
        return range(self.index, self.index + 1)


def _steps(
    trainer: "Trainer", data: Data, batch_size: int, steps: int, key: jax.Array, shuffle: bool
) -> Iterator[_Step]:
    """The steps that `fit` would take next, epoch after epoch."""
    epoch, number = trainer.epoch_, 0
    orders = Orders(key, data.samples) if shuffle else None
    while number < steps:
        epochs = range(epoch, epoch + 1)
        batches = Batches(data, batch_size, orders, epochs=epochs)
        rates = trainer.rates(epochs, len(batches))
        for index in range(min(len(batches), steps - number)):
            number += 1
            yield _Step(number, batches, index, rates)
        epoch += 1


def _recorded_step(options: Options, parts: Parts, taken: Any, watch: Watch) -> None:
    rates, batch = taken
    train_step(parts, batch, rates, options, watch)


def _copied_parts(parts: Parts) -> Parts:
    copies = Parts.of(*_copied("model, loss and optimizer", (parts.model, parts.loss, parts.optimizer)))
    return copies.grouped(parts.groups)


def _copied[T](name: str, objects: T) -> T:
    try:
        return copy.deepcopy(objects)
    except Exception as error:
        raise ValueError(
            f"verify works on copies: copy.deepcopy must be able to copy {name}. "
            f"Received: {type(error).__name__}: {error}"
        ) from error


def _compare(loop: Parts, compiled: Parts) -> list[ValueComparison]:
    a, b = read_values(loop), read_values(compiled)
    comparisons = []
    for path, variable in loop.variables.items():
        comparisons.append(_comparison(path, type(variable).__name__, a.variables[path], b.variables[path]))
        for name, slot in a.slots.get(path, {}).items():
            comparisons.append(_comparison(f"{path}:{name}", "slot", slot, b.slots[path][name]))
    return comparisons


def _comparison(path: str, kind: str, a: jax.Array, b: jax.Array) -> ValueComparison:
    same = bool(bits_equal(a, b))
    return ValueComparison(path, kind, same, 0 if same else largest_ulps(a, b))


@contextmanager
def _global_generators_restored() -> Iterator[None]:
    """A layer may draw from Python's or NumPy's global generator; the caller's stream must not move by that."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
