"""The arrays that optimisers keep in a Param."""

import copy
import gc
import pickle
import weakref
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import Dense, Param


class Momentum:
    def __init__(self, lr=0.5):
        self.lr = lr

    def init(self, weights):
        return {"velocity": jnp.zeros_like(weights)}

    def update(self, weights, gradient, slots, lr):
        velocity = 0.5 * slots["velocity"] + gradient
        return weights - lr * velocity, {"velocity": velocity}


@dataclass
class Equal(Momentum):
    """Equal to every other of the same numbers, and not hashable."""

    lr: float = 0.5


def steps(param, *optimizers):
    for optimizer in optimizers:
        param.zero_grad()
        param.add_grad(jnp.ones_like(param.value))
        param.update(optimizer)
    return param.value.tolist()


def velocity(param, optimizer):
    return param.slots(optimizer)["velocity"].tolist()


def test_update_moves_value_and_slots():
    param, optimizer = Param([1.0]), Momentum()
    assert steps(param, optimizer) == [0.5]
    assert velocity(param, optimizer) == [1.0]
    assert steps(param, optimizer) == [-0.25]
    assert velocity(param, optimizer) == [1.5]


def test_update_takes_another_learning_rate():
    param, optimizer = Param([1.0]), Momentum()
    param.add_grad(jnp.ones(1))
    param.update(optimizer, 0.25)
    assert param.value.tolist() == [0.75]


def test_frozen_param_stays():
    param, optimizer = Param([1.0], trainable=False), Momentum()
    assert steps(param, optimizer) == [1.0]
    param.trainable = True
    assert steps(param, optimizer) == [0.5]


@pytest.mark.parametrize("cls", [Momentum, Equal])
def test_two_optimizers_alternate_without_losing_their_slots(cls):
    param, first, second = Param([0.0]), cls(), cls()
    steps(param, first, second, first, second, first)
    assert velocity(param, first) == [1.75]
    assert velocity(param, second) == [1.5]


@pytest.mark.parametrize("cls", [Momentum, Equal])
def test_an_optimizer_that_dies_frees_its_slots(cls):
    param, optimizer = Param([0.0]), cls()
    steps(param, optimizer)
    slot = weakref.ref(param.slots(optimizer)["velocity"])
    del optimizer
    gc.collect()
    assert slot() is None
    assert velocity(param, cls()) == [0.0]


def test_param_that_dies_leaves_the_optimizer_alone():
    param, optimizer = Param([0.0]), Momentum()
    steps(param, optimizer)
    del param
    del optimizer


@pytest.mark.parametrize("again", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
@pytest.mark.parametrize("cls", [Momentum, Equal])
def test_copies_of_model_and_optimizer_belong_together(cls, again):
    model, optimizer = Dense(4, 6, 0), cls()
    steps(model.bias, optimizer)
    other, other_optimizer = again((model, optimizer))
    assert velocity(other.bias, other_optimizer) == [1.0] * 6
    steps(other.bias, other_optimizer)
    assert velocity(other.bias, other_optimizer) == [1.5] * 6
    assert velocity(model.bias, optimizer) == [1.0] * 6
    assert velocity(other.bias, optimizer) == [0.0] * 6


@pytest.mark.parametrize("again", [copy.deepcopy, lambda part: pickle.loads(pickle.dumps(part))])
def test_copies_of_a_param_alone(again):
    param, optimizer = Param([1.0]), Momentum()
    for _ in range(2):  # before any optimiser, and after one
        other = again(param)
        assert other.value.tolist() == param.value.tolist()
        assert velocity(other, optimizer) == [0.0]
        steps(param, optimizer)


def test_optimizer_that_holds_the_model_can_be_copied():
    param, optimizer = Param([0.0]), Momentum()
    optimizer.target = param
    steps(param, optimizer)
    other = copy.deepcopy(optimizer)
    assert velocity(other.target, other) == [1.0]
    other = pickle.loads(pickle.dumps(param))
    assert other.value.tolist() == [-0.5]


def test_set_slots_replaces_them():
    param, optimizer = Param([0.0]), Momentum()
    param.set_slots(optimizer, {"velocity": jnp.array([2.0])})
    assert velocity(param, optimizer) == [2.0]


def test_slots_lose_their_weak_type():
    class Counts(Momentum):
        def init(self, weights):
            return {"velocity": 0.0}

        def update(self, weights, gradient, slots, lr):
            return weights, {"velocity": jnp.asarray(1.0)}

    param, optimizer = Param([0.0]), Counts()
    for _ in range(2):
        assert not param.slots(optimizer)["velocity"].aval.weak_type
        param.update(optimizer)


def broken(change):
    class Broken(Momentum):
        def update(self, weights, gradient, slots, lr):
            return change(*super().update(weights, gradient, slots, lr))

    return Broken()


@pytest.mark.parametrize(
    ("change", "requirement"),
    [
        (
            lambda w, s: (w.astype(jnp.float16), s),
            r"must keep weights of shape \(6,\) and dtype float32\. Received: .*float16",
        ),
        (lambda w, s: (w[:1], s), r"must keep weights of shape \(6,\) .*Received: weights\.shape=\(1,\)"),
        (lambda w, s: (w, {}), r"must give back the slots \['velocity'\]\. Received: slots=\[\]"),
        (lambda w, s: (w, {**s, "new": w}), r"must give back the slots .*Received: slots=\['new', 'velocity'\]"),
        (lambda w, s: (w, {"velocity": s["velocity"][0]}), r"must keep velocity of shape .*velocity\.shape=\(\)"),
        (lambda w, s: (w, {"velocity": s["velocity"] > 0}), r"must keep velocity .*velocity\.dtype=bool"),
    ],
)
def test_optimizer_that_changes_the_form_is_named_with_the_param(change, requirement):
    model = Dense(4, 6, 0)
    model.variables()
    optimizer = broken(change)
    with pytest.raises(ValueError, match=r"^Broken\.update on bias \(Param\) " + requirement):
        steps(model.bias, optimizer)
    np.testing.assert_array_equal(model.bias.value, 0)
    assert velocity(model.bias, optimizer) == [0.0] * 6
