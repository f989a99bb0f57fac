"""SinusoidalPositions."""

import jax
import jax.numpy as jnp

from .._layer import Layer


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


@jax.jit
def _add_positions(x: jax.Array) -> jax.Array:
    _, time, size = x.shape
    rates = 10000 ** (-jnp.arange(0, size, 2) / size)
    angles = jnp.arange(time)[:, None] * rates
    code = jnp.stack([jnp.sin(angles), jnp.cos(angles)], -1).reshape(time, size)
    return x + code.astype(x.dtype)
