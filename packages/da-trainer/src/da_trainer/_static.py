"""What a compiled step took from the objects as a constant, so that a change of it asks for a new trace."""

from collections.abc import Collection, Iterator
from typing import Any

from da_layers import PLAIN, children, constant_form, has_attributes

Form = dict[tuple[str, str], tuple[Any, ...]]


def static_form(roots: dict[str, Any], ignore: Collection[str]) -> Form:
    """Every attribute that is no Variable, by root and path, in a form that `first_difference` compares.

    Args:
        roots: objects by the name that paths start with.
        ignore: paths that do not count, nor what is below them.
    """
    form: Form = {}
    for prefix, root in roots.items():
        seen: dict[int, Any] = {}
        pending: list[tuple[str, Any]] = [(prefix, root)]
        while pending:
            path, part = pending.pop()
            if path in ignore:
                continue
            # Each place counts, of a shared object too; and two keys of a dict may have one path.
            form[prefix, path] = (*form.get((prefix, path), ()), constant_form(part))
            if id(part) not in seen:
                seen[id(part)] = part
                pending += [(f"{path}.{name}".lstrip("."), child) for name, child in _constants(part)]
    return form


def _constants(part: Any) -> Iterator[tuple[str, Any]]:
    """What `part` holds, and the numbers and texts of its class."""
    if has_attributes(part):
        for base in reversed(type(part).__mro__):
            for name, value in vars(base).items():
                if isinstance(value, PLAIN) and not name.startswith("__"):
                    yield name, value
    yield from children(part)


def first_difference(before: Form, now: Form) -> str | None:
    """The path of the first attribute that is not as it was, or None."""
    for place in [*before, *now]:
        if before.get(place) != now.get(place):
            return place[1]
    return None
