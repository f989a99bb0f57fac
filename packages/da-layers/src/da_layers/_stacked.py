"""The Variables of one path in equal layers, as one array with the layers along its first axis."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from ._calls import running
from ._variable import Param, Slots, UpdateRule, Variable

# (body, first carry, inputs along their first axis, backwards) -> (last carry, outputs), as `jax.lax.scan`.
Scan = Callable[[Callable[[Any, Any], tuple[Any, Any]], Any, Any, bool], tuple[Any, Any]]


@contextmanager
def scanning(scan: Scan, stacked: Mapping[int, Sequence["StackedVariable"]]) -> Iterator[None]:
    """Where a step is traced: stacks run as one loop, on the values that their stacked Variables are given.

    A layer's own Variables have no value there, so that none is taken as a constant.

    Args:
        scan: runs it.
        stacked: the Variables of each stack, by its id.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> from da_layers import Dense, LayerStack, scanning
        >>> stack, x = LayerStack([Dense(2, 2, 0), Dense(2, 2, 1)]), jnp.ones((1, 2))
        >>> stacked = stack.stacked("")
        >>> def scan(body, init, inputs, reverse):
        ...     return jax.lax.scan(body, init, inputs, reverse=reverse)
        >>> def forward(x, values):
        ...     with scanning(scan, {id(stack): stacked}):
        ...         for variable, value in zip(stacked, values):
        ...             variable.value = value
        ...         return stack.forward(x)
        >>> y = jax.jit(forward)(x, [variable.value for variable in stacked])
        >>> bool(jnp.allclose(y, stack.forward(x)))
        True
    """
    before = running.scan, running.stacked
    variables = [variable for of_stack in stacked.values() for variable in of_stack]
    values = {member: member.value for variable in variables for member in variable.members}
    try:
        running.scan, running.stacked = scan, stacked
        for member in values:
            del member._value
        yield
    finally:
        running.scan, running.stacked = before
        for member, value in values.items():
            member._value = value
        for variable in variables:
            variable.let_go()


class StackedVariable(Variable):
    """Stands for a Variable of each of the equal layers.

    Outside a trace its value is that of the layers, and setting it sets theirs. In a trace it holds what it is given.

    Args:
        stack: id of the stack.
        path: its name, with * for the layer's number.
        place: its name in each layer.
        members: the layers' Variables.

    Example:
        >>> from da_layers import Dense, LayerStack
        >>> weight, bias = LayerStack([Dense(2, 3, 0), Dense(2, 3, 1)]).stacked("")
        >>> weight.name, weight.value.shape, bias.value.shape
        ('layers.*.weight', (2, 2, 3), (2, 3))
    """

    def __init__(self, stack: int, path: str, place: str, members: Sequence[Any]) -> None:
        self.stack, self.name, self.place, self.members = stack, path, place, list(members)
        self._traced: jax.Array | None = None

    @property
    def value(self) -> jax.Array:
        """(layers, ...), the values."""
        return _joined([member.value for member in self.members]) if self._traced is None else self._traced

    @value.setter
    def value(self, new: Any) -> None:
        self._traced = new if isinstance(new, jax.core.Tracer) else None
        if self._traced is None:
            for member, value in zip(self.members, _parted(new), strict=True):
                member.value = value

    def let_go(self) -> None:
        """Forgets what it was given in a trace."""
        self._traced = None


class StackedParam(StackedVariable, Param):
    """Stands for a Param of each of the equal layers, with its gradient and slots."""

    def __init__(self, stack: int, path: str, place: str, members: Sequence[Any]) -> None:
        super().__init__(stack, path, place, members)
        self.role, self.trainable, self._grad = members[0].role, members[0].trainable, None
        self._traced_slots: Slots | None = None

    def slots(self, optimizer: UpdateRule) -> Slots:
        """The layers' slots, each stacked."""
        if self._traced_slots is not None:
            return self._traced_slots
        of_each = [member.slots(optimizer) for member in self.members]
        return {name: _joined([slots[name] for slots in of_each]) for name in of_each[0]}

    def set_slots(self, optimizer: UpdateRule, slots: Slots) -> None:
        """Sets the layers' slots; in a trace it holds them."""
        self._traced_slots = None if self._traced is None else slots
        if self._traced is None:
            parted = {name: _parted(slot) for name, slot in slots.items()}
            for index, member in enumerate(self.members):
                member.set_slots(optimizer, {name: slot[index] for name, slot in parted.items()})

    def let_go(self) -> None:
        """Forgets what it was given in a trace, and the gradient."""
        super().let_go()
        self._traced_slots = self._grad = None

    def over_layers(self, function: Callable[[jax.Array], Any], array: jax.Array) -> Any:
        """(layers, ...), what `function` gives for each layer's part of an array, in a loop."""
        _, results = running.scan(lambda carry, part: (carry, function(part)), (), array, False)
        return results

    def update(self, optimizer: UpdateRule, lr: Any = None) -> None:
        """One step of `optimizer` on each layer's Param, in a loop: the operations of single layers."""
        if not self.trainable:
            return
        rate = optimizer.lr if lr is None else lr

        def body(carry: Any, taken: tuple[jax.Array, jax.Array, Slots]) -> tuple[Any, tuple[jax.Array, Slots]]:
            value, gradient, slots = taken
            one = Param(value, self.role)
            one.name = self.name
            one.set_slots(optimizer, slots)
            one.set_grad(gradient)
            one.update(optimizer, rate)
            return carry, (one.value, one.slots(optimizer))

        _, (value, slots) = running.scan(body, (), (self.value, self.grad, self.slots(optimizer)), False)
        self.value = value
        self.set_slots(optimizer, slots)


@jax.jit
def _joined(arrays: list[jax.Array]) -> jax.Array:
    return jnp.stack(arrays)


@jax.jit
def _parted(array: jax.Array) -> list[jax.Array]:
    return list(array)
