"""TransformerBlock."""

from typing import Literal

import jax

from .._layer import Layer
from .._variable import Seed, as_key
from ._activations import GELU
from ._attention import AttentionCache, MultiHeadAttention
from ._dense import Dense
from ._dropout import Dropout
from ._gated_feed_forward import GatedFeedForward
from ._layer_norm import LayerNorm


class TransformerBlock(Layer):
    """Attention and a feed-forward net, each added to its input.

    Norms in front: h = x + dropout(attention(norm_1(x))); y = h + dropout(ffn(norm_2(h))) (Xiong et al. 2020, figure
    1b). Norms behind: h = norm_1(x + dropout(attention(x))); y = norm_2(h + dropout(ffn(h))) (Vaswani et al. 2017,
    section 3.1). ffn(h) = ffn_2(gelu(ffn_1(h))), or a `GatedFeedForward`.

    Args:
        d_model: size of the last axis.
        heads: number of attention heads; divides d_model.
        d_ff: size of the feed-forward net's hidden layer.
        key: int or random key for the weights and the dropout masks.
        dropout: share of the entries set to zero in each of the two branches, 0 for none.
        norm: "pre" for norms in front, "post" for norms behind.
        gated: takes a `GatedFeedForward`.
        causal: as for `MultiHeadAttention`.
        key_value_heads: as for `MultiHeadAttention`.
        rotary: as for `MultiHeadAttention`.

    Raises:
        ValueError: norm is neither, or as the layers inside raise.

    Example:
        >>> import jax
        >>> from da_layers import TransformerBlock
        >>> TransformerBlock(8, 2, 16, jax.random.key(0)).forward(jax.numpy.ones((2, 5, 8))).shape
        (2, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        key: Seed,
        dropout: float = 0.0,
        norm: Literal["pre", "post"] = "pre",
        gated: bool = False,
        causal: bool = False,
        key_value_heads: int | None = None,
        rotary: bool = False,
    ) -> None:
        self.require(norm in ("pre", "post"), "norm must be 'pre' or 'post'", norm=repr(norm))
        keys = jax.random.split(as_key(key), 5)
        self.norm = norm
        self.ln1 = LayerNorm(d_model)
        self.attn = MultiHeadAttention(d_model, heads, keys[0], causal, key_value_heads, rotary)
        self.ln2 = LayerNorm(d_model)
        self.gated = GatedFeedForward(d_model, d_ff, keys[1]) if gated else None
        if not gated:
            self.ffn1 = Dense(d_model, d_ff, keys[1])
            self.activation = GELU()
            self.ffn2 = Dense(d_ff, d_model, keys[2])
        self.dropout_attn = Dropout(dropout, keys[3]) if dropout else None
        self.dropout_ffn = Dropout(dropout, keys[4]) if dropout else None

    def forward(self, x: jax.Array, training: bool = False, mask: jax.Array | None = None) -> jax.Array:
        """Maps x (batch, time, d_model), float, to the same shape; mask as for `MultiHeadAttention`."""
        h = self.ln1.forward(x, training) if self.norm == "pre" else x
        h = self.attn.forward(h, training, mask=mask)
        x = x + (self.dropout_attn.forward(h, training) if self.dropout_attn else h)
        x = self.ln1.forward(x, training) if self.norm == "post" else x
        return self._second_half(x, training)

    def _second_half(self, x: jax.Array, training: bool = False) -> jax.Array:
        h = self.ln2.forward(x, training) if self.norm == "pre" else x
        for layer in self._feed_forward():
            h = layer.forward(h, training)
        x = x + h
        return self.ln2.forward(x, training) if self.norm == "post" else x

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (batch, time, d_model) to the input's."""
        g = self._half_backward(g, self.ln2, self._feed_forward())
        return self._half_backward(g, self.ln1, [self.attn, *([self.dropout_attn] if self.dropout_attn else [])])

    def _feed_forward(self) -> list[Layer]:
        parts: list[Layer] = [self.gated] if self.gated else [self.ffn1, self.activation, self.ffn2]
        return [*parts, self.dropout_ffn] if self.dropout_ffn else parts

    def _half_backward(self, g: jax.Array, norm: Layer, branch: list[Layer]) -> jax.Array:
        g = norm.backward(g) if self.norm == "post" else g
        h = g
        for layer in reversed(branch):
            h = layer.backward(h)
        return g + (norm.backward(h) if self.norm == "pre" else h)

    def start(self, batch: int, capacity: int) -> AttentionCache:
        """A cache for `step`, as that of `MultiHeadAttention`."""
        return self.attn.start(batch, capacity)

    def step(self, x: jax.Array, cache: AttentionCache) -> tuple[jax.Array, AttentionCache]:
        """The output for the next tokens alone, and the cache with them, as that of `MultiHeadAttention`."""
        h, cache = self.attn.step(self.ln1.forward(x) if self.norm == "pre" else x, cache)
        x = self.ln1.forward(x + h) if self.norm == "post" else x + h
        return self._second_half(x), cache
