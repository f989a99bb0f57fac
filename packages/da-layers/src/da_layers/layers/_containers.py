"""Layers made of layers."""

from collections.abc import Sequence
from typing import Any

from .._layer import Layer


class Sequential(Layer):
    """Layers one after another.

    y = f_n(... f_2(f_1(x)))

    Args:
        layers: the layers in order, as arguments or as one list.

    Raises:
        ValueError: something that is not a Layer is among them.

    Example:
        >>> import jax
        >>> from da_layers import Dense, ReLU, Sequential
        >>> model = Sequential(Dense(3, 4, jax.random.key(0)), ReLU())
        >>> model.forward(jax.numpy.ones((2, 3))).shape, list(model.variables())
        ((2, 4), ['layers.0.weight', 'layers.0.bias'])
    """

    def __init__(self, *layers: Layer | Sequence[Layer]) -> None:
        self.layers: list[Any] = list(layers[0] if len(layers) == 1 and isinstance(layers[0], Sequence) else layers)
        for index, layer in enumerate(self.layers):
            self.require(isinstance(layer, Layer), "every part must be a Layer", **{f"layers[{index}]": repr(layer)})

    def forward(self, x: Any, training: bool = False) -> Any:
        """Passes x through the layers in order."""
        shapes = []
        for layer in self.layers:
            shapes.append(getattr(x, "shape", None))
            x = layer.forward(x, training)
        if training:
            self.keep(shapes)
        return x

    def backward(self, g: Any) -> Any:
        """Passes the gradient through the layers in reverse order."""
        # Where there was no forward, the last layer says so.
        (shapes,) = self.take() if self.has_kept else ([None] * len(self.layers),)
        for index in reversed(range(len(self.layers))):
            layer = self.layers[index]
            g = layer.backward(g)
            # What the first layer takes may have no gradient, as integers have none.
            layer.require(
                shapes[index] in (None, getattr(g, "shape", None)) or (g is None and index == 0),
                f"backward must return the gradient of the input, of shape {shapes[index]}",
                returned=getattr(g, "shape", type(g).__name__),
            )
        return g


class Residual(Layer):
    """Adds a layer's output to its input.

    y = x + f(x) (He et al. 2016, equation 1).

    Args:
        inner: the layer f; its output has the shape of its input.

    Raises:
        ValueError: the inner layer's output has another shape than its input.

    Example:
        >>> import jax
        >>> from da_layers import ReLU, Residual
        >>> Residual(ReLU()).forward(jax.numpy.array([-1.0, 2.0])).tolist()
        [-1.0, 4.0]
    """

    def __init__(self, inner: Layer) -> None:
        self.require(isinstance(inner, Layer), "inner must be a Layer", inner=repr(inner))
        self.inner = inner

    def forward(self, x: Any, training: bool = False) -> Any:
        """Maps x to x + f(x), same shape."""
        y = self.inner.forward(x, training)
        self.require(
            y.shape == x.shape, "inner must keep the shape of its input", x__shape=x.shape, output__shape=y.shape
        )
        return x + y

    def backward(self, g: Any) -> Any:
        """Maps the gradient g to g + f's gradient of its input."""
        return g + self.inner.backward(g)
