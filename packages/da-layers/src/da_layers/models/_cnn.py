"""cnn."""

from collections.abc import Sequence

import jax

from .._layer import Layer
from .._variable import Seed, as_key
from ..layers._activations import ReLU
from ..layers._batch_norm import BatchNorm
from ..layers._containers import Sequential
from ..layers._conv import Conv2D
from ..layers._dense import Dense
from ..layers._dropout import Dropout
from ..layers._shape import GlobalAveragePool


def cnn(n_in: int, channels: Sequence[int], n_out: int, key: Seed, dropout: float = 0.0) -> Sequential:
    """A convolutional network: 3x3 convolution, BatchNorm and ReLU for each entry of channels, average, Dense.

    The first convolution keeps the image's size; each later one halves it.

    Args:
        n_in: channels of the image.
        channels: channels after each convolution, at least one.
        n_out: number of outputs.
        key: int or random key.
        dropout: share of the entries set to zero before the last Dense.

    Returns:
        The model; it maps (batch, height, width, n_in) to (batch, n_out).

    Raises:
        ValueError: channels are no sequence of one or more, or as the layers inside raise.

    Example:
        >>> import jax
        >>> from da_layers import cnn
        >>> cnn(1, [8, 16], 10, jax.random.key(0)).forward(jax.numpy.ones((2, 8, 8, 1))).shape
        (2, 10)
    """
    if not isinstance(channels, Sequence) or not channels:
        raise ValueError(f"channels must hold one number at least. Received: channels={channels!r}")
    last, drop, *keys = jax.random.split(as_key(key), len(channels) + 2)
    layers: list[Layer] = []
    for index, (n_out_here, conv_key) in enumerate(zip(channels, keys, strict=True)):
        n_in_here = channels[index - 1] if index else n_in
        layers += [Conv2D(n_in_here, n_out_here, 3, conv_key, stride=2 if index else 1), BatchNorm(n_out_here), ReLU()]
    layers.append(GlobalAveragePool())
    if dropout:
        layers.append(Dropout(dropout, drop))
    return Sequential([*layers, Dense(channels[-1], n_out, last)])
