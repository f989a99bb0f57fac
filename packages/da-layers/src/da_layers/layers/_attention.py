"""MultiHeadAttention."""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._layer import Layer
from .._variable import Seed, as_key
from ._dense import Dense
from ._dot import dot
from ._rotary import rotate
from ._softmax import softmax, softmax_backward


class AttentionCache(NamedTuple):
    """Keys and values of the tokens so far, for `MultiHeadAttention.step`.

    Attributes:
        key: (batch, capacity, size of all keys), of which the first `length` are set.
        value: as `key`.
        length: tokens so far, int32 scalar.

    Example:
        >>> import jax
        >>> from da_layers import MultiHeadAttention
        >>> cache = MultiHeadAttention(8, 2, 0, causal=True).start(batch=1, capacity=16)
        >>> cache.key.shape, int(cache.length)
        ((1, 16, 8), 0)
    """

    key: jax.Array
    value: jax.Array
    length: jax.Array


class MultiHeadAttention(Layer):
    """Attention with several heads, of a sequence to itself or to another.

    y = concat_h(softmax(q_h k_h^T / sqrt(d)) v_h) W + b, where q is an affine map of x, k and v are affine maps of x or
    of the memory, and all are cut into heads of d = d_model / heads (Vaswani et al. 2017, section 3.2).

    Args:
        d_model: size of the input's and the output's last axis.
        heads: number of heads; divides d_model.
        key: int or random key for the four maps.
        causal: no token sees a later one.
        key_value_heads: heads of keys and values, each for as many heads of queries (Ainslie et al. 2023); divides
            heads. None for as many as heads.
        rotary: queries and keys are turned by angles that grow with the place, so that a product knows how far apart
            the two are (Su et al. 2021, section 3.2).

    Raises:
        ValueError: a number does not divide another as it must, or an input that is not (batch, time, d_model) or whose
            dtype is not a float.

    Example:
        >>> import jax
        >>> from da_layers import MultiHeadAttention
        >>> MultiHeadAttention(8, 2, jax.random.key(0)).forward(jax.numpy.ones((2, 5, 8))).shape
        (2, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        key: Seed,
        causal: bool = False,
        key_value_heads: int | None = None,
        rotary: bool = False,
    ) -> None:
        groups = heads if key_value_heads is None else key_value_heads
        self.require_sizes(d_model=d_model, heads=heads, key_value_heads=groups)
        self.require(d_model % heads == 0, "heads must divide d_model", heads=heads, d_model=d_model)
        self.require(heads % groups == 0, "key_value_heads must divide heads", key_value_heads=groups, heads=heads)
        size = d_model // heads
        self.require(not rotary or size % 2 == 0, "rotary must have heads of an even size", size=size)
        self.d_model, self.heads, self.key_value_heads = d_model, heads, groups
        self.causal, self.rotary = causal, rotary
        keys = jax.random.split(as_key(key), 4)
        self.query = Dense(d_model, d_model, keys[0])
        self.key = Dense(d_model, groups * size, keys[1])
        self.value = Dense(d_model, groups * size, keys[2])
        self.output = Dense(d_model, d_model, keys[3])

    def forward(
        self,
        x: jax.Array,
        training: bool = False,
        memory: jax.Array | None = None,
        mask: jax.Array | None = None,
    ) -> jax.Array:
        """Maps x (batch, time, d_model), float, to the same shape.

        Args:
            x: what asks.
            training: keeps what backward needs.
            memory: (batch, other time, d_model), what is asked; None for x itself.
            mask: (batch, time of what is asked), bool: False for padding, which nothing sees. What may see
                nothing gets b.

        Raises:
            ValueError: an array has another shape or dtype, or a causal or rotary layer is given a memory.
        """
        self._require_sequence(x, "x")
        if memory is not None:
            self._require_sequence(memory, "memory")
            own = not (self.causal or self.rotary)
            self.require(own, "a causal or rotary layer attends to x alone", memory__shape=memory.shape)
            self.require(
                len(memory) == len(x), f"memory must have the batch of x, {len(x)}", memory__shape=memory.shape
            )
        asked = x if memory is None else memory
        if mask is not None:
            self.require(
                mask.dtype == bool and mask.shape == asked.shape[:2],
                f"mask must be bool of shape {asked.shape[:2]}",
                mask__shape=mask.shape,
                mask__dtype=mask.dtype,
            )
        q = self.query.forward(x, training)
        k, v = self.key.forward(asked, training), self.value.forward(asked, training)
        if self.rotary:
            q, k = rotate(q, 0, heads=self.heads), rotate(k, 0, heads=self.key_value_heads)
        mixed, kept = _attend(q, k, v, mask, 0, heads=self.heads, causal=self.causal)
        if training:
            self.keep(kept, memory is not None)
        return self.output.forward(mixed, training)

    def backward(self, g: jax.Array) -> Any:
        """Maps the gradient (batch, time, d_model) to that of x, or of (x, memory); adds to the four maps."""
        kept, has_memory = self.take()
        g_value, g_key, g_query = _attend_backward(kept, self.output.backward(g))
        if self.rotary:
            g_query = rotate(g_query, 0, heads=self.heads, back=True)
            g_key = rotate(g_key, 0, heads=self.key_value_heads, back=True)
        of_asked = self.value.backward(g_value) + self.key.backward(g_key)
        of_x = self.query.backward(g_query)
        return (of_x, of_asked) if has_memory else of_asked + of_x

    def start(self, batch: int, capacity: int) -> AttentionCache:
        """A cache without tokens, with room for `capacity`."""
        self.require(self.causal, "a cache needs a causal layer", causal=self.causal)
        weight = self.key.weight.value
        room = jnp.zeros((batch, capacity, weight.shape[1]), weight.dtype)
        return AttentionCache(room, room, jnp.zeros((), jnp.int32))

    def step(self, x: jax.Array, cache: AttentionCache) -> tuple[jax.Array, AttentionCache]:
        """The output for the next tokens alone, which see all before them; trains nothing.

        Args:
            x: (batch, time, d_model), the next tokens.
            cache: of the tokens before, from `start` or the last step.

        Returns:
            (batch, time, d_model), and the cache with these tokens.

        Raises:
            ValueError: x has another shape or dtype, the cache is of another layer or batch, or has no room for x.
                Where this is traced its length is not known: then what finds no room gets NaN.
        """
        self._require_sequence(x, "x")
        batch, capacity, width = cache.key.shape
        of_this = (len(x), self.d_model // self.heads * self.key_value_heads)
        self.require(
            (batch, width) == of_this,
            f"cache must be of this layer and of the batch of x, of shape ({len(x)}, capacity, {of_this[1]})",
            cache__key__shape=cache.key.shape,
        )
        traced = isinstance(cache.length, jax.core.Tracer)
        if not traced:
            room = capacity - int(cache.length)
            self.require(
                x.shape[1] <= room, f"x must have {room} tokens at most, as the cache has room", time=x.shape[1]
            )
        q, k, v = (layer.forward(x) for layer in (self.query, self.key, self.value))
        if self.rotary:
            q = rotate(q, cache.length, heads=self.heads)
            k = rotate(k, cache.length, heads=self.key_value_heads)
        key, value = (_put_in(all_, new, cache.length) for all_, new in ((cache.key, k), (cache.value, v)))
        mixed, _ = _attend(q, key, value, None, cache.length, heads=self.heads, causal=True)
        length = cache.length + x.shape[1]
        if traced:
            mixed = jnp.where(length <= capacity, mixed, jnp.nan)
        return self.output.forward(mixed), AttentionCache(key, value, length)

    def _require_sequence(self, x: jax.Array, name: str) -> None:
        self.require(
            x.ndim == 3 and x.shape[-1] == self.d_model,
            f"{name} must have shape (batch, time, {self.d_model})",
            **{f"{name}.shape": x.shape},
        )


class _Kept(NamedTuple):
    """For backward: (batch, key-value heads, ...), the queries of the heads that share keys one after another."""

    q: jax.Array
    k: jax.Array
    v: jax.Array
    p: jax.Array


# Products run over axes (batch, head); XLA's CPU kernels are fastest with those in front.
_HEADS = ((0, 1), (0, 1))


def _split(x: jax.Array, heads: int) -> jax.Array:
    batch, time, size = x.shape
    return x.reshape(batch, time, heads, size // heads).transpose(0, 2, 1, 3)


def _join(x: jax.Array) -> jax.Array:
    batch, heads, time, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, time, heads * size)


def _sharing(x: jax.Array, groups: int) -> jax.Array:
    """(batch, heads, time, size) to (batch, groups, heads / groups * time, size)."""
    batch, heads, time, size = x.shape
    return x.reshape(batch, groups, heads // groups * time, size)


@partial(jax.jit, static_argnames=("heads", "causal"))
def _attend(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None, start: Any, *, heads: int, causal: bool
) -> tuple[jax.Array, _Kept]:
    """The first query stands at the place `start` among the keys."""
    (batch, time, size), asked = q.shape, k.shape[1]
    groups = k.shape[2] // (size // heads)
    q, k, v = _sharing(_split(q, heads), groups), _split(k, groups), _split(v, groups)
    scores = dot(q, k, ((3,), (3,)), _HEADS) * (1 / math.sqrt(q.shape[-1]))
    allowed = None if mask is None else mask[:, None, None]
    if causal:
        seen = jnp.arange(asked) <= start + jnp.arange(time)[:, None]
        seen = jnp.tile(seen, (heads // groups, 1))
        allowed = seen if allowed is None else allowed & seen
    if allowed is None:
        p = softmax(scores)
    else:
        # Nothing has a part in what may see nothing.
        p = jnp.where(allowed, softmax(jnp.where(allowed, scores, jnp.finfo(scores.dtype).min)), 0)
    mixed = dot(p, v, ((3,), (2,)), _HEADS)
    return _join(mixed.reshape(batch, heads, time, -1)), _Kept(q, k, v, p)


@jax.jit
def _attend_backward(kept: _Kept, g: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    q, k, v, p = kept
    (batch, time, size), (_, groups, _, of_head) = g.shape, k.shape
    heads = size // of_head
    g = _sharing(_split(g, heads), groups)
    g_value = dot(p.transpose(0, 1, 3, 2), g, ((3,), (2,)), _HEADS)
    g_p = dot(g, v, ((3,), (3,)), _HEADS)
    g_scores = softmax_backward(p, g_p) * (1 / math.sqrt(of_head))
    g_query = dot(g_scores, k, ((3,), (2,)), _HEADS)
    g_key = dot(g_scores.transpose(0, 1, 3, 2), q, ((3,), (2,)), _HEADS)
    return _join(g_value), _join(g_key), _join(g_query.reshape(batch, heads, time, of_head))


@jax.jit
def _put_in(room: jax.Array, new: jax.Array, start: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice(room, new.astype(room.dtype), (0, start, 0))
