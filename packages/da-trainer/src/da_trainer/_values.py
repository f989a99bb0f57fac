"""The boundary between objects and arrays: the one place that reads a model's values, and the one that writes them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from da_layers import Layer, LayerStack, Loss, Param, StackedVariable, Variable, walk

from ._groups import ALL_OTHERS, Group, Groups, group_of


class Values(NamedTuple):
    """Everything that a step may change, by the path of the Variable: its value, and the optimiser's slots for it."""

    variables: dict[str, jax.Array]
    slots: dict[str, dict[str, jax.Array]]


@dataclass(frozen=True)
class Parts:
    """The objects of a training, and their Variables by path: the model's, and under "loss" the loss's own.

    Attributes:
        groups: Params with rates of their own, by path.
        stacks: of those, the ones that stand for a Variable in each layer of a stack, by the stack's id.
        scalars: the groups' numbers on the device, made before a step is traced.
    """

    model: Layer
    loss: Loss
    optimizer: Any
    variables: dict[str, Variable]
    groups: Groups = ()
    stacks: Mapping[int, Sequence[StackedVariable]] = field(default_factory=dict)
    scalars: Mapping[float, jax.Array] = field(default_factory=dict)
    # By Variable, as a forward may name it by another path, and copies are of other Variables.
    _own: Mapping[Variable, Group] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Layer, loss: Loss, optimizer: Any) -> "Parts":
        """Finds the Variables of the model and the loss as they are now."""
        variables = model.variables()
        own = {path: part for path, part in walk(loss, "loss") if isinstance(part, Variable)}
        known = {id(variable) for variable in variables.values()}
        for path, variable in own.items():
            if id(variable) not in known:
                loss.require(path not in variables, "no Variable may have the path of one of the model's", path=path)
                variables[path] = variable
                variable.name = path
        return cls(model, loss, optimizer, variables)

    def grouped(self, groups: Groups) -> "Parts":
        """The same objects, with groups."""
        own = {variable: group_of(groups, path) for path, variable in self.variables.items()}
        numbers = {number for group in groups for number in (group.lr_scale, group.weight_decay) if number is not None}
        return replace(self, groups=groups, scalars={number: scalar(number) for number in numbers}, _own=own)

    @property
    def trained(self) -> dict[str, Param]:
        """The Params that are not frozen, by path."""
        return {
            path: variable
            for path, variable in self.variables.items()
            if isinstance(variable, Param) and variable.trainable
        }

    def group(self, path: str) -> Group:
        """The group of a Param."""
        variable = self.variables[path]
        # What stands for several, stands for such as have one group.
        return self._own.get(variable.members[0] if isinstance(variable, StackedVariable) else variable, ALL_OTHERS)

    def over_params(self, function: Callable[[jax.Array], jax.Array]) -> jax.Array:
        """(Params that are trained,), a number for each one's gradient, in the order that they have without stacks."""
        numbers: list[jax.Array] = []
        for stack, group in groupby(self.trained.values(), key=lambda param: getattr(param, "stack", None)):
            if stack is None:
                numbers.append(jnp.stack([function(param.grad) for param in group]))
            else:
                # Layer by layer: all Params of the first, then all of the second.
                of_each = [param.over_layers(function, param.grad) for param in group]  # type: ignore[attr-defined]
                numbers.append(jnp.stack(of_each, axis=1).ravel())
        return numbers[0] if len(numbers) == 1 else jnp.concatenate([jnp.zeros(0, jnp.float32), *numbers])

    def zero_grads(self) -> None:
        """Forgets the gradients of all Params, of those that are frozen too."""
        for variable in self.variables.values():
            if isinstance(variable, Param):
                variable.zero_grad()

    @cached_property
    def stacked(self) -> "Parts":
        """The same objects, the Variables of each `LayerStack` as one for all of its layers."""
        if self.stacks:
            return self
        stacks: dict[int, list[StackedVariable]] = {}
        places: dict[int, StackedVariable | None] = {}
        order = [id(variable) for variable in self.variables.values()]
        for path, layer in self.model.layers_by_path().items():
            if not isinstance(layer, LayerStack):
                continue
            found = layer.stacked(path)
            if any(len({self._own.get(member) for member in one.members}) > 1 for one in found):
                continue
            # All of the first layer, then all of the second: where one is in another place too, they stay single.
            held = [id(member) for members in zip(*(one.members for one in found), strict=True) for member in members]
            start = order.index(held[0]) if held and held[0] in order else 0
            if held and order[start : start + len(held)] == held and places.keys().isdisjoint(held):
                stacks[id(layer)] = found
                places |= dict.fromkeys(held) | {id(one.members[0]): one for one in found}
        # Each takes the place of its first member.
        stood_for = [(path, places.get(id(variable), variable)) for path, variable in self.variables.items()]
        variables = {
            str(variable.name) if isinstance(variable, StackedVariable) else path: variable
            for path, variable in stood_for
            if variable is not None
        }
        return replace(self, variables=variables, stacks=stacks) if stacks else self

    @property
    def roots(self) -> dict[str, Any]:
        """The objects by the name that paths start with."""
        return {"": self.model, "loss": self.loss, "optimizer": self.optimizer}


