"""One step or many in one compiled call, each on its batch, which is gathered by index inside the call."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ._batches import gather
from ._step import Outcome, Rates

# (values, hyper-parameters, rates, batch) -> (values, outcome)
Step = Callable[..., tuple[Any, Outcome]]


def one_step(batch_size: int, size: int) -> Callable[..., tuple[Any, Outcome]]:
    """A call that takes one step.

    Args:
        batch_size: samples in a batch.
        size: samples in this one; fewer in a short last batch.

    Returns:
        A function of the step, the values, the hyper-parameters, the stacked rates, (arrays, order), and (start, stop)
        of the steps' indices.
    """

    def call(step: Step, values: Any, numbers: Any, rates: Rates, source: Any, span: Any) -> tuple[Any, Outcome]:
        index, _ = span
        arrays, order = source
        return step(values, numbers, _at(rates, index), gather(arrays, order, index * batch_size, size))

    return call


def many_steps(batch_size: int) -> Callable[..., tuple[Any, Outcome]]:
    """A call that takes as many steps as its span has; the outcome has an entry for each step of the epoch.

    Args:
        batch_size: samples in each batch.
    """

    def call(step: Step, values: Any, numbers: Any, rates: Rates, source: Any, span: Any) -> tuple[Any, Outcome]:
        arrays, order = source

        def body(index: jax.Array, carry: tuple[Any, Outcome]) -> tuple[Any, Outcome]:
            before, outcomes = carry
            batch = gather(arrays, order, index * batch_size, batch_size)
            after, outcome = step(before, numbers, _at(rates, index), batch)
            return after, Outcome(*(all_.at[index].set(one) for all_, one in zip(outcomes, outcome, strict=True)))

        steps = len(rates.lr)
        # The widest float there is: a loss of any dtype fits in.
        nothing = Outcome(jnp.zeros(steps, float), jnp.ones(steps, bool))
        start, stop = span
        return lax.fori_loop(start, stop, body, (values, nothing))

    return call


def _at(rates: Rates, index: jax.Array) -> Rates:
    pick = partial(lax.dynamic_index_in_dim, index=index, keepdims=False)
    return rates._replace(lr=pick(rates.lr), eta=pick(rates.eta))
