"""Each optimiser against Optax, where both have the same formula."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from da_optim import SGD, AdaGrad, Adam, RMSProp


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (SGD(0.1), optax.sgd(0.1)),
        (SGD(0.1, momentum=0.9), optax.sgd(0.1, momentum=0.9)),
        (SGD(0.1, momentum=0.9, nesterov=True), optax.sgd(0.1, momentum=0.9, nesterov=True)),
        (Adam(0.1), optax.adam(0.1)),
        (RMSProp(0.1), optax.rmsprop(0.1, decay=0.9, eps=1e-8, eps_in_sqrt=False)),
        # Optax puts epsilon inside the root; both are too small to count beside the accumulator.
        (AdaGrad(0.1, initial_accumulator=0.1), optax.adagrad(0.1, initial_accumulator_value=0.1, eps=1e-10)),
    ],
    ids=["SGD", "momentum", "nesterov", "Adam", "RMSProp", "AdaGrad"],
)
def test_ten_steps_equal_optax_to_float32_rounding(own, theirs):
    rng = np.random.default_rng(2)
    weights = expected = jnp.asarray(rng.normal(size=(3, 4)), jnp.float32)
    state = theirs.init(expected)
    for _ in range(10):
        gradient = jnp.asarray(rng.normal(size=(3, 4)), jnp.float32)
        weights = own.step(weights, gradient)
        updates, state = theirs.update(gradient, state, expected)
        expected = optax.apply_updates(expected, updates)
    np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-6)
