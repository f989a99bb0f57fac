"""What objects look like before a trace: to put it back afterwards, and to see what the trace changed."""

import random
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from da_layers import PLAIN, Layer, Variable, children, has_attributes, has_slots, walk


@dataclass(frozen=True)
class Change:
    """An attribute or entry that the trace changed.

    Attributes:
        path: where it is.
        holder: path and object of the innermost layer (or root) that holds it.
        owner: what has the attribute or entry.
        name: its name in the owner; "" for the whole of a NumPy array or set.
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
    contents: Any
    named: dict[str, Any]

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
        return [
            entry.place(name)
            for entry in self._entries
            if not isinstance(entry.owner, Variable)
            for name in _changed_names(entry)
        ]

    def places(self, paths: Collection[str]) -> list[Change]:
        """The attributes and entries at `paths`; of attributes also those that are not there yet."""
        found = []
        for entry in self._entries:
            names = [name for name, _ in children(entry.owner)]
            if has_attributes(entry.owner):
                below = (path.removeprefix(f"{entry.path}.") for path in paths)
                names += [name for name in below if name.isidentifier() and name not in names]
            found += [place for place in map(entry.place, names) if place.path in paths]
        return found

    def restore(self) -> None:
        """Puts every attribute and entry back."""
        for entry in self._entries:
            owner, contents = entry.owner, entry.contents
            if isinstance(owner, np.random.Generator):
                owner.bit_generator.state = contents
            elif isinstance(owner, np.random.RandomState):
                owner.set_state(contents)
            elif isinstance(owner, random.Random):
                owner.setstate(contents)
            elif isinstance(owner, np.ndarray):
                if owner.tobytes() != contents.tobytes():
                    owner[...] = contents
            elif isinstance(owner, (dict, set)):
                owner.clear()
                owner.update(contents)
            elif isinstance(owner, (list, deque)):
                owner.clear()
                owner.extend(contents)
            elif not has_slots(owner):
                vars(owner).clear()
                vars(owner).update(contents)
            else:
                for name in dict(children(owner)).keys() - contents.keys():
                    object.__delattr__(owner, name)
                for name, value in contents.items():
                    object.__setattr__(owner, name, value)


def _entries(prefix: str, root: Any) -> Iterator[_Entry]:
    holders = {prefix: (prefix, root)}
    for path, owner in walk(root, prefix):
        if isinstance(owner, Layer):
            holders[path] = (path, owner)
        contents = _contents(owner)
        if contents is not None:
            above = path
            while above not in holders:
                above = above.rpartition(".")[0]
            yield _Entry(path, holders[above], owner, contents, dict(children(owner)))


def _contents(owner: Any) -> Any:
    """A copy of what `owner` holds; None where it is no container."""
    if isinstance(owner, np.random.Generator):
        return owner.bit_generator.state
    if isinstance(owner, np.random.RandomState):
        return owner.get_state()
    if isinstance(owner, random.Random):
        return owner.getstate()
    if isinstance(owner, np.ndarray):
        return owner.copy()
    if isinstance(owner, dict):
        return dict(owner)
    if isinstance(owner, set):
        return set(owner)
    if isinstance(owner, (list, deque)):
        return list(owner)
    if has_slots(owner):
        return dict(children(owner))
    if isinstance(owner, Variable) or has_attributes(owner):
        return dict(vars(owner))
    return None


def _changed_names(entry: _Entry) -> list[str]:
    owner, was = entry.owner, entry.named
    if isinstance(owner, np.ndarray):
        return [""] if owner.tobytes() != entry.contents.tobytes() else []
    if isinstance(owner, set):
        return [""] if owner != entry.contents else []
    now = dict(children(owner))
    gone = [name for name in was if name not in now]
    return [name for name in now if name not in was or not _same(was[name], now[name])] + gone


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, PLAIN) and type(a) is type(b) and a == b)
