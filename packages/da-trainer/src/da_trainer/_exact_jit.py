"""exact_jit: a compiled function with eager's bits."""

from collections.abc import Callable, Sequence

import jax

from ._fence import fence


def exact_jit[**P, R](function: Callable[P, R], *, donate_argnums: int | Sequence[int] = ()) -> Callable[P, R]:
    """Compiles `function` with `jax.jit` so that its results have the bits of the uncompiled call.

    Not kept on the CPU: convolutions inside loops, and jitted functions that close over an array computed around them,
    which eager compiles into them as a constant.

    Args:
        function: a function of pytrees of arrays that `jax.jit` can trace.
        donate_argnums: as for `jax.jit`: arguments whose memory the results may take.

    Returns:
        The compiled function.

    Raises:
        ValueError: `function` cannot be called.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_trainer import bits_equal, exact_jit
        >>> f = lambda x: (x * 0.1 + x / 3).mean()
        >>> x = jnp.arange(1000.0)
        >>> bool(bits_equal(f(x), exact_jit(f)(x)))
        True
    """
    if not callable(function):
        raise ValueError(f"function must be callable. Received: function={function!r}")
    return jax.jit(fence(function), donate_argnums=donate_argnums)
