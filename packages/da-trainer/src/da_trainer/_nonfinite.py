"""A loss or gradient that is not finite: which step, and which layer made it."""

from typing import Any

import jax
import jax.numpy as jnp
from da_layers import label_of, observe

from ._batches import Batches
from ._step import Options, Outcome, Rates, train_step, unwatched
from ._values import Parts, hyperparameters, read_hyperparameters, read_values, write_values


class NonFiniteStep(Exception):  # noqa: N818 - a signal from an executor to fit
    """A step whose loss or gradient is not finite; the objects hold the values from before it.

    Args:
        batches: what it took its batch of.
        index: of the batch among them.
        rates: the step's.
        before: the outcomes of the steps before it since `load`.
    """

    def __init__(self, batches: Batches, index: int, rates: Rates, before: Outcome | None = None) -> None:
        super().__init__(index)
        self.batches, self.index, self.rates, self.before = batches, index, rates, before


class _Found(Exception):  # noqa: N818 - leaves the step as soon as the layer is known
    pass


def nonfinite_error(parts: Parts, bad: NonFiniteStep, options: Options) -> FloatingPointError:
    """What the user is told: epoch and step, counted from 1, and the first layer whose output is not finite."""
    where = _first_nonfinite(parts, bad.batches[bad.index], bad.rates, options)
    epoch, place = bad.batches.place(bad.index)
    return FloatingPointError(
        f"The loss and every gradient must be finite. Received: NaN or infinity in epoch {epoch + 1}, step "
        f"{place + 1}, first in {where}. The model holds the values from before that step; "
        f"on_nonfinite='skip' would leave such steps out."
    )


def _first_nonfinite(parts: Parts, batch: Any, rates: Rates, options: Options) -> str:
    """Runs the step again in the loop, and names the first layer and direction whose output is not finite."""

    def stop_at(part: Any, direction: str, output: Any) -> None:
        arrays = [leaf for leaf in jax.tree.leaves(output) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
        if not all(bool(jnp.isfinite(array).all()) for array in arrays):
            raise _Found(f"{label_of(part)}, {direction}")

    before = read_values(parts)
    try:
        with observe(stop_at), hyperparameters(parts.optimizer, read_hyperparameters(parts.optimizer)):
            train_step(parts, batch, rates, options, unwatched)
    except _Found as found:
        return str(found.args[0])
    finally:
        write_values(parts, before)
    return "a Param's gradient, no layer's output"