def read_values(parts: Parts, slots: bool = True) -> Values:
    """The arrays that the objects hold now; makes an optimiser's slots where there are none yet.

    Args:
        parts: the objects.
        slots: False leaves the optimiser's slots out, as evaluation does not need them.
    """
    return Values(
        {path: variable.value for path, variable in parts.variables.items()},
        {path: dict(param.slots(parts.optimizer)) for path, param in parts.trained.items()} if slots else {},
    )


def write_values(parts: Parts, values: Values) -> None:
    """Puts `values` into the objects."""
    for path, value in values.variables.items():
        parts.variables[path].value = value
    for path, slots in values.slots.items():
        parameter = parts.variables[path]
        if isinstance(parameter, Param):
            parameter.set_slots(parts.optimizer, dict(slots))


@lru_cache(maxsize=64)
def scalar(value: float) -> jax.Array:
    """A strong-typed float32 scalar on the device; the last ones are kept, as most values come again each step."""
    return jax.device_put(np.float32(value))


@lru_cache(maxsize=4096)
def index_scalar(value: int) -> jax.Array:
    """An int32 scalar on the device; the last ones are kept, as indices come again each epoch."""
    return jax.device_put(np.int32(value))


def read_hyperparameters(optimizer: Any) -> dict[str, jax.Array]:
    """The optimiser's numbers (lr, momentum, ...) as float32 scalars: what a step takes as arguments."""
    return {name: scalar(float(value)) for name, value in vars(optimizer).items() if _is_hyperparameter(name, value)}


def _is_hyperparameter(name: str, value: Any) -> bool:
    # By type(): while a step is searched for hidden state, an attribute may hold what isinstance must not look at.
    kind = type(value)
    if issubclass(kind, (jax.Array, np.ndarray)):
        return value.ndim == 0 and jnp.issubdtype(value.dtype, jnp.floating)
    return issubclass(kind, (float, np.floating)) or (name == "lr" and issubclass(kind, int))


@contextmanager
def hyperparameters(optimizer: Any, arrays: dict[str, jax.Array]) -> Iterator[None]:
    """The optimiser with `arrays` in the place of its numbers: the same arithmetic in both executors.

    A number that a step sets itself stays as the step left it.
    """
    attributes = vars(optimizer)
    before = {name: attributes[name] for name in arrays if _is_hyperparameter(name, attributes[name])}
    attributes.update({name: arrays[name] for name in before})
    try:
        yield
    finally:
        attributes.update({name: value for name, value in before.items() if attributes.get(name) is arrays[name]})
