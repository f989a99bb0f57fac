"""The loop: the step body, eagerly, one operation after another. Print and break wherever you like."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from ._batches import Batches
from ._nonfinite import NonFiniteStep
from ._rates import StepRates
from ._step import Options, Outcome, evaluation_step, prediction_step, train_step
from ._values import Parts, hyperparameters, read_hyperparameters, read_values, write_values


class Loop:
    """Runs steps on the objects themselves; they always hold the values of the last good step."""

    def __init__(self) -> None:
        self._outcomes: list[Outcome] = []

    def look_again(self) -> None:
        """Nothing to do: each step reads the objects as they are."""

    def load(self, parts: Parts) -> None:
        """Starts to collect outcomes; the values are in the objects."""
        self._outcomes = []

    def epochs_at_once(self, batches: Batches) -> int:
        """One: there is nothing to be gained by more."""
        return 1

    def calls(self, batches: Batches, one_by_one: bool) -> Iterator[range]:
        """The steps of an epoch, each in a call of its own."""
        return (range(index, index + 1) for index in range(len(batches)))

    def run(self, parts: Parts, batches: Batches, steps: range, rates: StepRates, options: Options) -> Outcome:
        """Training steps, one for each index.

        Raises:
            NonFiniteStep: a loss or gradient is not finite and `options` do not skip it.
        """
        for index in steps:
            self._outcomes.append(self._step(parts, batches, index, rates, options))
        return self._outcomes[-1]

    def _step(self, parts: Parts, batches: Batches, index: int, rates: StepRates, options: Options) -> Outcome:
        before = read_values(parts)
        batch = batches[index]
        try:
            with hyperparameters(parts.optimizer, read_hyperparameters(parts.optimizer)):
                outcome = train_step(parts, batch, rates.at(index), options, batches.watch(parts.loss))
            if not options.skip_nonfinite and not jax.device_get(outcome.finite):
                raise NonFiniteStep(batches, index, rates.at(index))
        except BaseException:
            write_values(parts, before)
            raise
        return outcome

    def store(self, parts: Parts) -> Outcome:
        """The outcomes since `load`, as NumPy arrays; the values are in the objects."""
        losses, finite = zip(*jax.device_get(self._outcomes), strict=True) if self._outcomes else ((), ())
        self._outcomes = []
        return Outcome(np.array(losses), np.array(finite, bool))

    def evaluate(self, parts: Parts, batches: Batches) -> list[jax.Array]:
        """The loss on each batch (x, y)."""
        return [evaluation_step(parts, batch, batches.watch(parts.loss)) for batch in batches]

    def predict(self, parts: Parts, batches: Batches) -> list[Any]:
        """The model's output for each batch (x,)."""
        return [prediction_step(parts, batch, batches.watch(parts.loss)) for batch in batches]
