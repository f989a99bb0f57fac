"""Embedding: a learned row for each token, and the head that reads tokens off by the same rows."""

import jax
import jax.numpy as jnp

from .._layer import Layer
from .._variable import Seed
from ._dense import weight_gradient
from ._dot import dot
from ._initial import normal


class Embedding(Layer):
    """A learned row for each of `n_tokens` tokens.

    y = W[x]

    Rows start at normal(0, 1) * scale. Tokens have no gradient: `backward` gives zeros. A token outside 0 to
    n_tokens - 1 gets a row of NaN, in both executors, so that training stops with this layer's name.

    Args:
        n_tokens: how many tokens there are.
        n_out: size of a row.
        key: int or random key for the rows.
        scale: standard deviation of the rows, positive; 0.02 as in GPT-2 (Radford et al. 2019).

    Raises:
        ValueError: a size below 1, a scale that is not positive, or an input of no integer dtype.

    Example:
        >>> import jax
        >>> from da_layers import Embedding
        >>> Embedding(50, 4, jax.random.key(0)).forward(jax.numpy.array([[3, 1, 3]])).shape
        (1, 3, 4)
    """

    def __init__(self, n_tokens: int, n_out: int, key: Seed, scale: float = 0.02) -> None:
        self.require_sizes(n_tokens=n_tokens, n_out=n_out)
        self.require(scale > 0, "scale must be positive", scale=scale)
        self.n_tokens, self.n_out = n_tokens, n_out
        self.weight = normal(key, (n_tokens, n_out), scale)

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps tokens x (...), integers, to (..., n_out)."""
        self.require(jnp.issubdtype(x.dtype, jnp.integer), "x must be of an integer dtype", x__dtype=x.dtype)
        if training:
            self.keep(x)
        return _rows(x, self.weight.value)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (..., n_out) to zeros (...); adds to each row the gradients of its tokens."""
        (x,) = self.take()
        self.weight.add_grad(_rows_backward(x, self.weight.value, g))
        return jnp.zeros(x.shape, g.dtype)


class TiedHead(Layer):
    """One number for each token of an Embedding, by the Embedding's own rows.

    y = x W^T (Press and Wolf 2017, "Using the Output Embedding to Improve Language Models").

    Args:
        embedding: whose rows to use; its Param is shared, and gets the sum of both gradients.

    Raises:
        ValueError: no Embedding, or an input whose last axis is not the size of a row or whose dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import Embedding, Sequential, TiedHead
        >>> embedding = Embedding(50, 4, jax.random.key(0))
        >>> model = Sequential(embedding, TiedHead(embedding))
        >>> model.forward(jax.numpy.array([[3, 1, 3]])).shape, list(model.variables())
        ((1, 3, 50), ['layers.0.weight'])
    """

    def __init__(self, embedding: Embedding) -> None:
        self.require(isinstance(embedding, Embedding), "embedding must be an Embedding", embedding=embedding)
        self.weight = embedding.weight

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (..., n_out of the Embedding), float, to (..., n_tokens)."""
        size = self.weight.value.shape[1]
        self.require(x.ndim >= 1 and x.shape[-1] == size, f"x must have shape (..., {size})", x__shape=x.shape)
        self.require_float(x)
        if training:
            self.keep(x)
        return _scores(x, self.weight.value)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (..., n_tokens) to the input's; adds to the rows."""
        (x,) = self.take()
        gx, g_weight = _scores_backward(x, self.weight.value, g)
        self.weight.add_grad(g_weight)
        return gx


@jax.jit
def _rows(tokens: jax.Array, weight: jax.Array) -> jax.Array:
    return weight.at[tokens].get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)


@jax.jit
def _rows_backward(tokens: jax.Array, weight: jax.Array, g: jax.Array) -> jax.Array:
    return jnp.zeros_like(weight).at[tokens].add(g, mode="drop", wrap_negative_indices=False)


@jax.jit
def _scores(x: jax.Array, weight: jax.Array) -> jax.Array:
    return dot(x, weight, ((x.ndim - 1,), (1,)))


@jax.jit
def _scores_backward(x: jax.Array, weight: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
    rows = tuple(range(x.ndim - 1))
    return dot(g, weight, ((g.ndim - 1,), (0,))), weight_gradient(g, x, rows)
