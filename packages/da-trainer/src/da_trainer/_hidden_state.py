"""Finds state that a layer or optimiser carries from one step into the next where the compiled step cannot see it.

Each step is traced twice, the second time on the objects as the first left them, which is how the loop's next step
would find them. What is only kept from forward to backward is written before it is read: such attributes are replaced
by a `_Sentinel` in between, and the second trace runs through. State of the step before is read first, and the
sentinel raises. State that no sentinel can stand for, such as the length of a list or a NumPy generator, makes the
second program another one.
"""

from collections.abc import Callable, Collection
from typing import Any, NoReturn

import numpy as np

from ._compile_error import RefusedStepError
from ._same_jaxpr import same_jaxpr
from ._snapshot import Change, Snapshot


def reject_hidden_state(trace: Callable[[], Any], jaxpr: Any, snapshot: Snapshot, written: Collection[str]) -> set[str]:
    """Traces the step again with unreadable attributes.

    Args:
        trace: traces the step.
        jaxpr: what it gave the first time.
        snapshot: the objects before the first trace.
        written: paths of attributes that other steps write.

    Returns:
        The paths of the attributes that the step writes before it reads them.

    Raises:
        RefusedStepError: an attribute is read before it is written, or the programs differ; names the layer's path
            and class, and the attribute.
    """
    changes = snapshot.changes()
    rejections = []
    for change in changes + snapshot.places(written):
        rejections.append(_rejection(change, "changed by a step and read by the next"))
        if isinstance(change.owner, np.ndarray):
            raise rejections[-1]
        _replace(change, _Sentinel(rejections[-1]), missing_too=change.path in written)
    try:
        same = same_jaxpr(trace(), jaxpr)
    except Exception as error:
        if any(error is rejection for rejection in rejections):
            raise
        raise _unseen(changes, getattr(error, "da_place", "")) from error
    if not same:
        raise _unseen(changes)
    return {change.path for change in changes}


_REQUIREMENT = (
    "must keep what it carries from one step into the next in a Variable: a da_layers.Buffer for arrays and counts, a "
    "da_layers.Key for random numbers; for an optimizer, a slot. The compiled step cannot carry a plain attribute"
)


def _rejection(change: Change, what: str) -> RefusedStepError:
    path, owner = change.holder
    where = f"{path} ({type(owner).__name__})" if path else type(owner).__name__
    attribute = change.path.removeprefix(path).lstrip(".")
    return RefusedStepError(f"{where} {_REQUIREMENT}. Received: {attribute}, {what}")


def _unseen(changes: list[Change], place: str = "") -> RefusedStepError:
    """For state that no sentinel met: the length of a list, dict or set that has changed, or what no attribute has."""
    for change in changes:
        if isinstance(change.owner, (list, dict, set)):
            return _rejection(change, "changed by a step, so that the next is another computation")
    changed = ", ".join(change.path for change in changes) or "no attribute"
    return RefusedStepError(
        f"Each layer {_REQUIREMENT}, and no iterator, clock or random generator of Python or NumPy. "
        f"Received: a step that is another computation each time it is traced{f', at {place}' if place else ''}, and "
        f"changes {changed}. Trainer.verify finds the layer"
    )


def _replace(change: Change, sentinel: "_Sentinel", missing_too: bool) -> None:
    owner, name = change.owner, change.name
    if isinstance(owner, dict):
        owner.update({key: sentinel for key in owner if str(key) == name})
    elif hasattr(owner, "append"):
        if int(name) < len(owner):
            owner[int(name)] = sentinel
    elif hasattr(owner, "__dict__"):
        if missing_too or name in vars(owner):
            vars(owner)[name] = sentinel
    elif hasattr(owner, name):
        object.__setattr__(owner, name, sentinel)


class _Sentinel:
    """Stands in for a value and raises `error` whatever is done with it."""

    def __init__(self, error: ValueError) -> None:
        object.__setattr__(self, "_error", error)

    def __getattr__(self, name: str) -> NoReturn:
        _use(self)

    # Asked by isinstance.
    __class__ = property(lambda self: _use(self))


def _use(self: _Sentinel, *_: Any) -> NoReturn:
    raise object.__getattribute__(self, "_error")


_ARITHMETIC = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor".split()
_OTHER = (
    "abs neg pos invert eq ne lt le gt ge hash bool int float complex index len iter next reversed contains getitem "
    "setitem delitem call enter exit array jax_array str format round trunc floor ceil setattr"
).split()
for _name in [f"{prefix}{name}" for name in _ARITHMETIC for prefix in ("", "r", "i")] + _OTHER:
    setattr(_Sentinel, f"__{_name}__", _use)
