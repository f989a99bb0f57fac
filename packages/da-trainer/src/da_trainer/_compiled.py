"""The compiled executor: the whole step in one compiled call, on arrays instead of objects."""

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ._batches import Batches
from ._forms import form_of
from ._many_steps import many_steps, one_step
from ._nonfinite import NonFiniteStep
from ._pace import Pace
from ._programs import Job, LoopedConvolution, Programs
from ._rates import EpochRates
from ._step import Options, Outcome, Watch, evaluation_step, prediction_step, train_step
from ._values import Parts, Values, index_scalar, read_hyperparameters, read_values, write_values

# Calls that may be on the device at once: enough to keep it busy, few enough for Ctrl-C. One that takes many steps
# takes its time, and one behind it suffices.
_IN_FLIGHT, _MANY_IN_FLIGHT = 8, 1


class _Call(NamedTuple):
    """A call that may still be on the device: a result of it, its steps, and when it was made."""

    result: jax.Array
    steps: int
    start: float


@dataclass(frozen=True)
class _Done:
    """Steps of one call since `load`: enough to run them again."""

    batches: Batches
    steps: range
    rates: EpochRates
    options: Options
    outcome: Outcome

    def read(self, outcome: Outcome) -> Outcome:
        """`outcome`, read from the device, of these steps alone."""
        places = [0] if outcome.loss.ndim == 0 else list(self.steps)
        return Outcome(*(np.atleast_1d(array)[places] for array in outcome))


