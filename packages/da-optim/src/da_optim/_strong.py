"""The one way a hyper-parameter enters a compiled kernel."""

import jax
import numpy as np


def strong(number: float | jax.Array) -> np.float32 | jax.Array:
    """Give a hyper-parameter the type float32[], whatever its value, so that a new value compiles nothing.

    A Python float would enter the kernel as weakly typed and round differently from the array that a
    compiled training step passes. Arrays, and the tracers that stand for them, pass unchanged.
    """
    return number if isinstance(number, jax.Array) else np.float32(number)
