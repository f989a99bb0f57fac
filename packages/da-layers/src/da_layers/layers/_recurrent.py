"""RNN, GRU and LSTM."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from .._layer import Layer
from .._variable import Seed, as_key
from ._cells import Cell, GRUCell, LSTMCell, RNNCell, State


class _Recurrent(Layer):
    cell: ClassVar[type[Cell]]

    def __init__(
        self,
        n_in: int,
        n_out: int,
        key: Seed,
        layers: int = 1,
        bidirectional: bool = False,
        sequences: bool = True,
    ) -> None:
        self.require_sizes(n_in=n_in, n_out=n_out, layers=layers)
        self.n_in, self.n_out, self.sequences = n_in, n_out, sequences
        directions = (False, True) if bidirectional else (False,)
        keys = iter(jax.random.split(as_key(key), layers * len(directions)))
        sizes = [n_in, *[n_out * len(directions)] * (layers - 1)]
        self.layers = [[self.cell(size, n_out, next(keys), reverse) for reverse in directions] for size in sizes]

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, time, n_in), float, to (batch, time, n_out), or to (batch, n_out) without sequences.

        With both directions there are 2 n_out outputs.
        """
        self.require(
            x.ndim == 3 and x.shape[1] >= 1 and x.shape[-1] == self.n_in,
            f"x must have shape (batch, time of 1 or more, {self.n_in})",
            x__shape=x.shape,
        )
        for cells in self.layers:
            outputs = [cell.forward(x, training) for cell in cells]
            x = jnp.concatenate(outputs, -1) if len(outputs) > 1 else outputs[0]
        if training:
            self.keep(x.shape)
        return x if self.sequences else _last(x, self.n_out)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient of y to that of x; adds to the cells' Params."""
        (shape,) = self.take()
        if not self.sequences:
            g = _last_backward(g, shape[1], self.n_out)
        for cells in reversed(self.layers):
            parts = jnp.split(g, len(cells), -1) if len(cells) > 1 else [g]
            g, *others = (cell.backward(part) for cell, part in zip(cells, parts, strict=True))
            for other in others:
                g = g + other
        return g

    def step(self, x: jax.Array, state: Sequence[State] | None = None) -> tuple[jax.Array, list[State]]:
        """The next output of a stream, from its next input; trains nothing.

        Args:
            x: (batch, n_in), float.
            state: what the step before gave; None at the start.

        Returns:
            The output (batch, n_out), and the state of each layer.

        Raises:
            ValueError: x has another shape or dtype, the state is not of such a layer, or the layer has both
                directions, of which one starts at the end.
        """
        self.require(
            x.ndim == 2 and x.shape[-1] == self.n_in, f"x must have shape (batch, {self.n_in})", x__shape=x.shape
        )
        self.require_float(x)
        self.require(len(self.layers[0]) == 1, "step needs a layer of one direction", bidirectional=True)
        cells = [cell for (cell,) in self.layers]
        before = [cell.start(x) for cell in cells] if state is None else list(state)
        expected = [[(x.shape[0], self.n_out)] * cell.states for cell in cells]
        shapes = [[part.shape for part in of_layer] for of_layer in before]
        self.require(shapes == expected, f"state must have the shapes {expected}", state=shapes)
        after: list[State] = []
        for cell, of_layer in zip(cells, before, strict=True):
            after.append(cell.step(x, of_layer))
            x = after[-1][0]
        return x, after


@partial(jax.jit, static_argnums=1)
def _last(y: jax.Array, n_out: int) -> jax.Array:
    """What each direction gives last."""
    return jnp.concatenate([y[:, -1, :n_out], y[:, 0, n_out:]], -1)


@partial(jax.jit, static_argnums=(1, 2))
def _last_backward(g: jax.Array, time: int, n_out: int) -> jax.Array:
    zeros = jnp.zeros((g.shape[0], time, g.shape[1]), g.dtype)
    return zeros.at[:, -1, :n_out].set(g[:, :n_out]).at[:, 0, n_out:].set(g[:, n_out:])


class RNN(_Recurrent):
    """Recurrent layer with one map of its own state.

    h_t = tanh(x_t W + h_{t-1} U + b), h_0 = 0 (Elman 1990).

    Weights start at normal(0, 1) / sqrt(size of what they multiply), biases at zero.

    Args:
        n_in: size of each vector of the input.
        n_out: size of the state.
        key: int or random key for the weights.
        layers: layers on top of each other.
        bidirectional: each layer reads the sequence from both ends, and has 2 n_out outputs.
        sequences: False gives the last output only: of a direction from the end, the one at the first place.

    Raises:
        ValueError: a size or layers below 1, or an input that is not (batch, time, n_in) or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import RNN
        >>> RNN(3, 4, jax.random.key(0)).forward(jax.numpy.ones((2, 5, 3))).shape
        (2, 5, 4)
    """

    cell = RNNCell


class GRU(_Recurrent):
    """Recurrent layer that forgets and takes in by gates.

    r = sigmoid(x W_r + b_r + h U_r + d_r), z = sigmoid(x W_z + b_z + h U_z + d_z),
    n = tanh(x W_n + b_n + r (h U_n + d_n)), h_t = (1 - z) n + z h
    (Cho et al. 2014, section 2.3, the reset gate after the product). The Params hold r, z and n side by side.

    Weights start at normal(0, 1) / sqrt(size of what they multiply), biases b and d at zero.

    Args:
        n_in: size of each vector of the input.
        n_out: size of the state.
        key: int or random key for the weights.
        layers: layers on top of each other.
        bidirectional: each layer reads the sequence from both ends, and has 2 n_out outputs.
        sequences: False gives the last output only, as for `RNN`.

    Raises:
        ValueError: as `RNN` raises.

    Example:
        >>> import jax
        >>> from da_layers import GRU
        >>> GRU(3, 4, jax.random.key(0), layers=2, bidirectional=True).forward(jax.numpy.ones((2, 5, 3))).shape
        (2, 5, 8)
    """

    cell = GRUCell


class LSTM(_Recurrent):
    """Recurrent layer with a cell that carries what it keeps from step to step.

    i, f, o = sigmoid(x W + h U + b), g = tanh(x W_g + h U_g + b_g), c_t = f c + i g, h_t = o tanh(c_t)
    (Hochreiter & Schmidhuber 1997; the forget gate as in Gers et al. 2000). The Params hold i, f, o and g side by side.

    Weights start at normal(0, 1) / sqrt(size of what they multiply), biases at zero, those of the forget gate at 1
    (Jozefowicz et al. 2015, section 2.2).

    Args:
        n_in: size of each vector of the input.
        n_out: size of the state.
        key: int or random key for the weights.
        layers: layers on top of each other.
        bidirectional: each layer reads the sequence from both ends, and has 2 n_out outputs.
        sequences: False gives the last output only, as for `RNN`.

    Raises:
        ValueError: as `RNN` raises.

    Example:
        >>> import jax
        >>> from da_layers import LSTM
        >>> layer = LSTM(3, 4, jax.random.key(0), sequences=False)
        >>> layer.forward(jax.numpy.ones((2, 5, 3))).shape
        (2, 4)
        >>> y, state = layer.step(jax.numpy.ones((2, 3)))
        >>> y, state = layer.step(jax.numpy.ones((2, 3)), state)
        >>> y.shape
        (2, 4)
    """

    cell = LSTMCell
