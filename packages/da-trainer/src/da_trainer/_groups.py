"""Groups: Params with a learning rate or a weight decay of their own."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from da_layers import Param

from ._numbers import is_number


class Group(NamedTuple):
    """What holds for the Params whose path matches a pattern.

    Attributes:
        pattern: as a shell has them, such as "layers.0.*" or "*.bias".
        lr_scale: multiplies the learning rate.
        weight_decay: in the place of the trainer's; None for the trainer's.
    """

    pattern: str
    lr_scale: float = 1.0
    weight_decay: float | None = None


Groups = tuple[Group, ...]
ALL_OTHERS = Group("*")


def group_of(groups: Groups, path: str) -> Group:
    """The first group whose pattern matches the path."""
    return next((group for group in groups if fnmatchcase(path, group.pattern)), ALL_OTHERS)


def check_groups(groups: Any, params: Mapping[str, Param]) -> Groups:
    """The groups that a user gives as {"pattern": {"lr_scale": 0.1, "weight_decay": 0}}.

    Raises:
        ValueError: a pattern matches no path that one before has not, what it stands for is no number of 0 or more, or
            none of its Params is one that decays.
    """
    found: list[Group] = []
    if not isinstance(groups, Mapping) or not all(isinstance(pattern, str) for pattern in groups):
        raise ValueError(f"groups must be a dict of settings by pattern. Received: groups={groups!r}")
    for pattern, settings in groups.items():
        fields = Group._fields[1:]
        if not isinstance(settings, Mapping) or not set(settings) <= set(fields):
            raise ValueError(
                f"groups must give {' or '.join(fields)}, or both. Received: groups[{pattern!r}]={settings!r}"
            )
        for name, number in settings.items():
            if not is_number(number):
                raise ValueError(
                    f"{name} must be a finite number of 0 or more. Received: groups[{pattern!r}]={settings!r}"
                )
        matched = {path: param for path, param in params.items() if fnmatchcase(path, pattern)}
        if not matched:
            raise ValueError(
                f"Each pattern in groups must match the path of a Param, such as {', '.join(list(params)[:3])}. "
                f"Received: groups[{pattern!r}]"
            )
        group = Group(pattern, **{name: float(number) for name, number in settings.items()})
        own = [param for path, param in matched.items() if group_of((*found, group), path) is group]
        if not own:
            raise ValueError(
                f"A pattern in groups must come before those that match all it matches. Received: groups[{pattern!r}] "
                f"after {', '.join(repr(before.pattern) for before in found)}"
            )
        if group.weight_decay and not any(param.role == "weight" for param in own):
            raise ValueError(
                f"weight_decay must be for Params of role 'weight', for others do not decay. "
                f"Received: groups[{pattern!r}]={settings!r}, which matches {', '.join(matched)}"
            )
        found.append(group)
    return tuple(found)
