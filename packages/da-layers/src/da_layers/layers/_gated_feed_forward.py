"""GatedFeedForward."""

import jax
from jax import lax

from .._layer import Layer
from .._variable import Seed, as_key
from ._dense import Dense


class GatedFeedForward(Layer):
    """A feed-forward net whose hidden layer is opened and closed by a second one.

    y = (silu(x W_gate) * (x W_up)) W_down, silu(z) = z / (1 + exp(-z)) (Shazeer 2020, equation 6: SwiGLU).

    Args:
        d_model: size of the input's and the output's last axis.
        d_ff: size of the hidden layer; two thirds of what it is without a gate has as many weights.
        key: int or random key for the weights.

    Raises:
        ValueError: as `Dense` raises.

    Example:
        >>> import jax
        >>> from da_layers import GatedFeedForward
        >>> GatedFeedForward(6, 16, jax.random.key(0)).forward(jax.numpy.ones((2, 5, 6))).shape
        (2, 5, 6)
    """

    def __init__(self, d_model: int, d_ff: int, key: Seed) -> None:
        keys = jax.random.split(as_key(key), 3)
        self.gate = Dense(d_model, d_ff, keys[0], bias=False)
        self.up = Dense(d_model, d_ff, keys[1], bias=False)
        self.down = Dense(d_ff, d_model, keys[2], bias=False)

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (..., d_model), float, to the same shape."""
        gate, up = self.gate.forward(x, training), self.up.forward(x, training)
        if training:
            self.keep(gate, up)
        return self.down.forward(_gated(gate, up), training)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (..., d_model) to the input's; adds to the three maps."""
        gate, up = self.take()
        g_gate, g_up = _gated_backward(gate, up, self.down.backward(g))
        return self.up.backward(g_up) + self.gate.backward(g_gate)


@jax.jit
def _gated(gate: jax.Array, up: jax.Array) -> jax.Array:
    return gate * lax.logistic(gate) * up


@jax.jit
def _gated_backward(gate: jax.Array, up: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
    open_ = lax.logistic(gate)
    return g * up * (open_ * (1 + gate * (1 - open_))), g * (gate * open_)
