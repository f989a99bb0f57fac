"""What holds for the Optax adapter only."""

import copy
import pickle
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from da_optim import check_optimizer, from_optax

WEIGHTS = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)), jnp.float32)
GRADIENT = jnp.asarray(np.random.default_rng(1).normal(size=(3, 4)), jnp.float32)


class Drift(NamedTuple):
    """A transformation that pickles: it holds no closures, and its state is one array."""

    rate: float

    def init(self, params):
        return jnp.zeros_like(params)

    def update(self, updates, state, params=None):
        state = state + updates
        return -self.rate * state, state


@pytest.mark.parametrize(
    "transformation",
    [
        optax.adamw(0.1),
        optax.lion(0.1),
        optax.adafactor(0.1),
        optax.chain(optax.clip(0.5), optax.sgd(0.1, momentum=0.9)),
        optax.inject_hyperparams(optax.adam)(learning_rate=0.1),
        optax.chain(optax.add_noise(0.1, 0.5, key=0), optax.sgd(0.1)),
    ],
    ids=["adamw", "lion", "adafactor", "chain", "inject_hyperparams", "add_noise"],
)
def test_three_steps_equal_optax_used_by_hand(transformation):
    optimizer = from_optax(transformation)
    weights = expected = WEIGHTS
    state = transformation.init(expected)
    for _ in range(3):
        weights = optimizer.step(weights, GRADIENT)
        updates, state = transformation.update(GRADIENT, state, expected)
        expected = optax.apply_updates(expected, updates)
    np.testing.assert_allclose(weights, expected, rtol=1e-6, atol=1e-7)
    assert len(optimizer.slots) == len(jax.tree.leaves(state))


def test_slots_are_named_by_their_path_in_the_state():
    assert list(from_optax(optax.adam(0.1)).init(WEIGHTS)) == ["[0].count", "[0].mu", "[0].nu"]
    assert list(from_optax(Drift(0.5)).init(WEIGHTS)) == ["state"]
    assert from_optax(optax.sgd(0.1)).init(WEIGHTS) == {}


def test_lr_multiplies_the_updates():
    once, thrice = from_optax(optax.sgd(0.5)), from_optax(optax.sgd(0.5), lr=3.0)
    np.testing.assert_allclose(
        thrice.step(WEIGHTS, GRADIENT) - WEIGHTS, 3 * (once.step(WEIGHTS, GRADIENT) - WEIGHTS), rtol=1e-5, atol=1e-6
    )


def test_injected_hyper_parameters_are_slots_and_setting_one_compiles_nothing(compilations):
    optimizer = from_optax(optax.inject_hyperparams(optax.sgd)(learning_rate=0.5))
    optimizer.step(WEIGHTS, GRADIENT)
    name = ".hyperparams['learning_rate']"
    zero = jnp.zeros_like(optimizer.slots[name])
    compilations.clear()
    optimizer.slots = {**optimizer.slots, name: zero}
    assert optimizer.step(WEIGHTS, GRADIENT).tolist() == WEIGHTS.tolist()
    assert compilations == []


def test_one_transformation_and_shape_compile_once(compilations):
    transformation = optax.adam(0.1)
    from_optax(transformation).step(WEIGHTS, GRADIENT)
    compilations.clear()
    copy.deepcopy(from_optax(transformation, lr=0.5)).step(WEIGHTS, GRADIENT)
    assert compilations == []


def test_it_pickles_where_the_transformation_does():
    optimizer = from_optax(Drift(0.5))
    optimizer.step(WEIGHTS, GRADIENT)
    restored = pickle.loads(pickle.dumps(optimizer))
    assert restored.step(WEIGHTS, GRADIENT).tolist() == optimizer.step(WEIGHTS, GRADIENT).tolist()


@pytest.mark.parametrize("wrong", [optax.adam, None, 0.1])
def test_what_is_no_transformation_is_refused(wrong):
    with pytest.raises(ValueError, match=r"transformation must have init\(params\).*Received: transformation="):
        from_optax(wrong)


def test_a_negative_lr_is_refused():
    with pytest.raises(ValueError, match=r"lr must be a finite number >= 0\. Received: lr=-1"):
        from_optax(optax.sgd(0.1), lr=-1)


def test_a_bare_transformation_is_no_optimizer_and_the_error_says_what_to_do():
    with pytest.raises(ValueError, match=r"which lacks lr, step\. Wrap an Optax transformation in from_optax\.$"):
        check_optimizer(optax.adam(0.1))
