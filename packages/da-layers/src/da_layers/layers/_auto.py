"""AutoLayer and Lambda: layers that have their forward only."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .._layer import Layer
from .._variable import Param
from .._walk import walk


class AutoLayer(Layer):
    """A layer that gives a pure function of its input and its Params; `jax.vjp` gives the backward.

    A subclass writes `function(values, x)`, where `values` holds the value of each of the layer's own Params under
    its path (the attribute's name). The function must not touch the layer's state.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import AutoLayer, Param
        >>> class Parabola(AutoLayer):
        ...     def __init__(self):
        ...         self.curvature = Param(0.5, role="scale")
        ...     def function(self, values, x):
        ...         return values["curvature"] * x**2
        >>> layer = Parabola()
        >>> layer.forward(jnp.array([1.0, 3.0]), training=True).tolist()
        [0.5, 4.5]
        >>> layer.backward(jnp.ones(2)).tolist(), layer.curvature.grad.tolist()
        ([1.0, 3.0], 10.0)
    """

    def function(self, values: dict[str, jax.Array], x: Any) -> Any:
        """The output for the Params' `values` and the input x."""
        raise NotImplementedError(f"{type(self).__name__} must write function(values, x)")

    def forward(self, x: Any, training: bool = False) -> Any:
        """function(values, x) at the Params' present values."""
        values = {path: param.value for path, param in self._params_by_path().items()}
        if not training:
            return self.function(values, x)
        y, pullback = jax.vjp(self.function, values, x)
        self.keep(pullback)
        return y

    def backward(self, g: Any) -> Any:
        """The vector-Jacobian product of the last forward."""
        (pullback,) = self.take()
        g_values, gx = pullback(g)
        for path, param in self._params_by_path().items():
            param.add_grad(g_values[path])
        return jax.tree.map(_without_float0, gx)

    def _params_by_path(self) -> dict[str, Any]:
        return {path: part for path, part in walk(self) if isinstance(part, Param)}


def _without_float0(gradient: Any) -> Any:
    # What jax.vjp gives for integers; other layers give zeros.
    return jnp.zeros(gradient.shape) if gradient.dtype == jax.dtypes.float0 else gradient


class Lambda(AutoLayer):
    """A function without Params as a layer; `jax.vjp` gives the backward.

    y = f(x)

    Args:
        f: a pure function of one input, built of JAX's operations.

    Raises:
        ValueError: f cannot be called.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import Lambda
        >>> layer = Lambda(lambda x: x**2)
        >>> layer.forward(jnp.array([1.0, 3.0]), training=True).tolist(), layer.backward(jnp.ones(2)).tolist()
        ([1.0, 9.0], [2.0, 6.0])
    """

    def __init__(self, f: Callable[[Any], Any]) -> None:
        self.require(callable(f), "f must be a function", f=repr(f))
        self.f = f

    def function(self, values: dict[str, jax.Array], x: Any) -> Any:
        """f(x)."""
        return self.f(x)
