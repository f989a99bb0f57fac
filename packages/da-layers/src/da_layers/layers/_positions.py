"""What tells a sequence's tokens where they are: SinusoidalPositions, LearnedPositions."""

import jax
import jax.numpy as jnp

from .._layer import Layer
from .._variable import Seed
from ._initial import normal


class SinusoidalPositions(Layer):
    """Adds to each token a fixed code of its place in the sequence.

    y[t, 2i] = x[t, 2i] + sin(t / 10000^(2i / d)), y[t, 2i + 1] = x[t, 2i + 1] + cos(t / 10000^(2i / d))
    (Vaswani et al. 2017, section 3.5).

    Raises:
        ValueError: an input that is not (batch, time, d) with an even d, or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import SinusoidalPositions
        >>> SinusoidalPositions().forward(jax.numpy.zeros((1, 1, 4))).tolist()
        [[[0.0, 1.0, 0.0, 1.0]]]
    """

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, time, d), float, to the same shape."""
        self.require(
            x.ndim == 3 and x.shape[-1] % 2 == 0, "x must have shape (batch, time, even size)", x__shape=x.shape
        )
        self.require_float(x)
        if training:
            self.keep()
        return _add_positions(x)

    def backward(self, g: jax.Array) -> jax.Array:
        """The gradient as it came: the code is fixed."""
        self.take()
        return g


class LearnedPositions(Layer):
    """Adds to each token a learned row for its place in the sequence.

    y[t] = x[t] + W[t] (Gehring et al. 2017, section 3.1). Rows start at normal(0, 1) * 0.02.

    Args:
        n_places: length of the longest sequence.
        size: size of a token.
        key: int or random key for the rows.

    Raises:
        ValueError: a size below 1, or an input that is not (batch, time, size) with time up to n_places, or whose
            dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import LearnedPositions
        >>> LearnedPositions(8, 4, jax.random.key(0)).forward(jax.numpy.zeros((2, 5, 4))).shape
        (2, 5, 4)
    """

    def __init__(self, n_places: int, size: int, key: Seed) -> None:
        self.require_sizes(n_places=n_places, size=size)
        self.n_places, self.size = n_places, size
        self.weight = normal(key, (n_places, size), 0.02)

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, time, size), float, to the same shape."""
        self.require(
            x.ndim == 3 and x.shape[1] <= self.n_places and x.shape[2] == self.size,
            f"x must have shape (batch, at most {self.n_places}, {self.size})",
            x__shape=x.shape,
        )
        self.require_float(x)
        if training:
            self.keep()
        return _add_rows(x, self.weight.value)

    def backward(self, g: jax.Array) -> jax.Array:
        """The gradient as it came; adds to the rows its sum over the batch."""
        self.take()
        self.weight.add_grad(_add_rows_backward(self.weight.value, g))
        return g


@jax.jit
def _add_rows(x: jax.Array, weight: jax.Array) -> jax.Array:
    return x + weight[: x.shape[1]]


@jax.jit
def _add_rows_backward(weight: jax.Array, g: jax.Array) -> jax.Array:
    return jnp.zeros_like(weight).at[: g.shape[1]].set(g.sum(0))


@jax.jit
def _add_positions(x: jax.Array) -> jax.Array:
    _, time, size = x.shape
    rates = 10000 ** (-jnp.arange(0, size, 2) / size)
    angles = jnp.arange(time)[:, None] * rates
    code = jnp.stack([jnp.sin(angles), jnp.cos(angles)], -1).reshape(time, size)
    return x + code.astype(x.dtype)
