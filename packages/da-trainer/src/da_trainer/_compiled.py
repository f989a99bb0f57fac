"""The compiled executor: the whole step in one compiled call, on arrays instead of objects."""

import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from da_layers import StackingError

from ._batches import Batches
from ._forms import form_of
from ._many_steps import many_steps, one_step
from ._nonfinite import NonFiniteStep
from ._pace import Pace
from ._programs import Programs
from ._rates import StepRates
from ._recompile import RecompileError
from ._step import Options, Outcome, Rates, Watch, evaluation_step, prediction_step, train_step
from ._traces import Job, TracedStep, Traces
from ._values import Parts, Values, index_scalar, read_hyperparameters, read_values, write_values

logger = logging.getLogger("da_trainer")

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
    rates: StepRates
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
        steps_per_call: steps that one call takes, None to choose so that a call takes a quarter of a second. On a CPU
            each step of a model with convolutions has a call of its own: in a loop XLA runs those there by another,
            slower kernel with other bits.
    """

    def __init__(self, exact: bool, may_recompile: bool = True, steps_per_call: int | None = None) -> None:
        self.exact, self.may_recompile = exact, may_recompile
        self.traces, self.programs = Traces(exact), Programs()
        self.pace = Pace(steps_per_call)
        self._predictions: dict[Hashable, Any] = {}
        self._layer_by_layer = False
        self._state: Values | None = None
        self._form = -1
        self._done: list[_Done] = []
        self._in_flight: deque[_Call] = deque()
        self._ready_at = 0.0

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """A copy or pickle starts without programs, which can be neither; the state is in the objects."""
        return Compiled, (self.exact, self.may_recompile, self.pace.fixed)

    @property
    def compile_seconds(self) -> float:
        """What tracing and compiling have taken so far."""
        return self.traces.seconds + self.programs.seconds

    def look_again(self) -> None:
        """Compares the objects' attributes with those that the programs were traced with, before their next use."""
        self.traces.look_again()

    def load(self, parts: Parts) -> None:
        """Takes the values from the objects, as copies: steps reuse their memory."""
        values = read_values(self._arranged(parts))
        self._state = _copied(values)
        self._form = form_of(values)
        self._done = []

    def epochs_at_once(self, batches: Batches) -> int:
        """Epochs that calls may go through without a stop, as many as the next call takes."""
        return min(max(1, self.pace.steps // len(batches.sizes)), batches.most_epochs)

    def calls(self, batches: Batches, one_by_one: bool) -> Iterator[range]:
        """The steps of all epochs, as many in each call as the last calls suggest."""
        start = 0
        while start < len(batches):
            stop = start + 1 if one_by_one else min(start + self.pace.steps, len(batches))
            yield range(start, stop)
            start = stop

    def run(self, parts: Parts, batches: Batches, steps: range, rates: StepRates, options: Options) -> Outcome:
        """Training steps; whether they were finite is looked at in `store`."""
        if self._state is None:
            self.load(parts)
        arranged = self._arranged(parts)
        data, sizes, most = batches.data, batches.sizes, batches.most_epochs
        numbers = read_hyperparameters(arranged.optimizer)
        forms = self._form, form_of(data.arrays), batches.orders is None
        counts = len(sizes), sizes[-1], batches.batch_size
        switches = options, rates.weight_decay == 0, rates.clip_norm is None, arranged.groups
        key = ("training", *forms, *counts, *switches, *numbers)
        first = Job(
            key,
            (self._state, numbers, rates.at(steps.start)),
            batch=(),
            counts={"data": data.samples, "batches": len(sizes)},
            refuse_at="" if self.may_recompile else f"step {batches.place(steps.start)[1] + 1} of an epoch",
        )
        try:
            traced = self._training_steps(first, arranged, batches, options)
        except Exception as error:
            if not arranged.stacks or isinstance(error, RecompileError):
                raise
            return self._unstacked(error, lambda: self.run(parts, batches, steps, rates, options))
        on_cpu = _on_cpu(data.arrays)
        looped = self.pace.fixed != 1 and not (on_cpu and any(step.convolves for step in traced.values()))
        taken = numbers, rates.stacked(most * len(sizes))
        for span in [steps] if looped else [range(index, index + 1) for index in steps]:
            epoch, place = batches.place(span.start)
            if looped:
                made_of = list(traced.values())
                around = many_steps(batches.batch_size, sizes)
                source = data.arrays, batches.all_orders
                args = *taken, source, (index_scalar(span.start), index_scalar(span.stop))
            else:
                made_of = [traced[sizes[place]]]
                around = one_step(batches.batch_size, sizes[place])
                source = batches.source(epoch)
                args = *taken, source, (index_scalar(span.start), index_scalar(place))
            program = self.programs.get((*key, looped or sizes[place]), made_of, around, (self._state, *args))
            self._wait(_MANY_IN_FLIGHT if looped else _IN_FLIGHT)
            start = time.perf_counter()
            self._state, outcome = program(self._state, *args)
            self._done.append(_Done(batches, span, rates, options, outcome))
            self._in_flight.append(_Call(outcome.loss, len(span), start))
        return outcome

    def _unstacked(self, cause: Exception, again: Callable[[], Any]) -> Any:
        """What `again` gives, with each layer of a stack traced by itself; where that fails too, all is as before."""
        logger.info("Each layer of a LayerStack is traced by itself. Cause: %s", cause)
        self._start_anew(layer_by_layer=True)
        try:
            return again()
        except Exception:
            if not self._done:
                self._start_anew(layer_by_layer=False)
            raise

    def _start_anew(self, layer_by_layer: bool) -> None:
        seconds, self._state, self._layer_by_layer = self.traces.seconds, None, layer_by_layer
        self.traces = Traces(self.exact)
        self.traces.seconds = seconds

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
        done = self._done
        outcomes = jax.device_get([call.outcome for call in done])
        read = [call.read(outcome) for call, outcome in zip(done, outcomes, strict=True)]
        stops = [not (call.options.skip_nonfinite or one.finite.all()) for call, one in zip(done, read, strict=True)]
        losses, finite = zip(*read, strict=True) if read else ((np.zeros(0),), (np.zeros(0, bool),))
        outcome = Outcome(np.concatenate(losses), np.concatenate(finite))
        # What is deleted was given to a step that was interrupted before it gave back the new state.
        lost = any(leaf.is_deleted() for leaf in jax.tree.leaves(self._state))
        if True in stops:
            bad = stops.index(True)
            self._stop_before(parts, done[:bad], done[bad], int(np.argmin(read[bad].finite)))
        elif lost:
            self._run_again(parts, done)
        elif self._state is not None:
            write_values(self._arranged(parts), self._state)
        # What is forgotten cannot be stored once more, as after Ctrl-C: so at the very end.
        self._state, self._done = None, []
        return outcome

    def _stop_before(self, parts: Parts, good: list[_Done], bad: _Done, place: int) -> None:
        if place:
            good = [*good, _Done(bad.batches, bad.steps[:place], bad.rates, bad.options, bad.outcome)]
        before = self._run_again(parts, good)
        index = bad.steps[place]
        raise NonFiniteStep(bad.batches, index, bad.rates.at(index), before)

    def _run_again(self, parts: Parts, calls: list[_Done]) -> Outcome:
        # The objects still hold what `load` read, and the same steps give the same bits.
        self._state, self._done = None, []
        for call in calls:
            self.run(parts, call.batches, call.steps, call.rates, call.options)
        return self.store(parts)

    def _arranged(self, parts: Parts) -> Parts:
        """The parts as programs take them: stacks of layers each as one."""
        return parts if self._layer_by_layer else parts.stacked

    def evaluate(self, parts: Parts, batches: Batches) -> list[jax.Array]:
        """The loss on each batch (x, y)."""
        return self._forward_all("evaluation", evaluation_step, parts, batches)

    def predict(self, parts: Parts, batches: Batches) -> list[Any]:
        """The model's output for each batch (x,)."""
        return self._forward_all("prediction", prediction_step, parts, batches)

    def _forward_all(self, kind: str, step: Callable[..., Any], parts: Parts, batches: Batches) -> list[Any]:
        self.traces.look_again()
        arranged = self._arranged(parts)
        values, numbers = read_values(arranged, slots=False), read_hyperparameters(arranged.optimizer)
        form = form_of(values)

        def body(watch: Watch, batch: Any) -> Any:
            return step(arranged, batch, watch)

        outputs = []
        try:
            for batch in batches:
                args = values, numbers, batch
                job = Job((kind, form, form_of(batch), *numbers), args, batch=batch)
                traced = self._traced(job, arranged, batches, body)
                changed, output = self.programs.get(job.key, [traced], _alone, args)(*args)
                values.variables.update(changed.variables)
                outputs.append(output)
        except Exception as error:
            if not arranged.stacks:
                raise
            return self._unstacked(error, lambda: self._forward_all(kind, step, parts, batches))
        write_values(arranged, values)
        return outputs

    def _training_steps(self, first: Job, parts: Parts, batches: Batches, options: Options) -> dict[int, TracedStep]:
        """A step for each size of batch; all are traced that a trace of another has dropped."""

        def body(watch: Watch, rates: Rates, batch: Any) -> Outcome:
            return train_step(parts, batch, rates, options, watch)

        steps: dict[int, TracedStep] = {}
        while not steps or not self.traces.hold(steps.values()):
            for size in dict.fromkeys(batches.sizes):
                batch = batches.data.shapes(size)
                # A short last batch may always have a program of its own.
                refuse_at = first.refuse_at if size == batches.batch_size else ""
                job = replace(
                    first, key=(*first.key, size), args=(*first.args, batch), batch=batch, refuse_at=refuse_at
                )
                steps[size] = self._traced(job, parts, batches, body)
        return steps

    def _traced(self, job: Job, parts: Parts, batches: Batches, body: Callable[..., Any]) -> TracedStep:
        """The step of `body`, with the labels checked against the prediction, whose shape a trace tells."""
        check = batches.watch(parts.loss)

        def watch(phase: str, path: str, values: Any) -> None:
            check(phase, path, values)
            if phase == "prediction":
                self._predictions[job.key] = jax.tree.map(jax.typeof, values)

        step = self.traces.get(job, parts, partial(body, watch))
        batches.check_labels(parts.loss, self._predictions[job.key])
        if parts.stacks and step.convolves_in_loop and _on_cpu(batches.data.arrays):
            raise StackingError("A convolution must be outside a loop on a CPU, where XLA has another kernel for it")
        return step


def _alone(steps: Sequence[TracedStep], *args: Any) -> Any:
    (step,) = steps
    return step(*args)


def _on_cpu(arrays: Any) -> bool:
    return any(device.platform == "cpu" for leaf in jax.tree.leaves(arrays) for device in leaf.devices())


@jax.jit
def _copied(values: Values) -> Values:
    return jax.tree.map(jax.numpy.copy, values)
