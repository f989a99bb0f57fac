"""Finds state that a layer or optimiser carries from one step into the next where the compiled step cannot see it.

A trace shows which attributes a step changes. What is only kept from forward to backward is written before it is
read, so a second trace with those attributes replaced by a `_Sentinel` runs through; state of the step before is read
first, and the sentinel raises.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ._snapshot import Change, Snapshot


def reject_hidden_state(trace: Callable[[], Any], snapshot: Snapshot, changes: list[Change]) -> None:
    """Runs `trace` with the changed attributes unreadable.

    Args:
        trace: traces one step.
        snapshot: the objects before the first trace; they are put back whatever happens.
        changes: what the first trace changed.

    Raises:
        ValueError: an attribute is read before it is written; names the layer's path and class, and the attribute.
    """
    try:
        for change in changes:
            if isinstance(change.owner, np.ndarray):
                _reject(snapshot, change)
            _replace(change, _Sentinel(partial(_reject, snapshot, change)))
        trace()
    finally:
        snapshot.restore()


def _reject(snapshot: Snapshot, change: Change) -> NoReturn:
    path, owner = snapshot.owner_of(change.path)
    where = f"{path} ({type(owner).__name__})" if path else type(owner).__name__
    attribute = ".".join(part for part in (change.path, change.name) if part)[len(path) :].lstrip(".")
    raise ValueError(
        f"{where} must keep what it carries from one step into the next in a Variable: a da_layers.Buffer for arrays "
        f"and counts, a da_layers.Key for random numbers; for an optimizer, a slot. The compiled step cannot carry a "
        f"plain attribute. Received: {attribute}, changed by a step and read by the next"
    )


def _replace(change: Change, sentinel: "_Sentinel") -> None:
    if isinstance(change.owner, dict):
        key = next(key for key in change.owner if str(key) == change.name)
        change.owner[key] = sentinel
    elif isinstance(change.owner, list) or hasattr(change.owner, "popleft"):
        change.owner[int(change.name)] = sentinel
    else:
        vars(change.owner)[change.name] = sentinel


class _Sentinel:
    """Stands in for a value and calls `on_use` whatever is done with it."""

    def __init__(self, on_use: Callable[[], NoReturn]) -> None:
        object.__setattr__(self, "_on_use", on_use)

    def __getattr__(self, name: str) -> NoReturn:
        _use(self)


def _use(self: _Sentinel, *_: Any) -> NoReturn:
    on_use: Callable[[], NoReturn] = object.__getattribute__(self, "_on_use")
    on_use()


_ARITHMETIC = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor".split()
_OTHER = (
    "abs neg pos invert eq ne lt le gt ge hash bool int float complex index len iter next reversed contains getitem "
    "setitem delitem call enter exit array jax_array str format round trunc floor ceil setattr"
).split()
for _name in [f"{prefix}{name}" for name in _ARITHMETIC for prefix in ("", "r", "i")] + _OTHER:
    setattr(_Sentinel, f"__{_name}__", _use)
