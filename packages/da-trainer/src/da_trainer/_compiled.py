"""The compiled executor: the whole step in one compiled call, on arrays instead of objects."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from ._batches import Batches
from ._forms import form_of
from ._nonfinite import NonFiniteStep
from ._programs import Programs
from ._step import Decay, Outcome, Rates, Watch, evaluation_step, prediction_step, train_step
from ._values import Parts, Values, read_hyperparameters, read_values, write_values


@dataclass(frozen=True)
class _Done:
    """A step since `load`: enough to run it again."""

    batches: Batches
    index: int
    rates: Rates
    decay: Decay
    skip_nonfinite: bool
    finite: jax.Array


class Compiled:
    """Runs steps on arrays; the objects get the values when `store` is called.

    Between `load` and `store` the state lives here, and each step reuses its memory. The objects keep what `load`
    read, so they hold good arrays at every moment.

    Args:
        exact: keep eager's rounding; False leaves XLA free.
        may_recompile: whether training may need a second program.
    """

    def __init__(self, exact: bool, may_recompile: bool = True) -> None:
        self.exact, self.may_recompile = exact, may_recompile
        self.programs = Programs(exact)
        self._predictions: dict[Hashable, Any] = {}
        self._state: Values | None = None
        self._form = -1
        self._done: list[_Done] = []

    def __reduce__(self) -> tuple[type, tuple[bool, bool]]:
        """A copy or pickle starts without programs, which can be neither; the state is in the objects."""
        return Compiled, (self.exact, self.may_recompile)

    def load(self, parts: Parts) -> None:
        """Takes the values from the objects, as copies: steps reuse their memory."""
        self._state = jax.tree.map(lambda array: array.copy(), read_values(parts))
        self._form = form_of(self._state)
        self._done = []
        self.programs.look_again()

    def step(
        self, parts: Parts, batches: Batches, index: int, rates: Rates, decay: Decay, skip_nonfinite: bool
    ) -> Outcome:
        """One training step on batch `index`; whether it was finite is looked at in `store`."""
        if self._state is None:
            self.load(parts)
        options = (decay, skip_nonfinite, rates.weight_decay is None, rates.clip_norm is None)
        key = ("training", self._form, batches.form, batches.sizes[index], options)

        def body(watch: Watch, rates: Rates, batch: Any) -> Outcome:
            return train_step(parts, batch, rates, decay, skip_nonfinite, watch)

        args = (self._state, read_hyperparameters(parts.optimizer), rates, batches[index])
        # A short last batch may always have a program of its own.
        free = self.may_recompile or batches.sizes[index] < batches.sizes[0]
        refuse_at = "" if free else f"step {index + 1} of an epoch"
        program = self._program(key, parts, batches, body, args, training=True, refuse_at=refuse_at)
        self._state, outcome = program(*args)
        self._done.append(_Done(batches, index, rates, decay, skip_nonfinite, outcome.finite))
        return outcome

    def store(self, parts: Parts) -> None:
        """Writes the values into the objects.

        Raises:
            NonFiniteStep: a step since `load` had a loss or gradient that is not finite; the objects have the values
                from before the first such step.
        """
        # Waits; where that is interrupted, the state is still here to be stored.
        finite = jax.device_get([step.skip_nonfinite or step.finite for step in self._done])
        state, done, self._state, self._done = self._state, self._done, None, []
        good = done[: finite.index(False)] if not all(finite) else done
        # What is deleted was given to a step that was interrupted before it gave back the new state.
        lost = any(leaf.is_deleted() for leaf in jax.tree.leaves(state))
        if lost or len(good) < len(done):
            self._run_again(parts, good)
        elif state is not None:
            write_values(parts, state)
        if len(good) < len(done):
            bad = done[len(good)]
            raise NonFiniteStep(bad.batches[bad.index], bad.index, bad.rates)

    def _run_again(self, parts: Parts, steps: list[_Done]) -> None:
        # The objects still hold what `load` read, and the same steps give the same bits.
        for step in steps:
            self.step(parts, step.batches, step.index, step.rates, step.decay, step.skip_nonfinite)
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
        for index, size in enumerate(batches.sizes):
            key = (kind, form, batches.form, size)

            def body(watch: Watch, batch: Any) -> Any:
                return step(parts, batch, watch)

            args = (values, read_hyperparameters(parts.optimizer), batches[index])
            changed, output = self._program(key, parts, batches, body, args, training=False)(*args)
            values.variables.update(changed.variables)
            outputs.append(output)
        write_values(parts, values)
        return outputs

    def _program(
        self,
        key: tuple[Hashable, ...],
        parts: Parts,
        batches: Batches,
        body: Callable[..., Any],
        args: tuple[Any, ...],
        training: bool,
        refuse_at: str = "",
    ) -> Callable[..., Any]:
        """The program for `body`, with the labels checked against the prediction, whose shape a trace tells."""
        key = (*key, *args[1])

        def watch(phase: str, _: str, values: Any) -> None:
            if phase == "prediction":
                batches.check_labels(parts.loss, values)
                self._predictions[key] = jax.tree.map(jax.typeof, values)

        program = self.programs.get(key, parts, partial(body, watch), args, training, refuse_at)
        batches.check_labels(parts.loss, self._predictions[key])
        return program
