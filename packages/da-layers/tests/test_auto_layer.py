import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import AutoLayer, Dense, Embedding, Lambda, Layer, Parallel, Param, Sequential

RNG = np.random.default_rng(0)


class Gate(AutoLayer):
    """y = sigmoid(x W) * x s"""

    def __init__(self):
        self.weight = Param(RNG.normal(size=(4, 4)))
        self.scale = Param(RNG.normal(size=4), role="scale")

    def function(self, values, x):
        return jax.nn.sigmoid(x @ values["weight"]) * x * values["scale"]


class GateByHand(Layer):
    def __init__(self, weight, scale):
        self.weight, self.scale = Param(weight), Param(scale, role="scale")

    def forward(self, x, training=False):
        gate = jax.nn.sigmoid(x @ self.weight.value)
        if training:
            self.keep(x, gate)
        return gate * x * self.scale.value

    def backward(self, g):
        x, gate = self.take()
        g_gate = g * x * self.scale.value * gate * (1 - gate)
        self.weight.add_grad(x.T @ g_gate)
        self.scale.add_grad((g * gate * x).sum(0))
        return g * gate * self.scale.value + g_gate @ self.weight.value.T


def test_equals_the_layer_written_by_hand(x64):
    auto = Gate()
    by_hand = GateByHand(auto.weight.value, auto.scale.value)
    x, g = jnp.asarray(RNG.normal(size=(3, 4))), jnp.asarray(RNG.normal(size=(3, 4)))
    np.testing.assert_allclose(auto.forward(x, training=True), by_hand.forward(x, training=True), rtol=1e-12)
    np.testing.assert_allclose(auto.backward(g), by_hand.backward(g), rtol=1e-10)
    for a, b in zip(auto.params(), by_hand.params(), strict=True):
        np.testing.assert_allclose(a.grad, b.grad, rtol=1e-10)


def test_params_may_sit_anywhere_in_the_layer():
    class Sum(AutoLayer):
        def __init__(self):
            self.parts = [Param(1.0), {"a": Param(2.0)}]

        def function(self, values, x):
            return values["parts.0"] * x + values["parts.1.a"] * x**2

    layer = Sum()
    layer.forward(jnp.array([3.0]), training=True)
    assert layer.backward(jnp.ones(1)).tolist() == [13.0]
    assert [float(param.grad) for param in layer.params()] == [3.0, 9.0]


def test_paths_are_the_layers_own_inside_a_model():
    model = Sequential(Dense(4, 4, 0), Gate())
    y = model.forward(jnp.ones((2, 4)), training=True)
    model.backward(jnp.ones_like(y))
    assert list(model.variables())[2:] == ["layers.1.weight", "layers.1.scale"]
    assert model.layers[1].weight.grad.any()


def test_output_may_be_any_pytree():
    class Halves(AutoLayer):
        def function(self, values, x):
            return {"left": x[:1], "right": 2 * x[1:]}

    layer = Halves()
    y = layer.forward(jnp.array([1.0, 2.0]), training=True)
    assert layer.backward(y).tolist() == [1.0, 8.0]


def test_copy_between_forward_and_backward():
    layer = Gate()
    layer.forward(jnp.ones((2, 4)), training=True)
    with pytest.raises(RuntimeError, match=r"^Gate: backward needs"):
        copy.deepcopy(layer).backward(jnp.ones((2, 4)))
    assert layer.backward(jnp.ones((2, 4))).shape == (2, 4)


def test_what_a_subclass_must_write():
    class Empty(AutoLayer):
        pass

    with pytest.raises(NotImplementedError, match=r"^Empty must write function\(values, x\)"):
        Empty().forward(jnp.ones(2))


def test_integers_have_a_gradient_of_zeros():
    layer = Lambda(lambda tokens: jax.nn.one_hot(tokens, 4))
    both = Parallel(Embedding(4, 3, 0), layer)
    tokens = jnp.array([[1, 3]])
    first, second = both.forward(tokens, training=True)
    np.testing.assert_array_equal(both.backward((first, second)), jnp.zeros((1, 2)))
