"""transformer_lm."""

from typing import Any

import jax
import jax.numpy as jnp

from .._layer import Layer
from .._variable import Seed, as_key
from ..layers._containers import Sequential
from ..layers._embedding import Embedding, TiedHead
from ..layers._layer_norm import LayerNorm
from ..layers._layer_stack import LayerStack
from ..layers._transformer_block import TransformerBlock
from ._blocks import check_blocks


class TransformerLM(Layer):
    """A transformer decoder: for each token, numbers for the next one.

    logits = head(norm(block_n(... block_1(embedding(tokens)))))

    Args:
        embedding: a row for each token.
        blocks: causal blocks.
        norm: before the head.
        head: numbers for each token.
        stacked: the blocks as one `LayerStack`.

    Raises:
        ValueError: no block.

    Example:
        >>> import jax
        >>> from da_layers import transformer_lm
        >>> model = transformer_lm(10, 8, 2, 16, 1, jax.random.key(0))
        >>> model.generate(jax.numpy.array([[1, 2]]), 3, key=0).shape
        (1, 5)
    """

    def __init__(
        self, embedding: Embedding, blocks: list[TransformerBlock], norm: Layer, head: TiedHead, stacked: bool = False
    ) -> None:
        self.require(len(blocks) >= 1, "blocks must be 1 or more", blocks=len(blocks))
        self.embedding = embedding
        self.blocks: Any = LayerStack(blocks) if stacked else Sequential(*blocks)
        self.norm, self.head = norm, head

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps tokens x (batch, time), integers, to (batch, time, n_tokens)."""
        for layer in (self.embedding, self.blocks, self.norm, self.head):
            x = layer.forward(x, training)
        return x

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient (batch, time, n_tokens) to zeros (batch, time); adds to the Params of all parts."""
        for layer in (self.head, self.norm, self.blocks, self.embedding):
            g = layer.backward(g)
        return g

    def start(self, batch: int, capacity: int) -> list[Any]:
        """The blocks' caches without tokens, for `step`."""
        return [block.start(batch, capacity) for block in self.blocks.layers]

    def step(self, x: jax.Array, caches: list[Any]) -> tuple[jax.Array, list[Any]]:
        """The numbers for the token after each of the next tokens x (batch, time), and the caches with them."""
        h, after = self.embedding.forward(x), []
        for block, cache in zip(self.blocks.layers, caches, strict=True):
            h, cache = block.step(h, cache)
            after.append(cache)
        return self.head.forward(self.norm.forward(h)), after

    def generate(
        self, tokens: jax.Array, count: int, key: Seed, temperature: float = 1.0, cached: bool = True
    ) -> jax.Array:
        """Goes on from `tokens`, drawing one token after another.

        P(token) = softmax(logits / temperature)

        Args:
            tokens: (batch, time) of 1 or more, integers.
            count: how many tokens to draw.
            key: int or random key.
            temperature: below 1 the likelier tokens come more often; 0 takes the likeliest.
            cached: keeps keys and values of the tokens so far; False looks at all tokens anew for each.

        Returns:
            (batch, time + count), the tokens given and drawn.

        Raises:
            ValueError: tokens of another shape or dtype or outside the table, or a count or temperature below 0.
        """
        tokens = jnp.asarray(tokens)
        self.require(
            tokens.ndim == 2 and tokens.size > 0, "tokens must have shape (batch, time)", tokens__shape=tokens.shape
        )
        self.require(jnp.issubdtype(tokens.dtype, jnp.integer), "tokens must be integers", tokens__dtype=tokens.dtype)
        n_tokens, lowest, highest = self.embedding.weight.value.shape[0], int(tokens.min()), int(tokens.max())
        self.require(
            0 <= lowest <= highest < n_tokens,
            f"tokens must be from 0 to {n_tokens - 1}",
            lowest=lowest,
            highest=highest,
        )
        self.require(isinstance(count, int) and count >= 0, "count must be an integer of 0 or more", count=count)
        self.require(temperature >= 0, "temperature must be 0 or more", temperature=temperature)
        tokens, (batch, time) = tokens.astype(jnp.int32), tokens.shape
        caches = self.start(batch, time + count) if cached else []
        text, keys = jnp.pad(tokens, ((0, 0), (0, count))), jax.random.split(as_key(key), max(count, 1))
        new = tokens
        for place in range(time, time + count):
            if cached:
                logits, caches = self.step(new, caches)
                last = logits[:, -1]
            else:
                # No token sees a later one: what stands there does not matter, and the shape stays.
                last = self.forward(text)[:, place - 1]
            new = _draw(last, keys[place - time], temperature)[:, None].astype(text.dtype)
            text = text.at[:, place].set(new[:, 0])
        return text


def transformer_lm(
    n_tokens: int,
    d_model: int,
    heads: int,
    d_ff: int,
    blocks: int,
    key: Seed,
    dropout: float = 0.0,
    key_value_heads: int | None = None,
    stacked: bool = False,
) -> TransformerLM:
    """A language model: embedding, causal blocks with rotary positions and gated nets, norm, head by the same rows.

    Args:
        n_tokens: how many tokens there are.
        d_model: size of each vector inside; divided by heads, into an even size.
        heads: attention heads of a block.
        d_ff: hidden size of a block's gated feed-forward net.
        blocks: number of blocks.
        key: int or random key.
        dropout: share of the entries set to zero in each branch of a block.
        key_value_heads: as for `MultiHeadAttention`.
        stacked: the blocks as one `LayerStack`, for deep models: they compile as one loop.

    Returns:
        The model; it maps tokens (batch, time) to (batch, time, n_tokens), and can `generate`.

    Raises:
        ValueError: blocks below 1, or as the layers inside raise.

    Example:
        >>> import jax
        >>> from da_layers import transformer_lm
        >>> transformer_lm(10, 8, 2, 16, 2, jax.random.key(0)).forward(jax.numpy.array([[1, 2, 3]])).shape
        (1, 3, 10)
    """
    check_blocks(blocks)
    first, *keys = jax.random.split(as_key(key), blocks + 1)
    embedding = Embedding(n_tokens, d_model, first)
    options: dict[str, Any] = {"gated": True, "causal": True, "key_value_heads": key_value_heads, "rotary": True}
    layers = [TransformerBlock(d_model, heads, d_ff, block_key, dropout, **options) for block_key in keys]
    return TransformerLM(embedding, layers, LayerNorm(d_model), TiedHead(embedding), stacked)


def _draw(logits: jax.Array, key: jax.Array, temperature: float) -> jax.Array:
    if temperature == 0:
        return logits.argmax(-1)
    return jax.random.categorical(key, logits / temperature)
