"""Cells of recurrent layers: one layer of one direction, over a whole sequence or step by step."""

import math
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from .._layer import Layer
from .._variable import Param, Seed, as_key
from ._dense import product, product_backward, weight_gradient
from ._dot import dot
from ._initial import normal

# (h,), or (h, c) of an LSTM; each (batch, n_out).
State = tuple[jax.Array, ...]


class Cell(Layer):
    """What the cells share: the input's part for all times in one product, then a loop over time.

    A subclass has the formulas: `advance(a, r, state)` from the input's part a and the recurrent part r gives the new
    state and what backward needs; `retreat(needed, state, g_state)` gives the gradients of a, of r and of the state
    before, the way through r left out.

    Args:
        n_in: size of the input's last axis.
        n_out: size of the state.
        key: int or random key for the weights.
        reverse: from the last time to the first.
    """

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1
    recurrent_bias: Param | None = None

    def __init__(self, n_in: int, n_out: int, key: Seed, reverse: bool) -> None:
        self.n_in, self.n_out, self.reverse = n_in, n_out, reverse
        input_key, recurrent_key = jax.random.split(as_key(key))
        self.weight = normal(input_key, (n_in, self.gates * n_out), 1 / math.sqrt(n_in))
        self.recurrent = normal(recurrent_key, (n_out, self.gates * n_out), 1 / math.sqrt(n_out))
        self.bias = Param(jnp.zeros(self.gates * n_out), role="bias")

    @staticmethod
    def advance(a: jax.Array, r: jax.Array, state: State) -> tuple[State, tuple[jax.Array, ...]]:
        """One time step."""
        raise NotImplementedError

    @staticmethod
    def retreat(needed: Any, state: State, g_state: State) -> tuple[jax.Array, jax.Array, State]:
        """Its gradient."""
        raise NotImplementedError

    def _weights(self) -> tuple[jax.Array, ...]:
        params = self.weight, self.bias, self.recurrent, self.recurrent_bias
        return tuple(param.value for param in params if param is not None)

    def start(self, x: jax.Array) -> State:
        """The state before the first step, zeros."""
        dtype = jnp.result_type(x, self.weight.value)
        return tuple(jnp.zeros((x.shape[0], self.n_out), dtype) for _ in range(self.states))

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, time, n_in), float, to (batch, time, n_out)."""
        self.require(
            x.ndim == 3 and x.shape[-1] == self.n_in, f"x must have shape (batch, time, {self.n_in})", x__shape=x.shape
        )
        self.require_float(x)
        y, needed = _run(x, self._weights(), self.start(x), cell=type(self), reverse=self.reverse)
        if training:
            self.keep(x, needed)
        return y

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (batch, time, n_out) to the input's; adds to the weights and biases."""
        x, needed = self.take()
        gx, gradients = _run_backward(x, self._weights(), needed, g, cell=type(self), reverse=self.reverse)
        params = self.weight, self.bias, self.recurrent, self.recurrent_bias
        for param, gradient in zip([one for one in params if one is not None], gradients, strict=True):
            param.add_grad(gradient)
        return gx

    def step(self, x: jax.Array, state: State) -> State:
        """The state after x (batch, n_in), the next input."""
        return _step(x, self._weights(), state, cell=type(self))


def _recurrent_part(h: jax.Array, recurrent: jax.Array, bias: jax.Array | None = None) -> jax.Array:
    r = product(h, recurrent)
    return r if bias is None else r + bias


@partial(jax.jit, static_argnames="cell")
def _step(x: jax.Array, weights: tuple[jax.Array, ...], state: State, *, cell: type[Cell]) -> State:
    weight, bias, *recurrent = weights
    return cell.advance(product(x, weight) + bias, _recurrent_part(state[0], *recurrent), state)[0]


@partial(jax.jit, static_argnames=("cell", "reverse"))
def _run(
    x: jax.Array, weights: tuple[jax.Array, ...], start: State, *, cell: type[Cell], reverse: bool
) -> tuple[jax.Array, Any]:
    weight, bias, *recurrent = weights

    def body(state: State, a: jax.Array) -> tuple[State, Any]:
        after, needed = cell.advance(a, _recurrent_part(state[0], *recurrent), state)
        return after, (after[0], (state, needed))

    parts = product(x, weight) + bias
    _, (y, needed) = lax.scan(body, start, parts.swapaxes(0, 1), reverse=reverse)
    return y.swapaxes(0, 1), needed


