"""What a stack asks of its layers."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import Dense, Dropout, Layer, LayerStack, ReLU, Sequential, Variable


def test_unlike_layers_are_refused_by_name():
    layers = [Sequential(Dense(4, 4, 0), ReLU()), Sequential(Dense(4, 4, 1), ReLU()), Sequential(Dense(4, 4, 2))]
    with pytest.raises(
        ValueError, match=r"LayerStack: layers\[2\] must be like layers\[0\]\. Received: unlike=\['layers"
    ):
        LayerStack(layers)
    with pytest.raises(ValueError, match=r"layers\[1\] must be like layers\[0\]\. Received: unlike=\['rate'\]"):
        LayerStack([Dropout(0.1, 0), Dropout(0.2, 0)])
    with pytest.raises(ValueError, match=r"Received: unlike=\['bias', 'n_out', 'weight'\]"):
        LayerStack([Dense(4, 4, 0), Dense(4, 5, 0)])


class Options(Layer):
    """Holds what two layers of a stack may differ in."""

    def __init__(self, first, second=None):
        self.first, self.pair = first, [second, second]

    def forward(self, x, training=False):
        return x

    def backward(self, g):
        return g


TWICE = ReLU()


@pytest.mark.parametrize(
    ("one", "other", "unlike"),
    [
        ((1, 1), (1, 2), ["pair.0", "pair.1"]),
        ((2, 2), (1, 2), ["first"]),
        ((1.0,), (1,), ["first"]),
        ((0.0,), (-0.0,), ["first"]),
        ((np.zeros(2),), (np.ones(2),), ["first"]),
        ((np.int64(1),), (np.int64(2),), ["first"]),
        ((range(2),), (range(3),), ["first"]),
        ((abs,), (1,), ["first"]),
        ((TWICE, TWICE), (ReLU(), TWICE), ["pair.0", "pair.1"]),
        (({"a": 1},), ({"b": 1},), ["first", "first.a", "first.b"]),
    ],
)
def test_layers_that_differ_in_an_attribute_are_refused(one, other, unlike):
    LayerStack([Options(*one), Options(*one)])
    with pytest.raises(ValueError, match=rf"layers\[1\] must be like .*unlike={re.escape(str(unlike))}"):
        LayerStack([Options(*one), Options(*other)])


@pytest.mark.parametrize("make", [lambda: lambda x: x, lambda: jnp.ones(2), lambda: np.random.default_rng(0)])
def test_layers_with_objects_of_their_own_are_not_stacked(make):
    layers = [Options(make(), Dense(2, 2, seed)) for seed in range(2)]
    assert LayerStack(layers).stacked("") == []
    layers[1].first = layers[0].first
    assert len(LayerStack(layers).stacked("")) == 2


def test_equal_tuples_count_as_alike():
    shared, one, other = (tuple(range(2)) for _ in range(3))
    LayerStack([Options(shared, shared), Options(one, other)])


def test_a_variable_whose_class_forgot_its_init_says_so():
    class Forgot(Variable):
        def __init__(self):
            pass

    with pytest.raises(AttributeError, match="_value"):
        Forgot().fitted(1.0)


def test_layers_that_have_become_unlike_are_not_stacked():
    stack = LayerStack([Dropout(0.1, 0), Dropout(0.1, 1)])
    assert len(stack.stacked("")) == 1
    stack.layers[1].rate = 0.2
    assert stack.stacked("") == []


def test_a_stacked_variable_says_what_it_is():
    weight, bias = LayerStack([Dense(2, 3, 0), Dense(2, 3, 1)]).stacked("encoder")
    assert repr(weight) == "StackedParam(encoder.layers.*.weight: float32[2, 2, 3])"
    assert bias.fitted(np.ones((2, 3))).dtype == bias.value.dtype
    with pytest.raises(ValueError, match=r"must keep its shape \(2, 3\)"):
        bias.fitted(np.ones(3))


def test_shared_variables_are_refused():
    first, second = Dense(4, 4, 0), Dense(4, 4, 1)
    second.weight = first.weight
    with pytest.raises(ValueError, match=r"layers must share no Variable\. Received: shared=1"):
        LayerStack([first, second])


def test_no_layer_is_refused():
    with pytest.raises(ValueError, match=r"layers must hold one at least\. Received: layers=\[\]"):
        LayerStack([])
