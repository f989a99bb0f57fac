"""What objects look like before a trace: to put it back afterwards, and to see what the trace changed."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from da_layers import Layer, Variable, children, has_attributes, walk

PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True)
class Change:
    """An attribute or entry that the trace changed: `name` in `owner`, which sits at `path`."""

    path: str
    owner: Any
    name: str


class Snapshot:
    """The attributes and entries of everything under the roots, as they were when it was taken.

    Args:
        roots: objects by the name that their paths start with.
    """

    def __init__(self, roots: dict[str, Any]) -> None:
        self._roots = roots
        self._contents = [
            (path, owner, _contents(owner))
            for prefix, root in roots.items()
            for path, owner in walk(root, prefix)
            if _has_contents(owner)
        ]

    def changes(self) -> list[Change]:
        """What is new or different now in the objects of the snapshot; Variables are not looked at."""
        found = []
        for path, owner, before in self._contents:
            if isinstance(owner, Variable):
                continue
            if isinstance(owner, np.ndarray):
                if not np.array_equal(owner, before):
                    found.append(Change(path, owner, ""))
                continue
            now = dict(children(owner))
            was = dict(_named(before))
            for name in now:
                if name not in was or not _same(was[name], now[name]):
                    found.append(Change(path, owner, name))
        return found

    def restore(self) -> None:
        """Puts every attribute and entry back."""
        for _, owner, before in self._contents:
            if isinstance(owner, np.ndarray):
                if owner.flags.writeable:
                    owner[...] = before
            elif isinstance(owner, dict):
                owner.clear()
                owner.update(before)
            elif isinstance(owner, (list, deque)):
                owner.clear()
                owner.extend(before)
            else:
                vars(owner).clear()
                vars(owner).update(before)

    def owner_of(self, path: str) -> tuple[str, Any]:
        """The path and object of the innermost layer (or root) that holds `path`."""
        holders = [(prefix, root) for prefix, root in self._roots.items() if path.startswith(prefix)]
        holders += [(p, o) for p, o, _ in self._contents if isinstance(o, Layer) and f"{path}.".startswith(f"{p}.")]
        return max(holders, key=lambda holder: len(holder[0]))


def _has_contents(owner: Any) -> bool:
    return isinstance(owner, (dict, list, deque, np.ndarray, Variable)) or has_attributes(owner)


def _contents(owner: Any) -> Any:
    if isinstance(owner, np.ndarray):
        return owner.copy()
    if isinstance(owner, dict):
        return dict(owner)
    if isinstance(owner, (list, deque)):
        return list(owner)
    return dict(vars(owner))


def _named(contents: Any) -> Any:
    return (
        ((str(name), child) for name, child in contents.items()) if isinstance(contents, dict) else children(contents)
    )


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, PLAIN) and type(a) is type(b) and a == b)