@partial(jax.jit, static_argnames=("cell", "reverse"))
def _run_backward(
    x: jax.Array, weights: tuple[jax.Array, ...], needed: Any, g: jax.Array, *, cell: type[Cell], reverse: bool
) -> tuple[jax.Array, list[jax.Array]]:
    weight, _, recurrent, *more = weights

    def body(g_state: State, taken: Any) -> tuple[State, Any]:
        g_y, (state, of_step) = taken
        g_a, g_r, g_before = cell.retreat(of_step, state, (g_state[0] + g_y, *g_state[1:]))
        through_r = dot(g_r, recurrent, ((1,), (1,)))
        return (g_before[0] + through_r, *g_before[1:]), (g_a, g_r)

    states, _ = needed
    nothing = tuple(jnp.zeros_like(state[0]) for state in states)
    _, (g_a, g_r) = lax.scan(body, nothing, (g.swapaxes(0, 1), needed), reverse=not reverse)
    gx, g_weight = product_backward(x, weight, g_a.swapaxes(0, 1))
    g_recurrent = weight_gradient(states[0], g_r, (0, 1))
    return gx, [g_weight, g_a.sum((0, 1)), g_recurrent, *(g_r.sum((0, 1)) for _ in more)]


class RNNCell(Cell):
    """h' = tanh(a + r)."""

    @staticmethod
    def advance(a: jax.Array, r: jax.Array, _: State) -> tuple[State, tuple[jax.Array, ...]]:
        """One time step."""
        h = jnp.tanh(a + r)
        return (h,), (h,)

    @staticmethod
    def retreat(needed: Any, _: State, g_state: State) -> tuple[jax.Array, jax.Array, State]:
        """Its gradient."""
        (h,), (g_h,) = needed, g_state
        g = g_h * (1 - h * h)
        return g, g, (jnp.zeros_like(h),)


class GRUCell(Cell):
    """Reset and update gate, candidate: h' = n + z (h - n)."""

    gates = 3

    def __init__(self, n_in: int, n_out: int, key: Seed, reverse: bool) -> None:
        super().__init__(n_in, n_out, key, reverse)
        self.recurrent_bias = Param(jnp.zeros(3 * n_out), role="bias")

    @staticmethod
    def advance(a: jax.Array, r: jax.Array, state: State) -> tuple[State, tuple[jax.Array, ...]]:
        """One time step."""
        (h,) = state
        (a_reset, a_update, a_new), (r_reset, r_update, r_new) = (jnp.split(part, 3, -1) for part in (a, r))
        reset, update = lax.logistic(a_reset + r_reset), lax.logistic(a_update + r_update)
        new = jnp.tanh(a_new + reset * r_new)
        return (new + update * (h - new),), (reset, update, new, r_new)

    @staticmethod
    def retreat(needed: Any, state: State, g_state: State) -> tuple[jax.Array, jax.Array, State]:
        """Its gradient."""
        (reset, update, new, r_new), (h,), (g_h,) = needed, state, g_state
        g_new = g_h * (1 - update) * (1 - new * new)
        g_reset = g_new * r_new * reset * (1 - reset)
        g_update = g_h * (h - new) * update * (1 - update)
        g_a = jnp.concatenate([g_reset, g_update, g_new], -1)
        g_r = jnp.concatenate([g_reset, g_update, g_new * reset], -1)
        return g_a, g_r, (g_h * update,)


class LSTMCell(Cell):
    """Input, forget and output gate, candidate: c' = f c + i g, h' = o tanh(c')."""

    gates, states = 4, 2

    def __init__(self, n_in: int, n_out: int, key: Seed, reverse: bool) -> None:
        super().__init__(n_in, n_out, key, reverse)
        self.bias.value = self.bias.value.at[n_out : 2 * n_out].set(1)

    @staticmethod
    def advance(a: jax.Array, r: jax.Array, state: State) -> tuple[State, tuple[jax.Array, ...]]:
        """One time step."""
        _, c = state
        *gates, new = jnp.split(a + r, 4, -1)
        take, keep, show = (lax.logistic(gate) for gate in gates)
        new = jnp.tanh(new)
        # Of a sum of two products, either may be rounded: not so behind a barrier.
        c = keep * c + lax.optimization_barrier(take * new)
        shown = jnp.tanh(c)
        return (show * shown, c), (take, keep, show, new, shown)

    @staticmethod
    def retreat(needed: Any, state: State, g_state: State) -> tuple[jax.Array, jax.Array, State]:
        """Its gradient."""
        (take, keep, show, new, shown), (_, c), (g_h, g_c) = needed, state, g_state
        g_c = g_c + g_h * show * (1 - shown * shown)
        g_take = g_c * new * take * (1 - take)
        g_keep = g_c * c * keep * (1 - keep)
        g_show = g_h * shown * show * (1 - show)
        g = jnp.concatenate([g_take, g_keep, g_show, g_c * take * (1 - new * new)], -1)
        return g, g, (jnp.zeros_like(g_h), g_c * keep)
