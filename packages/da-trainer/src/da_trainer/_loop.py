"""The loop: the step body, eagerly, one operation after another. Print and break wherever you like."""

from typing import Any

import jax

from ._batches import Batches
from ._nonfinite import NonFiniteStep
from ._step import Decay, Outcome, Rates, evaluation_step, prediction_step, train_step
from ._values import Parts, hyperparameters, read_hyperparameters, read_values, write_values


class Loop:
    """Runs steps on the objects themselves; they always hold the values of the last good step."""

    def load(self, parts: Parts) -> None:
        """Nothing to do: the values are in the objects."""

    def step(
        self, parts: Parts, batches: Batches, index: int, rates: Rates, decay: Decay, skip_nonfinite: bool
    ) -> Outcome:
        """One training step on batch `index`.

        Raises:
            NonFiniteStep: the loss or a gradient is not finite and `skip_nonfinite` is False.
        """
        before = read_values(parts)
        batch = batches[index]
        try:
            with hyperparameters(parts.optimizer, read_hyperparameters(parts.optimizer)):
                outcome = train_step(parts, batch, rates, decay, skip_nonfinite, batches.watch(parts.loss))
            if not skip_nonfinite and not outcome.finite:
                raise NonFiniteStep(batch, index, rates)
        except BaseException:
            write_values(parts, before)
            raise
        return outcome

    def store(self, parts: Parts) -> None:
        """Nothing to do: the values are in the objects."""

    def evaluate(self, parts: Parts, batches: Batches) -> list[jax.Array]:
        """The loss on each batch (x, y)."""
        return [evaluation_step(parts, batch, batches.watch(parts.loss)) for batch in batches]

    def predict(self, parts: Parts, batches: Batches) -> list[Any]:
        """The model's output for each batch (x,)."""
        return [prediction_step(parts, batch, batches.watch(parts.loss)) for batch in batches]
