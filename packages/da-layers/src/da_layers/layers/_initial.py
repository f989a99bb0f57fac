"""How weights start."""

import math

import jax

from .._variable import Param, Seed, as_key


def he_normal(key: Seed, shape: tuple[int, ...], n_in: int) -> Param:
    """A weight drawn from normal(0, 1) * sqrt(2 / n_in), where n_in inputs add up to an output."""
    return normal(key, shape, math.sqrt(2 / n_in))


def normal(key: Seed, shape: tuple[int, ...], deviation: float) -> Param:
    """A weight drawn from the normal distribution of that standard deviation, around 0."""
    # Drawn flat: the same numbers, but XLA compiles a draw of four axes twenty times as long.
    return Param(jax.random.normal(as_key(key), (math.prod(shape),)).reshape(shape) * deviation)
