"""Activations: element-wise functions, each with its derivative, one kernel for each direction."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._layer import Layer

_SQRT_HALF = 0.7071067811865476
_INV_SQRT_2PI = 0.3989422804014327


class _Activation(Layer):
    """y = f(x); keeps x, and backward is g * f'(x)."""

    _forward: Callable[..., Any]
    _backward: Callable[..., Any]

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x of any shape to y of the same shape."""
        self.require_float(x)
        if training:
            self.keep(x)
        return type(self)._forward(x)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient of y to that of x, same shape."""
        (x,) = self.take()
        return type(self)._backward(x, g)


@jax.jit
def _relu(x: jax.Array) -> jax.Array:
    return jnp.maximum(x, 0)


@jax.jit
def _relu_backward(x: jax.Array, g: jax.Array) -> jax.Array:
    return jnp.where(x > 0, g, jnp.zeros_like(g))


@jax.jit
def _gelu(x: jax.Array) -> jax.Array:
    return x * (0.5 * (1 + lax.erf(x * _SQRT_HALF)))


@jax.jit
def _gelu_backward(x: jax.Array, g: jax.Array) -> jax.Array:
    cdf = 0.5 * (1 + lax.erf(x * _SQRT_HALF))
    density = jnp.exp(-0.5 * x * x) * _INV_SQRT_2PI
    return g * (cdf + x * density)


@jax.jit
def _tanh(x: jax.Array) -> jax.Array:
    return jnp.tanh(x)


@jax.jit
def _tanh_backward(x: jax.Array, g: jax.Array) -> jax.Array:
    y = jnp.tanh(x)
    return g * (1 - y * y)


@jax.jit
def _sigmoid(x: jax.Array) -> jax.Array:
    return lax.logistic(x)


@jax.jit
def _sigmoid_backward(x: jax.Array, g: jax.Array) -> jax.Array:
    y = lax.logistic(x)
    return g * y * (1 - y)


class ReLU(_Activation):
    """Rectifier.

    y = max(x, 0); the derivative at 0 is 0 (Nair & Hinton 2010).

    Example:
        >>> import jax
        >>> from da_layers import ReLU
        >>> ReLU().forward(jax.numpy.array([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """

    _forward = staticmethod(_relu)
    _backward = staticmethod(_relu_backward)


class GELU(_Activation):
    """Gaussian error linear unit, exact form.

    y = x * (1 + erf(x / sqrt(2))) / 2 (Hendrycks & Gimpel 2016, section 2).

    Example:
        >>> import jax
        >>> from da_layers import GELU
        >>> round(float(GELU().forward(jax.numpy.array(1.0))), 4)
        0.8413
    """

    _forward = staticmethod(_gelu)
    _backward = staticmethod(_gelu_backward)


class Tanh(_Activation):
    """Hyperbolic tangent.

    y = tanh(x), derivative 1 - y^2.

    Example:
        >>> import jax
        >>> from da_layers import Tanh
        >>> Tanh().forward(jax.numpy.array([0.0])).tolist()
        [0.0]
    """

    _forward = staticmethod(_tanh)
    _backward = staticmethod(_tanh_backward)


class Sigmoid(_Activation):
    """Logistic function.

    y = 1 / (1 + exp(-x)), derivative y (1 - y).

    Example:
        >>> import jax
        >>> from da_layers import Sigmoid
        >>> Sigmoid().forward(jax.numpy.array([0.0])).tolist()
        [0.5]
    """

    _forward = staticmethod(_sigmoid)
    _backward = staticmethod(_sigmoid_backward)
