"""What JAX says of a step that it cannot trace, in the user's words."""

import linecache
import sys
import traceback
from pathlib import Path

import jax
from da_layers import name_place

from ._frames import LIBRARY, MACHINERY, package_of

# The narrower error first.
_ADVICE: tuple[tuple[type[Exception], str, str], ...] = (
    (
        jax.errors.TracerBoolConversionError,
        "`if`, `while`, `and` or bool() on an array",
        "jnp.where(condition, a, b) or jax.lax.cond instead of `if`",
    ),
    (
        jax.errors.TracerArrayConversionError,
        "an array handed to NumPy",
        "jnp instead of numpy, or jax.pure_callback around what only NumPy has",
    ),
    (
        jax.errors.TracerIntegerConversionError,
        "an array in the place of a Python int, as an index of a list or a size",
        "jnp.take or lax.dynamic_slice instead of an index; a size must come from a shape or an attribute",
    ),
    (
        jax.errors.NonConcreteBooleanIndexError,
        "an array indexed by a mask, whose result has no shape yet",
        "jnp.where(mask, x, 0) instead of x[mask]",
    ),
    (
        jax.errors.UnexpectedTracerError,
        "a value left over from another trace",
        "a Variable (Buffer, Key, Param) for what is carried from one step into the next",
    ),
    (
        jax.errors.ConcretizationTypeError,
        "float(), int() or .item() of an array",
        "arithmetic on the array itself instead of float(), int() and .item()",
    ),
)
TRACING_ERRORS = tuple(error for error, _, _ in _ADVICE)


class RefusedStepError(ValueError):
    """A step that cannot be compiled; the same training works in the loop."""


def compile_error(error: Exception) -> RefusedStepError:
    """The error to raise in the place of one of `TRACING_ERRORS`: the layer, the source line, what to write instead."""
    what, instead = next((what, instead) for kind, what, instead in _ADVICE if isinstance(error, kind))
    place = getattr(error, "da_place", "the step")
    found = RefusedStepError(
        f"{place} must not look at the numbers of an array where the step is compiled: there they are not known "
        f"while Python runs. Write {instead}; or train with compile=False. Received: {what}{_source(error)}"
    )
    name_place(found, place)
    return found


def _source(error: Exception) -> str:
    """The innermost line of the traceback that is the user's; where none is, the library's."""
    frames = list(traceback.walk_tb(error.__traceback__))
    users = [place for place in frames if package_of(place[0]) not in LIBRARY | sys.stdlib_module_names]
    layers = [place for place in frames if package_of(place[0]) not in MACHINERY]
    frame, number = (users or layers or frames)[-1]
    file = frame.f_code.co_filename
    return f", in {Path(file).name}:{number}: {linecache.getline(file, number).strip()}"
