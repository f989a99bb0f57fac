"""The layer contract."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ._calls import Keeps
from ._variable import Param, Variable
from ._walk import walk


class Layer(Keeps):
    """An object with `forward` and `backward`.

    A subclass writes both. Variables and sub-layers are attributes, or sit in lists, tuples and dicts, under any
    name. What `forward(x, training=True)` needs later it hands to `self.keep(...)`; `backward` gets it back from
    `self.take()`, adds to the gradient of each Param with `add_grad`, and returns the gradient of its input.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import Layer, Param
        >>> class Scale(Layer):
        ...     def __init__(self, n):
        ...         self.factor = Param(jnp.ones(n), role="scale")
        ...     def forward(self, x, training=False):
        ...         if training:
        ...             self.keep(x)
        ...         return x * self.factor.value
        ...     def backward(self, g):
        ...         (x,) = self.take()
        ...         self.factor.add_grad((g * x).sum(0))
        ...         return g * self.factor.value
        >>> layer = Scale(2)
        >>> layer.forward(jnp.array([[1.0, 2.0]]), training=True).tolist()
        [[1.0, 2.0]]
        >>> layer.backward(jnp.array([[1.0, 1.0]])).tolist(), layer.factor.grad.tolist()
        ([[1.0, 1.0]], [1.0, 2.0])
    """

    def forward(self, x: Any, training: bool = False) -> Any:
        """The output for `x`; with `training=True` it keeps what `backward` needs."""
        raise NotImplementedError(f"{type(self).__name__} must write forward(x, training=False)")

    def backward(self, g: Any) -> Any:
        """The gradient of the input, from the gradient `g` of the output; adds to the gradients of the Params."""
        raise NotImplementedError(f"{type(self).__name__} must write backward(g)")

    def variables(self) -> dict[str, Variable]:
        """Every Variable by its path (`layers.0.weight`), a shared one once; sets each one's `name`.

        Raises:
            ValueError: two have the same path, as under the keys 1 and "1" of a dict.
        """
        found: dict[str, Variable] = {}
        for path, part in walk(self):
            if isinstance(part, Variable):
                self.require(path not in found, "every Variable must have a path of its own", path=path)
                found[path] = part
                part.name = path
        return found

    def params(self) -> list[Param]:
        """Every Param once, frozen ones included, in the order of `variables`."""
        return [variable for variable in self.variables().values() if isinstance(variable, Param)]

    def layers_by_path(self) -> dict[str, "Layer"]:
        """This layer (path "") and every layer below it, by path, a shared one once."""
        return {path: part for path, part in walk(self) if isinstance(part, Layer)}

    def state_dict(self) -> dict[str, jax.Array]:
        """The value of every Variable by its path."""
        return {path: variable.value for path, variable in self.variables().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sets every Variable to the value that `state` has under its path; all or none.

        Raises:
            ValueError: a path is missing or not known, or a value has another shape or kind of dtype.
        """
        variables = self.variables()
        wrong = [f"missing {path}" for path in variables if path not in state]
        wrong += [f"unknown {path}" for path in state if path not in variables]
        if wrong:
            raise ValueError(f"state must hold a value for each variable of the model. Received: {'; '.join(wrong)}")
        values = {path: variable.fitted(_named_dtype(state[path], variable)) for path, variable in variables.items()}
        for path, variable in variables.items():
            variable.value = values[path]


def _named_dtype(value: Any, variable: Variable) -> Any:
    """An .npz file keeps the bytes of bfloat16, but not the dtype's name."""
    dtype = variable.value.dtype
    void = isinstance(value, np.ndarray) and value.dtype.kind == "V" and value.dtype.itemsize == dtype.itemsize
    return value.view(dtype) if void else value
