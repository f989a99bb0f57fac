"""What objects look like before a trace: to put it back afterwards, and to see what the trace changed."""

import dataclasses
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from da_layers import Layer, Variable, children, has_attributes, walk

PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True)
class Change:
    """An attribute or entry of `owner` that the trace changed; "" stands for the whole of a NumPy array or set.

    Attributes:
        path: path of the attribute or entry.
        holder: path and object of the innermost layer (or root) that holds it.
        owner: what has the attribute or entry.
        name: its name in the owner.
    """

    path: str
    holder: tuple[str, Any]
    owner: Any
    name: str


@dataclass(frozen=True)
class _Entry:
    path: str
    holder: tuple[str, Any]
    owner: Any
    before: Any

    def place(self, name: str) -> Change:
        return Change(".".join(part for part in (self.path, name) if part), self.holder, self.owner, name)


class Snapshot:
    """The attributes and entries of everything under the roots, as they were when it was taken.

    Args:
        roots: objects by the name that their paths start with.
    """

    def __init__(self, roots: dict[str, Any]) -> None:
        self._entries = [entry for prefix, root in roots.items() for entry in _entries(prefix, root)]

    def changes(self) -> list[Change]:
        """What is new, different or gone now in the objects of the snapshot; Variables are not looked at."""
        found = []
        for entry in self._entries:
            owner, before = entry.owner, entry.before
            if isinstance(owner, np.ndarray):
                names = [""] if owner.tobytes() != before.tobytes() else []
            elif isinstance(owner, set):
                names = [""] if owner != before else []
            elif isinstance(owner, Variable):
                names = []
            else:
                was, now = _named(before), dict(children(owner))
                names = [name for name in now if name not in was or not _same(was[name], now[name])]
                names += [name for name in was if name not in now]
            found += [entry.place(name) for name in names]
        return found

    def places(self, paths: Collection[str]) -> list[Change]:
        """The attributes and entries that are at `paths` now."""
        here = (entry.place(name) for entry in self._entries for name, _ in children(entry.owner))
        return [place for place in here if place.path in paths]

    def restore(self) -> None:
        """Puts every attribute and entry back."""
        for entry in self._entries:
            owner, before = entry.owner, entry.before
            if isinstance(owner, np.ndarray):
                if owner.tobytes() != before.tobytes():
                    owner[...] = before
            elif isinstance(owner, (dict, set)):
                owner.clear()
                owner.update(before)
            elif isinstance(owner, (list, deque)):
                owner.clear()
                owner.extend(before)
            elif hasattr(owner, "__dict__"):
                vars(owner).clear()
                vars(owner).update(before)
            else:
                for name in dict(children(owner)).keys() - before.keys():
                    object.__delattr__(owner, name)
                for name, value in before.items():
                    object.__setattr__(owner, name, value)


def _entries(prefix: str, root: Any) -> Iterator[_Entry]:
    holders = {prefix: (prefix, root)}
    for path, owner in walk(root, prefix):
        if isinstance(owner, Layer):
            holders[path] = (path, owner)
        if _has_contents(owner):
            above = path
            while above not in holders:
                above = above.rpartition(".")[0]
            yield _Entry(path, holders[above], owner, _contents(owner))


def _has_contents(owner: Any) -> bool:
    if isinstance(owner, (dict, list, deque, set, np.ndarray, Variable)) or has_attributes(owner):
        return True
    return dataclasses.is_dataclass(owner) and not isinstance(owner, type)


def _contents(owner: Any) -> Any:
    if isinstance(owner, np.ndarray):
        return owner.copy()
    if isinstance(owner, (dict, set)):
        return type(owner)(owner) if type(owner) is set else dict(owner)
    if isinstance(owner, (list, deque)):
        return list(owner)
    return dict(vars(owner) if hasattr(owner, "__dict__") else children(owner))


def _named(contents: Any) -> dict[str, Any]:
    """Contents by the names that `children` gives."""
    if isinstance(contents, list):
        return dict(children(contents))
    return {str(name): child for name, child in contents.items()}


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, PLAIN) and type(a) is type(b) and a == b)
