"""MultiHeadAttention."""

import math
from functools import partial

import jax
from jax import lax

from .._layer import Layer
from .._variable import Seed, as_key
from ._dense import Dense
from ._softmax import softmax, softmax_backward


class MultiHeadAttention(Layer):
    """Self-attention with several heads.

    y = concat_h(softmax(q_h k_h^T / sqrt(d)) v_h) W + b, where q, k and v are affine maps of x, cut into heads of
    d = d_model / heads (Vaswani et al. 2017, section 3.2).

    Args:
        d_model: size of the input's and the output's last axis.
        heads: number of heads; divides d_model.
        key: int or random key for the four maps.

    Raises:
        ValueError: heads does not divide d_model, or an input that is not (batch, time, d_model) or whose dtype is
            not a float.

    Example:
        >>> import jax
        >>> from da_layers import MultiHeadAttention
        >>> MultiHeadAttention(8, 2, jax.random.key(0)).forward(jax.numpy.ones((2, 5, 8))).shape
        (2, 5, 8)
    """

    def __init__(self, d_model: int, heads: int, key: Seed) -> None:
        self.require(heads >= 1 and d_model % heads == 0, "heads must divide d_model", heads=heads, d_model=d_model)
        self.d_model, self.heads = d_model, heads
        keys = jax.random.split(as_key(key), 4)
        self.query = Dense(d_model, d_model, keys[0])
        self.key = Dense(d_model, d_model, keys[1])
        self.value = Dense(d_model, d_model, keys[2])
        self.output = Dense(d_model, d_model, keys[3])

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x (batch, time, d_model), float, to the same shape."""
        self.require(
            x.ndim == 3 and x.shape[-1] == self.d_model,
            f"x must have shape (batch, time, {self.d_model})",
            x__shape=x.shape,
        )
        q, k, v = (layer.forward(x, training) for layer in (self.query, self.key, self.value))
        mixed, kept = _attend(q, k, v, heads=self.heads)
        if training:
            self.keep(kept)
        return self.output.forward(mixed, training)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (batch, time, d_model) to the input's; adds to the four maps."""
        (kept,) = self.take()
        g_value, g_key, g_query = _attend_backward(kept, self.output.backward(g), heads=self.heads)
        return self.value.backward(g_value) + self.key.backward(g_key) + self.query.backward(g_query)


Kept = tuple[jax.Array, jax.Array, jax.Array, jax.Array]

# Products run over axes (batch, head); XLA's CPU kernels are fastest with those in front.
_HEADS = ((0, 1), (0, 1))


def _split(x: jax.Array, heads: int) -> jax.Array:
    batch, time, size = x.shape
    return x.reshape(batch, time, heads, size // heads).transpose(0, 2, 1, 3)


def _join(x: jax.Array) -> jax.Array:
    batch, heads, time, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, time, heads * size)


@partial(jax.jit, static_argnames="heads")
def _attend(q: jax.Array, k: jax.Array, v: jax.Array, *, heads: int) -> tuple[jax.Array, Kept]:
    q, k, v = _split(q, heads), _split(k, heads), _split(v, heads)
    scores = lax.dot_general(q, k, (((3,), (3,)), _HEADS)) * (1 / math.sqrt(q.shape[-1]))
    p = softmax(scores)
    return _join(lax.dot_general(p, v, (((3,), (2,)), _HEADS))), (q, k, v, p)


@partial(jax.jit, static_argnames="heads")
def _attend_backward(kept: Kept, g: jax.Array, *, heads: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    q, k, v, p = kept
    g = _split(g, heads)
    g_value = lax.dot_general(p.transpose(0, 1, 3, 2), g, (((3,), (2,)), _HEADS))
    g_p = lax.dot_general(g, v, (((3,), (3,)), _HEADS))
    g_scores = softmax_backward(p, g_p) * (1 / math.sqrt(q.shape[-1]))
    g_query = lax.dot_general(g_scores, k, (((3,), (2,)), _HEADS))
    g_key = lax.dot_general(g_scores.transpose(0, 1, 3, 2), q, (((3,), (2,)), _HEADS))
    return _join(g_value), _join(g_key), _join(g_query)
