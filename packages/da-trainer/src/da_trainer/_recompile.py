"""What makes a step need another program, in the user's words."""

from typing import TYPE_CHECKING, Any

import jax

from ._step import Rates

if TYPE_CHECKING:
    from ._traces import Job

FIRST_USE = "first use"


class RecompileError(ValueError):
    """Training needs a further program, and may not have it."""


# Shape, dtype and placement of each array that a program takes, by the name the user knows it by.
ArgumentForms = dict[str, tuple[tuple[int, ...], Any, Any]]


def argument_forms(job: "Job") -> ArgumentForms:
    """The forms of what a program takes."""
    values, numbers, *taken = job.args
    named = [
        *zip(("X", "y", "sample_weight"), job.batch, strict=False),
        *(("", rate._asdict()) for rate in taken if isinstance(rate, Rates)),
        ("optimizer", numbers),
        ("", values.variables),
        ("slots", values.slots),
    ]
    forms: ArgumentForms = {f"training of {path}": ((), None, None) for path in values.slots}
    for root, tree in named:
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            name = f"{root}.{jax.tree_util.keystr(path, simple=True, separator='.')}".strip(".")
            forms[name] = leaf.shape, leaf.dtype, leaf.sharding
    return forms | {name: ((count,), None, None) for name, count in job.counts.items()}


def recompile_cause(known: list[ArgumentForms], now: ArgumentForms) -> str:
    """By what the arguments differ from the most similar that there is a program for: old and new size or dtype."""
    if not known:
        return FIRST_USE
    causes = min((_differences(before, now) for before in known), key=len)
    return "; ".join(causes) or "another setting of fit or the trainer, such as shuffle, decay or on_nonfinite"


def _differences(before: ArgumentForms, now: ArgumentForms) -> list[str]:
    found = []
    for name in dict.fromkeys([*before, *now]):
        if name not in before or name not in now:
            found.append(f"{name} is {'new' if name in now else 'gone'}")
        elif before[name] != now[name]:
            found.append(f"{name}{_difference(before[name], now[name])}")
    return found


def _difference(before: tuple[Any, ...], now: tuple[Any, ...]) -> str:
    (old_shape, old_dtype, old_place), (shape, dtype, place) = before, now
    if dtype != old_dtype:
        return f".dtype={dtype}, which was {old_dtype}"
    if len(shape) != len(old_shape):
        return f".shape={shape}, which was {old_shape}"
    for axis, (size, old_size) in enumerate(zip(shape, old_shape, strict=True)):
        if size != old_size:
            return f".shape[{axis}]={size}, which was {old_size}"
    return f" on {place}, which was on {old_place}"
