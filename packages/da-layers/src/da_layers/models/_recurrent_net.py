"""recurrent_net."""

from typing import Literal

import jax

from .._variable import Seed, as_key
from ..layers._containers import Sequential
from ..layers._dense import Dense
from ..layers._recurrent import GRU, LSTM, RNN

_KINDS = {"rnn": RNN, "gru": GRU, "lstm": LSTM}


def recurrent_net(
    n_in: int,
    hidden: int,
    n_out: int,
    key: Seed,
    kind: Literal["rnn", "gru", "lstm"] = "lstm",
    layers: int = 1,
    bidirectional: bool = False,
) -> Sequential:
    """A recurrent network for series: a recurrent layer, and a Dense on its last output.

    Args:
        n_in: size of each vector of the input.
        hidden: size of the state.
        n_out: number of outputs.
        key: int or random key.
        kind: "rnn", "gru" or "lstm".
        layers: recurrent layers on top of each other.
        bidirectional: each reads the series from both ends.

    Returns:
        The model; it maps (batch, time, n_in) to (batch, n_out).

    Raises:
        ValueError: another kind, or as the layers inside raise.

    Example:
        >>> import jax
        >>> from da_layers import recurrent_net
        >>> recurrent_net(1, 16, 1, jax.random.key(0), "gru").forward(jax.numpy.ones((2, 12, 1))).shape
        (2, 1)
    """
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}. Received: kind={kind!r}")
    first, last = jax.random.split(as_key(key))
    recurrent = _KINDS[kind](n_in, hidden, first, layers, bidirectional, sequences=False)
    return Sequential(recurrent, Dense(hidden * (2 if bidirectional else 1), n_out, last))
