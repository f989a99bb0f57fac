"""Which lines of source are the user's own."""

from types import FrameType

# An operation is called from a line of the user's, or of a layer, loss or optimiser of the library.
MACHINERY = frozenset({"jax", "jaxlib", "da_trainer", "contextlib", "functools"})
LIBRARY = MACHINERY | {"da_layers", "da_optim", "numpy"}


def package_of(frame: FrameType) -> str:
    """The top-level package that a frame runs code of."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