class Compiled:
    """Runs steps on arrays; the objects get the values when `store` is called.

    Between `load` and `store` the state lives here, and each call reuses its memory. The objects keep what `load`
    read, so they hold good arrays at every moment.

    Args:
        exact: keep eager's rounding; False leaves XLA free.
        may_recompile: whether training may need a further program.
        steps_per_call: steps that one call takes, None to choose so that a call takes a quarter of a second. A short
            last batch has a call of its own, and on a CPU each step of a model with convolutions: in a loop XLA runs
            those there by another, slower kernel with other bits.
    """

    def __init__(self, exact: bool, may_recompile: bool = True, steps_per_call: int | None = None) -> None:
        self.exact, self.may_recompile = exact, may_recompile
        self.programs = Programs(exact)
        self.pace = Pace(steps_per_call)
        self._predictions: dict[Hashable, Any] = {}
        self._step_by_step: set[Hashable] = set()
        self._state: Values | None = None
        self._form = -1
        self._done: list[_Done] = []
        self._in_flight: deque[_Call] = deque()
        self._ready_at = 0.0

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """A copy or pickle starts without programs, which can be neither; the state is in the objects."""
        return Compiled, (self.exact, self.may_recompile, self.pace.fixed)

    def look_again(self) -> None:
        """Compares the objects' attributes with those that the programs were traced with, before their next use."""
        self.programs.look_again()

    def load(self, parts: Parts) -> None:
        """Takes the values from the objects, as copies: steps reuse their memory."""
        values = read_values(parts)
        self._state = _copied(values)
        self._form = form_of(values)
        self._done = []

    def calls(self, batches: Batches, one_by_one: bool) -> Iterator[range]:
        """The steps of an epoch, as many in each call as the last calls suggest."""
        start, full = 0, batches.full
        while start < full:
            stop = start + 1 if one_by_one else min(start + self.pace.steps, full)
            yield range(start, stop)
            start = stop
        if full < len(batches):
            yield range(full, len(batches))

    def run(self, parts: Parts, batches: Batches, steps: range, rates: EpochRates, options: Options) -> Outcome:
        """Training steps, all with batches of one size; whether they were finite is looked at in `store`."""
        if self._state is None:
            self.load(parts)
        args = (self._state, read_hyperparameters(parts.optimizer), rates.stacked(), batches.source)
        sizes = form_of(batches.source), len(batches), batches.sizes[steps.start], batches.batch_size
        key = ("training", self._form, *sizes, options, rates.weight_decay == 0, rates.clip_norm is None, *args[1])
        training = partial(self._training, key, parts, batches, steps, (*args, _span(steps)), options)
        # One step needs no loop; nor does a short last batch.
        single = batches.full == 1 or steps.start >= batches.full or key in self._step_by_step or self.pace.fixed == 1
        try:
            program = training(single)
        except LoopedConvolution:
            self._step_by_step.add(key)
            single, program = True, training(single=True)
        for span in [range(i, i + 1) for i in steps] if single else [steps]:
            self._wait(_IN_FLIGHT if single else _MANY_IN_FLIGHT)
            start = time.perf_counter()
            self._state, outcome = program(self._state, *args[1:], _span(span))
            self._done.append(_Done(batches, span, rates, options, outcome))
            self._in_flight.append(_Call(outcome.loss, len(span), start))
        return outcome

    def _wait(self, most: int) -> None:
        """Waits until so many calls are on the device at most, and tells the pace how long each took there."""
        while len(self._in_flight) > most:
            call = self._in_flight.popleft()
            call.result.block_until_ready()
            now = time.perf_counter()
            self.pace.took(call.steps, now - max(call.start, self._ready_at))
            self._ready_at = now

    def store(self, parts: Parts) -> Outcome:
        """Writes the values into the objects.

        Returns:
            The outcomes since `load`, as NumPy arrays.

        Raises:
            NonFiniteStep: a step since `load` had a loss or gradient that is not finite; the objects have the values
                from before the first such step.
        """
        # Where waiting is interrupted, the state is still here to be stored.
        self._wait(0)
        outcomes = jax.device_get([done.outcome for done in self._done])
        state, done, self._state, self._done = self._state, self._done, None, []
        read = [call.read(outcome) for call, outcome in zip(done, outcomes, strict=True)]
        bad = next(
            (
                number
                for number, call in enumerate(done)
                if not (call.options.skip_nonfinite or read[number].finite.all())
            ),
            None,
        )
        # What is deleted was given to a step that was interrupted before it gave back the new state.
        lost = any(leaf.is_deleted() for leaf in jax.tree.leaves(state))
        if bad is not None:
            self._stop_before(parts, done[:bad], done[bad], int(np.argmin(read[bad].finite)))
        elif lost:
            self._run_again(parts, done)
        elif state is not None:
            write_values(parts, state)
        losses, finite = zip(*read, strict=True) if read else ((np.zeros(0),), (np.zeros(0, bool),))
        return Outcome(np.concatenate(losses), np.concatenate(finite))

    def _stop_before(self, parts: Parts, good: list[_Done], bad: _Done, place: int) -> None:
        if place:
            good = [*good, _Done(bad.batches, bad.steps[:place], bad.rates, bad.options, bad.outcome)]
        self._run_again(parts, good)
        index = bad.steps[place]
        raise NonFiniteStep(bad.batches[index], index, bad.rates.at(index))

    def _run_again(self, parts: Parts, calls: list[_Done]) -> None:
        # The objects still hold what `load` read, and the same steps give the same bits.
        for call in calls:
            self.run(parts, call.batches, call.steps, call.rates, call.options)
        self.store(parts)

    def evaluate(self, parts: Parts, batches: Batches) -> list[jax.Array]:
        """The loss on each batch (x, y)."""
        return self._forward_all("evaluation", evaluation_step, parts, batches)

    def predict(self, parts: Parts, batches: Batches) -> list[Any]:
        """The model's output for each batch (x,)."""
        return self._forward_all("prediction", prediction_step, parts, batches)

    def _forward_all(self, kind: str, step: Callable[..., Any], parts: Parts, batches: Batches) -> list[Any]:
        self.programs.look_again()
        values = read_values(parts, slots=False)
        form = form_of(values)
        outputs = []
        for batch in batches:

            def body(watch: Watch, batch: Any) -> Any:
                return step(parts, batch, watch)

            args = (values, read_hyperparameters(parts.optimizer), batch)
            job = Job((kind, form, form_of(batch), *args[1]), args, batch=batch)
            changed, output = self._program(job, parts, batches, body)(*args)
            values.variables.update(changed.variables)
            outputs.append(output)
        write_values(parts, values)
        return outputs

    def _training(
        self,
        key: tuple[Hashable, ...],
        parts: Parts,
        batches: Batches,
        steps: range,
        args: tuple[Any, ...],
        options: Options,
        single: bool,
    ) -> Callable[..., Any]:
        size = batches.sizes[steps.start]

        def body(watch: Watch, rates: Any, batch: Any) -> Outcome:
            return train_step(parts, batch, rates, options, watch)

        job = Job(
            (*key, single),
            args,
            batch=batches.data.shapes(size),
            samples=batches.data.samples,
            around=one_step(batches.batch_size, size) if single else many_steps(batches.batch_size),
            looped=not single,
            # A short last batch may always have a program of its own.
            refuse_at=""
            if self.may_recompile or steps.start >= batches.full
            else f"step {steps.start + 1} of an epoch",
        )
        return self._program(job, parts, batches, body)

    def _program(self, job: Job, parts: Parts, batches: Batches, body: Callable[..., Any]) -> Callable[..., Any]:
        """The program for `body`, with the labels checked against the prediction, whose shape a trace tells."""
        check = batches.watch(parts.loss)

        def watch(phase: str, path: str, values: Any) -> None:
            check(phase, path, values)
            if phase == "prediction":
                self._predictions[job.key] = jax.tree.map(jax.typeof, values)

        program = self.programs.get(job, parts, partial(body, watch))
        batches.check_labels(parts.loss, self._predictions[job.key])
        return program


def _span(steps: range) -> tuple[jax.Array, jax.Array]:
    return index_scalar(steps.start), index_scalar(steps.stop)


@jax.jit
def _copied(values: Values) -> Values:
    return jax.tree.map(jax.numpy.copy, values)
