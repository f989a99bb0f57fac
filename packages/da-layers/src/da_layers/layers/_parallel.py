"""Parallel and Concat: several layers beside each other."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from .._layer import Layer


class Parallel(Layer):
    """Layers beside each other: each on the whole input, or each on its own part of a dict.

    y = (f_1(x), f_2(x), ...), or y[name] = f_name(x[name]) (the first as in Szegedy et al. 2015, section 4).

    Args:
        layers: the layers as arguments, or one dict of them by the name of the part that each takes.

    Raises:
        ValueError: something that is not a Layer is among them, or an input is no dict with these names.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import Concat, Dense, Parallel, Sequential, Tanh
        >>> model = Sequential(Parallel(Dense(3, 4, 0), Tanh()), Concat())
        >>> model.forward(jnp.ones((2, 3))).shape
        (2, 7)
        >>> model = Sequential(Parallel({"image": Dense(3, 4, 0), "table": Dense(2, 4, 1)}), Concat())
        >>> model.forward({"image": jnp.ones((2, 3)), "table": jnp.ones((2, 2))}).shape
        (2, 8)
    """

    def __init__(self, *layers: Layer | Mapping[str, Layer]) -> None:
        named = len(layers) == 1 and isinstance(layers[0], Mapping)
        self.layers: Any = dict(layers[0]) if named and isinstance(layers[0], Mapping) else list(layers)
        self.require(len(self.layers) > 0, "there must be a layer", layers=self.layers)
        for name, layer in self._items():
            self.require(isinstance(layer, Layer), "every part must be a Layer", **{f"layers[{name!r}]": repr(layer)})

    def _items(self) -> list[tuple[Any, Layer]]:
        return list(self.layers.items() if isinstance(self.layers, dict) else enumerate(self.layers))

    def forward(self, x: Any, training: bool = False) -> Any:
        """Maps x, an array or what the layers take, to a tuple; or a dict to a dict."""
        if not isinstance(self.layers, dict):
            if training:
                self.keep()
            return tuple(layer.forward(x, training) for _, layer in self._items())
        names = list(self.layers)
        self.require(
            isinstance(x, Mapping) and set(x) == set(names),
            f"x must be a dict of {names}",
            x=list(x) if isinstance(x, Mapping) else type(x).__name__,
        )
        if training:
            self.keep()
        return {name: layer.forward(x[name], training) for name, layer in self._items()}

    def backward(self, g: Any) -> Any:
        """Maps the gradients of the outputs to that of the input: their sum, or one for each name."""
        self.take()
        # In reverse order, as a layer may be among them twice.
        gradients = {name: layer.backward(g[name]) for name, layer in reversed(self._items())}
        if isinstance(self.layers, dict):
            return {name: gradients[name] for name in self.layers}
        total, *others = (gradients[index] for index in range(len(self.layers)))
        for other in others:
            total = jax.tree.map(jnp.add, total, other)
        return total


class Concat(Layer):
    """Joins arrays along the last axis: of a tuple in its order, of a dict in the order of its names.

    y = [x_1, x_2, ...]

    Raises:
        ValueError: the input is no tuple, list or dict of arrays that differ in their last axis alone.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import Concat
        >>> Concat().forward((jnp.ones((2, 3)), jnp.ones((2, 1)))).shape
        (2, 4)
    """

    def forward(self, x: Any, training: bool = False) -> jax.Array:
        """Maps arrays (..., n_i) to (..., sum of n_i)."""
        arrays, structure = jax.tree.flatten(x)
        shapes = [getattr(array, "shape", None) for array in arrays]
        alike = all(shape for shape in shapes) and len({shape[:-1] for shape in shapes if shape}) == 1
        self.require(
            alike and not hasattr(x, "shape"),
            "x must be a tuple or dict of arrays that differ in their last axis alone",
            shapes=shapes,
        )
        if training:
            self.keep([shape[-1] for shape in shapes if shape], structure)
        return jnp.concatenate(arrays, -1)

    def backward(self, g: jax.Array) -> Any:
        """Maps the gradient to one for each array."""
        sizes, structure = self.take()
        stops = [sum(sizes[: index + 1]) for index in range(len(sizes))]
        parts = [g[..., stop - size : stop] for size, stop in zip(sizes, stops, strict=True)]
        return jax.tree.unflatten(structure, parts)
