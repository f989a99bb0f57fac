"""transformer_encoder."""

import jax

from .._variable import Seed, as_key
from ..layers._containers import Sequential
from ..layers._dense import Dense
from ..layers._layer_norm import LayerNorm
from ..layers._layer_stack import LayerStack
from ..layers._positions import SinusoidalPositions
from ..layers._shape import GlobalAveragePool
from ..layers._transformer_block import TransformerBlock
from ._blocks import check_blocks


def transformer_encoder(
    n_in: int,
    d_model: int,
    heads: int,
    d_ff: int,
    blocks: int,
    n_out: int,
    key: Seed,
    dropout: float = 0.0,
    stacked: bool = False,
) -> Sequential:
    """A transformer encoder for sequences of vectors: project, add positions, blocks, normalise, average, project.

    Args:
        n_in: size of each vector of the input.
        d_model: size of each vector inside; even, divided by heads.
        heads: attention heads of a block.
        d_ff: hidden size of a block's feed-forward net.
        blocks: number of blocks.
        n_out: number of outputs.
        key: int or random key.
        dropout: share of the entries set to zero in each branch of a block.
        stacked: the blocks as one `LayerStack`, for deep models: they compile as one loop.

    Returns:
        The model; it maps (batch, time, n_in) to (batch, n_out).

    Raises:
        ValueError: blocks below 1, or as the layers inside raise.

    Example:
        >>> import jax
        >>> from da_layers import transformer_encoder
        >>> model = transformer_encoder(4, 8, 2, 16, 2, 3, jax.random.key(0))
        >>> model.forward(jax.numpy.ones((2, 5, 4))).shape
        (2, 3)
    """
    check_blocks(blocks)
    first, last, *block_keys = jax.random.split(as_key(key), blocks + 2)
    layers = [TransformerBlock(d_model, heads, d_ff, block_key, dropout) for block_key in block_keys]
    return Sequential(
        Dense(n_in, d_model, first),
        SinusoidalPositions(),
        *([LayerStack(layers)] if stacked else layers),
        LayerNorm(d_model),
        GlobalAveragePool(),
        Dense(d_model, n_out, last),
    )
