"""mlp."""

import itertools
from collections.abc import Callable, Sequence

import jax

from .._layer import Layer
from .._variable import Seed, as_key
from ..layers._activations import ReLU
from ..layers._containers import Sequential
from ..layers._dense import Dense


def mlp(sizes: Sequence[int], key: Seed, activation: Callable[[], Layer] = ReLU) -> Sequential:
    """A multi-layer perceptron: one Dense for each pair of sizes, an activation between two.

    Args:
        sizes: input, hidden and output sizes, at least two.
        key: int or random key, split into one for each Dense.
        activation: makes the layer that stands between two Dense.

    Returns:
        The model; it maps (..., sizes[0]) to (..., sizes[-1]).

    Raises:
        ValueError: sizes are no sequence of two or more, or activation makes no layer.

    Example:
        >>> import jax
        >>> from da_layers import mlp
        >>> mlp([64, 128, 10], jax.random.key(0)).forward(jax.numpy.ones((2, 64))).shape
        (2, 10)
    """
    if not isinstance(sizes, Sequence) or len(sizes) < 2:
        raise ValueError(f"sizes must hold an input and an output size at least. Received: sizes={sizes!r}")
    if not callable(activation):
        raise ValueError(f"activation must make a layer, as the class ReLU does. Received: activation={activation!r}")
    pairs = list(itertools.pairwise(sizes))
    layers: list[Layer] = []
    for (n_in, n_out), layer_key in zip(pairs, jax.random.split(as_key(key), len(pairs)), strict=True):
        layers += [Dense(n_in, n_out, layer_key), activation()]
    return Sequential(layers[:-1])
