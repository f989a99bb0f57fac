"""resnet_mlp."""

import jax

from .._layer import Layer
from .._variable import Seed, as_key
from ..layers._activations import ReLU
from ..layers._containers import Residual, Sequential
from ..layers._dense import Dense
from ..layers._dropout import Dropout
from ..layers._layer_norm import LayerNorm
from ._blocks import check_blocks


def resnet_mlp(
    n_in: int, width: int, hidden: int, blocks: int, n_out: int, key: Seed, dropout: float = 0.0
) -> Sequential:
    """A residual network for tables: Dense, blocks x + Dense(dropout(relu(Dense(norm(x))))), norm, ReLU, Dense.

    After Gorishniy et al. 2021, section 3.3, with LayerNorm.

    Args:
        n_in: numbers in a row of the input.
        width: numbers between the blocks.
        hidden: numbers inside a block.
        blocks: number of blocks.
        n_out: number of outputs.
        key: int or random key.
        dropout: share of a block's hidden entries set to zero.

    Returns:
        The model; it maps (..., n_in) to (..., n_out).

    Raises:
        ValueError: blocks below 1, or as the layers inside raise.

    Example:
        >>> import jax
        >>> from da_layers import resnet_mlp
        >>> resnet_mlp(10, 32, 64, 2, 1, jax.random.key(0)).forward(jax.numpy.ones((2, 10))).shape
        (2, 1)
    """
    check_blocks(blocks)
    first, last, *keys = jax.random.split(as_key(key), blocks + 2)
    layers: list[Layer] = [Dense(n_in, width, first)]
    for block_key in keys:
        into, out, drop = jax.random.split(block_key, 3)
        branch: list[Layer] = [LayerNorm(width), Dense(width, hidden, into), ReLU()]
        branch += [Dropout(dropout, drop)] if dropout else []
        layers.append(Residual(Sequential([*branch, Dense(hidden, width, out)])))
    return Sequential([*layers, LayerNorm(width), ReLU(), Dense(width, n_out, last)])
