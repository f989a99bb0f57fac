"""One step or many in one compiled call, each on its batch, which is gathered by index inside the call."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ._batches import gather
from ._programs import Around
from ._scan import part_at, unchanged
from ._step import Outcome, Rates
from ._traces import TracedStep


def one_step(batch_size: int, size: int) -> Around:
    """A call that takes one step.

    Args:
        batch_size: samples in a batch.
        size: samples in this one; fewer in a short last batch.

    Returns:
        A function of the step alone in a list, the values, the hyper-parameters, the stacked rates, (arrays, order),
        and the step's index among the rates and in its epoch.
    """

    def call(steps: Sequence[TracedStep], values: Any, numbers: Any, rates: Rates, source: Any, index: Any) -> Any:
        (step,), (arrays, order), (index, place) = steps, source, index
        return step(values, numbers, _at(rates, index), gather(arrays, order, place * batch_size, size))

    return call


def many_steps(batch_size: int, sizes: Sequence[int]) -> Around:
    """A call that takes as many steps as it is told, from any step of an epoch to any of the same or a later one.

    Args:
        batch_size: samples in a batch.
        sizes: samples in each batch of an epoch; the last may be fewer.

    Returns:
        A function of a step for each size, the values, the hyper-parameters, the stacked rates, (arrays, the orders of
        the epochs or None), and (start, stop) of the steps' indices. Its outcome has an entry for each step that there
        are rates for.
    """
    count, full = len(sizes), sum(size == batch_size for size in sizes)
    parts = [(low, high, sizes[low]) for low, high in ((0, full), (full, count)) if low < high]

    def call(steps: Sequence[TracedStep], values: Any, numbers: Any, rates: Rates, source: Any, span: Any) -> Any:
        (arrays, orders), (start, stop) = source, span

        def take(index: jax.Array, carry: Any, of_epoch: Any) -> Any:
            step, size, begin, order = of_epoch
            index = unchanged(index, stop)
            before, outcomes = carry
            batch = gather(arrays, order, (index - begin) * batch_size, size)
            after, outcome = step(before, numbers, _at(rates, index), batch)
            return after, Outcome(*(all_.at[index].set(one) for all_, one in zip(outcomes, outcome, strict=True)))

        def epoch(number: jax.Array, carry: Any) -> Any:
            begin = number * count
            order = part_at(orders, number)
            for step, (low, high, size) in zip(steps, parts, strict=True):
                of_epoch = step, size, begin, order
                bounds = jnp.maximum(start, begin + low), jnp.minimum(stop, begin + high)
                carry = lax.fori_loop(*bounds, partial(take, of_epoch=of_epoch), carry)
            return carry

        room = len(rates.lr)
        # The widest float there is: a loss of any dtype fits in.
        nothing = Outcome(jnp.zeros(room, float), jnp.ones(room, bool))
        return lax.fori_loop(start // count, -(-stop // count), epoch, (values, nothing))

    return call


def _at(rates: Rates, index: jax.Array) -> Rates:
    lr, eta = part_at((rates.lr, rates.eta), index)
    return rates._replace(lr=lr, eta=eta)
