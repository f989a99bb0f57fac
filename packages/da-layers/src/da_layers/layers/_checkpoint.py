"""Checkpoint: memory for time."""

from typing import Any

from jax import lax

from .._layer import Layer
from .._variable import Param, Variable
from .._walk import walk


class Checkpoint(Layer):
    """Keeps only the input of a layer from forward to backward, and computes the rest again in backward.

    y = f(x), with the bits of f alone in both executors: the second forward sees the Buffers and Keys that the first
    saw, so that masks are the same, and moves none of them. (Chen et al. 2016, "Training Deep Nets with Sublinear
    Memory Cost".)

    Args:
        inner: the layer f, such as one block of many.

    Raises:
        ValueError: inner is no Layer.

    Example:
        >>> import jax
        >>> from da_layers import Checkpoint, Dense, ReLU, Sequential
        >>> block = Checkpoint(Sequential(Dense(4, 64, 0), ReLU(), Dense(64, 4, 1)))
        >>> y = block.forward(jax.numpy.ones((2, 4)), training=True)
        >>> block.backward(y).shape
        (2, 4)
    """

    def __init__(self, inner: Layer) -> None:
        self.require(isinstance(inner, Layer), "inner must be a Layer", inner=repr(inner))
        self.inner = inner

    def forward(self, x: Any, training: bool = False) -> Any:
        """Maps x to f(x)."""
        if not training:
            return self.inner.forward(x)
        state = [(variable, variable.value) for variable in self._state()]
        counts = [(layer, layer.kept_count) for layer in self.inner.layers_by_path().values()]
        y = self.inner.forward(x, training=True)
        for layer, count in counts:
            layer.drop_kept(count)
        self.keep(x, state)
        return y

    def backward(self, g: Any) -> Any:
        """Runs f's forward once more, then its backward."""
        x, before = self.take()
        after = [(variable, variable.value) for variable in self._state()]
        _set(before)
        try:
            # Tied to the gradient, or XLA would find both forwards to be one and keep what the first made.
            x, g = lax.optimization_barrier((x, g))
            self.inner.forward(x, training=True)
        finally:
            _set(after)
        return self.inner.backward(g)

    def _state(self) -> list[Variable]:
        parts = (part for _, part in walk(self.inner))
        return [part for part in parts if isinstance(part, Variable) and not isinstance(part, Param)]


def _set(values: list[tuple[Variable, Any]]) -> None:
    for variable, value in values:
        variable.value = value
