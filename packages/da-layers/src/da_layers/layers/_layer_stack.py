"""LayerStack: equal layers one after another, as one loop where the step is compiled."""

from collections.abc import Sequence
from typing import Any

import jax

from .._calls import running
from .._layer import Layer
from .._stacked import StackedParam, StackedVariable
from .._variable import Param, Variable
from .._walk import walk


class LayerStack(Layer):
    """Equal layers one after another, which compile as one loop: a deep model compiles nearly as fast as a shallow one.

    y = f_n(... f_2(f_1(x))), the layers differing in their numbers alone

    In the loop, and wherever `stacked` gives nothing, each layer runs by itself; the bits are the same. In a compiled
    step a layer must hand what its backward needs to `keep`, and must not change plain attributes.

    Args:
        layers: the layers, all alike: the same classes, the same Variables by path, shape, dtype and role, none
            of them shared, and the same numbers and texts in their attributes. Each keeps the shape and dtype of its
            input.

    Raises:
        ValueError: there is no layer, or one is unlike the first.

    Example:
        >>> import jax
        >>> from da_layers import Dense, LayerStack, ReLU, Residual, Sequential
        >>> keys = jax.random.split(jax.random.key(0), 3)
        >>> stack = LayerStack([Residual(Sequential(Dense(4, 4, key), ReLU())) for key in keys])
        >>> stack.forward(jax.numpy.ones((2, 4))).shape
        (2, 4)
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = list(layers)
        self.require(len(self.layers) >= 1, "layers must hold one at least", layers=self.layers)
        first = _form(self.layers[0])
        for index, layer in enumerate(self.layers):
            form = _form(layer)
            unlike = sorted(path for path in first.keys() | form.keys() if first.get(path) != form.get(path))
            self.require(not unlike, f"layers[{index}] must be like layers[0]", unlike=unlike)
        held = [id(variable) for variable in self.held()]
        self.require(len(held) == len(set(held)), "layers must share no Variable", shared=len(held) - len(set(held)))

    def held(self) -> list[Variable]:
        """The Variables of all layers."""
        return [variable for layer in self.layers for variable in _variables(layer).values()]

    def stacked(self, path: str) -> list[StackedVariable]:
        """The Variables of all layers, each path's as one; none where some layers are frozen and others not.

        Args:
            path: this stack's.
        """
        of_each: list[dict[str, Any]] = [_variables(layer) for layer in self.layers]
        found: list[StackedVariable] = []
        for place, first in of_each[0].items():
            members = [variables[place] for variables in of_each]
            if len({getattr(member, "trainable", None) for member in members}) > 1:
                return []
            kind = StackedParam if isinstance(first, Param) else StackedVariable
            name = ".".join(part for part in (path, "layers.*", place) if part)
            found.append(kind(id(self), name, place, members))
        return found

    def forward(self, x: Any, training: bool = False) -> Any:
        """Passes x through the layers in order."""
        stacked = self._in_trace()
        if not stacked:
            for layer in self.layers:
                x = layer.forward(x, training)
            return x
        layer, variables = self.layers[0], _variables(self.layers[0])
        held = {name: variable.value for name, variable in variables.items()}
        static: list[Any] = []

        def body(x: Any, values: dict[str, jax.Array]) -> tuple[Any, Any]:
            _set(variables, values)
            y = layer.forward(x, training)
            kept, rest = _take_kept(layer)
            static[:] = [rest]
            moved = {name: variable.value for name, variable in variables.items() if variable.value is not values[name]}
            return y, (kept, moved)

        try:
            x, (kept, moved) = running.scan(body, x, {name: each.value for name, each in stacked.items()}, False)
        finally:
            _set(variables, held)
        for name, value in moved.items():
            stacked[name].value = value
        if training:
            self.keep(kept, *static)
        return x

    def backward(self, g: Any) -> Any:
        """Passes the gradient through the layers in reverse order."""
        stacked = self._in_trace()
        if not stacked:
            for layer in reversed(self.layers):
                g = layer.backward(g)
            return g
        kept, static = self.take()
        layer, variables = self.layers[0], _variables(self.layers[0])
        held = {name: variable.value for name, variable in variables.items()}
        params = {name: variable for name, variable in variables.items() if isinstance(variable, Param)}

        def body(g: Any, taken: Any) -> tuple[Any, Any]:
            values, kept = taken
            _set(variables, values)
            for param in params.values():
                param.zero_grad()
            _give_kept(layer, kept, static)
            gx = layer.backward(g)
            return gx, {name: param._grad for name, param in params.items() if param._grad is not None}

        try:
            taken = {name: each.value for name, each in stacked.items()}, kept
            g, gradients = running.scan(body, g, taken, True)
        finally:
            _set(variables, held)
            for param in params.values():
                param.zero_grad()
        for name, gradient in gradients.items():
            each = stacked[name]
            if isinstance(each, StackedParam):
                each._grad = gradient if each._grad is None else each._grad + gradient
        return g

    def _in_trace(self) -> dict[str, StackedVariable]:
        """The stacked Variables of this stack that the traced step holds, by name; none elsewhere."""
        if running.scan is None:
            return {}
        return {each.place: each for each in running.stacked.get(id(self), ())}


_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def _variables(layer: Layer) -> dict[str, Variable]:
    return {path: part for path, part in walk(layer) if isinstance(part, Variable)}


def _form(layer: Layer) -> dict[str, Any]:
    form: dict[str, Any] = {}
    for path, part in walk(layer):
        if isinstance(part, Variable):
            role = part.role if isinstance(part, Param) else None
            form[path] = type(part), part.value.shape, part.value.dtype, role
        else:
            form[path] = type(part), repr(part) if isinstance(part, _PLAIN) else None
    return form


def _set(variables: dict[str, Variable], values: dict[str, jax.Array]) -> None:
    for name, value in values.items():
        variables[name].value = value


def _take_kept(layer: Layer) -> tuple[list[jax.Array], Any]:
    """Takes all that the layer and its parts have kept: the arrays, and how they are put back."""
    entries = {path: list(vars(part).get("_kept", ())) for path, part in walk(layer) if isinstance(part, Layer)}
    for part in layer.layers_by_path().values():
        part.forget()
    leaves, structure = jax.tree.flatten(entries)
    arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
    rest = [None if isinstance(leaf, jax.Array) else leaf for leaf in leaves]
    return arrays, (structure, rest)


def _give_kept(layer: Layer, arrays: list[jax.Array], static: Any) -> None:
    structure, rest = static
    pending = iter(arrays)
    entries = jax.tree.unflatten(structure, [next(pending) if leaf is None else leaf for leaf in rest])
    for path, part in layer.layers_by_path().items():
        for entry in entries[path]:
            part.keep(*entry)
