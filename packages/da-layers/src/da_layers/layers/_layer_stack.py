"""LayerStack: equal layers one after another, as one loop where the step is compiled."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax

from .._calls import running
from .._constants import MOVES, Same, constant_form
from .._layer import Layer
from .._stacked import StackedParam, StackedVariable
from .._variable import Buffer, Key, Param, Variable
from .._walk import KEPT, children, is_part, walk


class LayerStack(Layer):
    """Equal layers one after another, which compile as one loop: a deep model compiles nearly as fast as a shallow one.

    y = f_n(... f_2(f_1(x))), the layers differing in their numbers alone

    In the loop, and wherever `stacked` gives nothing, each layer runs by itself; the bits are the same. To run as one
    loop, a layer must hand what its backward needs to `keep`, and must not change plain attributes.

    Args:
        layers: the layers, all alike: the same classes, the same Variables by path, shape, dtype and role, none
            of them shared, and the same numbers, texts and NumPy arrays in their attributes. Each keeps the shape and
            dtype of its input. Where other objects in their attributes are not the very same (functions, JAX arrays),
            where layers have become unlike later, or where one is used beside the stack too, each runs by itself.

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
        first, *others = (_form(layer) for layer in self.layers)
        for index, form in enumerate(others):
            unlike = sorted(path for path in first.keys() | form.keys() if _differ(first.get(path), form.get(path)))
            self.require(not unlike, f"layers[{index + 1}] must be like layers[0]", unlike=unlike)
        held = [id(variable) for layer in self.layers for variable in _variables(layer).values()]
        shared = len(held) - len(set(held))
        self.require(not shared, "layers must share no Variable", shared=shared)

    def stacked(self, path: str) -> list[StackedVariable]:
        """The Variables of all layers, each path's as one; none where the layers are not alike now, or some are frozen.

        Args:
            path: this stack's.
        """
        first_form = list(_form(self.layers[0]).items())
        if any(list(_form(layer).items()) != first_form for layer in self.layers[1:]):
            return []
        of_each: list[dict[str, Any]] = [_variables(layer) for layer in self.layers]
        found: list[StackedVariable] = []
        for place, first in of_each[0].items():
            members = [variables[place] for variables in of_each]
            # A Param of another class may have an update of its own.
            if type(first) not in _KINDS or len({getattr(member, "trainable", None) for member in members}) > 1:
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
        layer = self.layers[0]
        static: list[Any] = []

        def body(x: Any, values: dict[str, jax.Array]) -> tuple[Any, Any]:
            with _borrowed(layer, values) as variables:
                y = layer.forward(x, training)
                kept, rest = _take_kept(layer)
                static[:] = [rest]
                return y, (kept, _moved(variables, values))

        x, (kept, moved) = running.scan(body, x, {name: each.value for name, each in stacked.items()}, False)
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
        layer = self.layers[0]
        params = {name: each for name, each in stacked.items() if isinstance(each, StackedParam)}

        def body(g: Any, taken: Any) -> tuple[Any, Any]:
            values, before, kept = taken
            with _borrowed(layer, values) as variables:
                for name, gradient in before.items():
                    variables[name]._grad = gradient
                _give_kept(layer, kept, static)
                gx = layer.backward(g)
                after = {name: variables[name]._grad for name in params if variables[name]._grad is not None}
                return gx, (after, _moved(variables, values))

        # Each layer goes on adding to the gradient that it has, in the order of single layers.
        before = {name: each._grad for name, each in params.items() if each._grad is not None}
        taken = {name: each.value for name, each in stacked.items()}, before, kept
        g, (gradients, moved) = running.scan(body, g, taken, True)
        for name, gradient in gradients.items():
            params[name].set_grad(gradient)
        for name, value in moved.items():
            stacked[name].value = value
        return g

    def _in_trace(self) -> dict[str, StackedVariable]:
        """The stacked Variables of this stack that the traced step holds, by name; none elsewhere."""
        if running.scan is None:
            return {}
        return {each.place: each for each in running.stacked.get(id(self), ())}


def _variables(layer: Layer) -> dict[str, Any]:
    return {path: part for path, part in walk(layer) if isinstance(part, Variable)}


_KINDS = (Param, Buffer, Key)


def _form(layer: Layer) -> dict[str, Any]:
    """All but the numbers of a layer's Variables, by path."""
    form: dict[str, Any] = {}
    seen: dict[int, str] = {}

    def visit(path: str, part: Any) -> None:
        if not is_part(part):
            form[path] = constant_form(part)
        elif id(part) in seen and not isinstance(part, tuple):
            form[path] = "the same object as", seen[id(part)]
        else:
            seen[id(part)] = path
            form[path] = (type(part),)
            if isinstance(part, dict):
                form[path] += tuple(map(constant_form, part))
            if isinstance(part, Variable):
                own = {name: value for name, value in vars(part).items() if name not in (*MOVES, "trainable")}
                form[path] += part.value.shape, part.value.dtype, *((n, constant_form(v)) for n, v in own.items())
            for name, child in children(part):
                visit(f"{path}.{name}" if path else name, child)

    visit("", layer)
    return form


def _differ(one: Any, other: Any) -> bool:
    """Whether two entries of a form differ in more than which object it is."""
    return one != other and not (one and other and isinstance(one[0], Same) and isinstance(other[0], Same))


@contextmanager
def _borrowed(layer: Layer, values: dict[str, jax.Array]) -> Iterator[dict[str, Any]]:
    """The Variables of the layer, which holds `values` and has kept nothing.

    It ends without values, and with what it had kept outside the loop.
    """
    variables, parts = _variables(layer), layer.layers_by_path().values()
    outside = [{name: vars(part).pop(name) for name in KEPT if name in vars(part)} for part in parts]
    for name, variable in variables.items():
        variable._value = values[name]
    try:
        yield variables
    finally:
        for variable in variables.values():
            del variable._value
            if isinstance(variable, Param):
                variable.zero_grad()
        for part, kept in zip(parts, outside, strict=True):
            part.forget()
            vars(part).update(kept)


def _moved(variables: dict[str, Any], values: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return {name: variable.value for name, variable in variables.items() if variable.value is not values[name]}


def _take_kept(layer: Layer) -> tuple[list[jax.Array], Any]:
    """Takes all that the layer and its parts have kept: the arrays, and how they are put back."""
    entries = {path: list(vars(part).get("_kept", ())) for path, part in walk(layer) if isinstance(part, Layer)}
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
