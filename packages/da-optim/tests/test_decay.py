import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_optim import SGD, CosineLR, decoupled_decay, l2_decay

RNG = np.random.default_rng(0)
WEIGHTS, GRADIENT = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))


@pytest.mark.parametrize(
    ("dtype", "rtol"), [("float32", 1e-6), ("bfloat16", 2e-2), ("float16", 2e-3), ("float64", 1e-7)]
)
def test_both_forms_equal_numpy_and_keep_the_dtype(dtype, rtol):
    with jax.enable_x64(dtype == "float64"):
        weights, gradient = jnp.asarray(WEIGHTS, dtype), jnp.asarray(GRADIENT, dtype)
        added, shrunk = l2_decay(gradient, weights, 0.1), decoupled_decay(weights, 0.5, 0.1)
        assert [(array.dtype, array.weak_type) for array in (added, shrunk)] == [(dtype, False)] * 2
        np.testing.assert_allclose(np.asarray(added, float), GRADIENT + 0.1 * WEIGHTS, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(np.asarray(shrunk, float), WEIGHTS - 0.5 * 0.1 * WEIGHTS, rtol=rtol, atol=rtol)


def test_decoupled_decay_follows_the_schedule_and_not_the_learning_rate():
    schedule, lr, weight_decay, w = CosineLR(10), 0.1, 0.01, WEIGHTS
    sgd, weights = SGD(lr), jnp.asarray(WEIGHTS, jnp.float32)
    for epoch in range(10):
        eta = schedule(epoch)
        w = w - eta * lr * GRADIENT - eta * weight_decay * w
        sgd.lr = eta * lr
        weights = sgd.step(decoupled_decay(weights, eta, weight_decay), jnp.asarray(GRADIENT, jnp.float32))
    np.testing.assert_allclose(weights, w, rtol=1e-5, atol=1e-6)


def test_l2_and_decoupled_decay_are_the_same_for_plain_sgd():
    """Proposition 1 of the paper: with weight decay over lr as the l2 factor."""
    weights, gradient = jnp.asarray(WEIGHTS, jnp.float32), jnp.asarray(GRADIENT, jnp.float32)
    by_l2 = SGD(0.1).step(weights, l2_decay(gradient, weights, 0.01 / 0.1))
    decoupled = SGD(0.1).step(decoupled_decay(weights, 1.0, 0.01), gradient)
    np.testing.assert_allclose(by_l2, decoupled, rtol=1e-5, atol=1e-6)


def test_a_multiplier_of_zero_decays_nothing():
    weights = jnp.asarray(WEIGHTS, jnp.float32)
    assert decoupled_decay(weights, 0.0, 0.1).tolist() == weights.tolist()


def test_new_numbers_compile_nothing(compilations):
    weights = jnp.asarray(WEIGHTS, jnp.float32)
    l2_decay(weights, weights, 0.1), decoupled_decay(weights, 1.0, 0.1)
    compilations.clear()
    l2_decay(weights, weights, jnp.float32(0.2)), decoupled_decay(weights, 0.5, 0.2)
    assert compilations == []
