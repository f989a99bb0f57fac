"""Activations: element-wise functions, each with its derivative, one kernel for each direction."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._layer import Layer

_SQRT_HALF = 0.7071067811865476
_INV_SQRT_2PI = 0.3989422804014327
_SQRT_2_OVER_PI = 0.7978845608028654


class _Activation(Layer):
    """y = f(x); keeps x, and backward is g * f'(x)."""

    _forward: Callable[..., Any]
    _backward: Callable[..., Any]

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        """Maps x of any shape to y of the same shape."""
        self.require_float(x)
        if training:
            self.keep(x)
        return self._forward(x)

    def backward(self, g: jax.Array) -> jax.Array:
        """Maps the gradient of y to that of x, same shape."""
        (x,) = self.take()
        return self._backward(x, g)


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
def _gelu_tanh(x: jax.Array) -> jax.Array:
    return 0.5 * x * (1 + jnp.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))


@jax.jit
def _gelu_tanh_backward(x: jax.Array, g: jax.Array) -> jax.Array:
    y = jnp.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x))
    inner = _SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x)
    return g * (0.5 * (1 + y) + 0.5 * x * (1 - y * y) * inner)


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


@jax.jit
def _silu(x: jax.Array) -> jax.Array:
    return x * lax.logistic(x)


@jax.jit
def _silu_backward(x: jax.Array, g: jax.Array) -> jax.Array:
    y = lax.logistic(x)
    return g * (y + x * y * (1 - y))


@jax.jit
def _softplus(x: jax.Array) -> jax.Array:
    return jnp.logaddexp(x, jnp.zeros_like(x))


@jax.jit
def _softplus_backward(x: jax.Array, g: jax.Array) -> jax.Array:
    return g * lax.logistic(x)


@jax.jit
def _mish(x: jax.Array) -> jax.Array:
    return x * jnp.tanh(_softplus(x))


@jax.jit
def _mish_backward(x: jax.Array, g: jax.Array) -> jax.Array:
    y = jnp.tanh(_softplus(x))
    return g * (y + x * lax.logistic(x) * (1 - y * y))


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
    """Gaussian error linear unit.

    y = x * (1 + erf(x / sqrt(2))) / 2, or with `approximate`
    y = x * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 (Hendrycks & Gimpel 2016, section 2).

    Args:
        approximate: True for the form with tanh, which is faster.

    Example:
        >>> import jax
        >>> from da_layers import GELU
        >>> [round(float(GELU(approximate).forward(jax.numpy.array(1.0))), 4) for approximate in (False, True)]
        [0.8413, 0.8412]
    """

    def __init__(self, approximate: bool = False) -> None:
        self.approximate = approximate

    def _forward(self, x: jax.Array) -> jax.Array:
        return _gelu_tanh(x) if self.approximate else _gelu(x)

    def _backward(self, x: jax.Array, g: jax.Array) -> jax.Array:
        return _gelu_tanh_backward(x, g) if self.approximate else _gelu_backward(x, g)


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


class SiLU(_Activation):
    """Sigmoid-weighted linear unit, also called swish.

    y = x / (1 + exp(-x)) (Elfwing, Uchibe & Doya 2018, section 2; Hendrycks & Gimpel 2016).

    Example:
        >>> import jax
        >>> from da_layers import SiLU
        >>> round(float(SiLU().forward(jax.numpy.array(1.0))), 4)
        0.7311
    """

    _forward = staticmethod(_silu)
    _backward = staticmethod(_silu_backward)


class Softplus(_Activation):
    """Smooth rectifier.

    y = log(1 + exp(x)), without overflow; derivative 1 / (1 + exp(-x)) (Dugas et al. 2001).

    Example:
        >>> import jax
        >>> from da_layers import Softplus
        >>> Softplus().forward(jax.numpy.array([-1000.0, 1000.0])).tolist()
        [0.0, 1000.0]
    """

    _forward = staticmethod(_softplus)
    _backward = staticmethod(_softplus_backward)


class Mish(_Activation):
    """Self-regularised smooth rectifier.

    y = x * tanh(log(1 + exp(x))) (Misra 2020, equation 1).

    Example:
        >>> import jax
        >>> from da_layers import Mish
        >>> round(float(Mish().forward(jax.numpy.array(1.0))), 4)
        0.8651
    """

    _forward = staticmethod(_mish)
    _backward = staticmethod(_mish_backward)
