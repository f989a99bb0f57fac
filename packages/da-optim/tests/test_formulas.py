"""Each optimiser against its formula, written a second time in NumPy float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_optim import SGD, AdaGrad, Adam, RMSProp

STEPS = 10
WEIGHTS = np.random.default_rng(0).normal(size=(3, 4))
GRADIENTS = np.random.default_rng(1).normal(size=(STEPS, 3, 4))


def sgd(w, gradients, lr):
    for g in gradients:
        w = w - lr * g
    return w


def heavy_ball(w, gradients, lr, momentum):
    v = np.zeros_like(w)
    for g in gradients:
        v = momentum * v + g
        w = w - lr * v
    return w


def nesterov(w, gradients, lr, momentum):
    v = np.zeros_like(w)
    for g in gradients:
        v = momentum * v + g
        w = w - lr * (g + momentum * v)
    return w


def adam(w, gradients, lr, beta1, beta2, epsilon):
    m, s = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(gradients, start=1):
        m = beta1 * m + (1 - beta1) * g
        s = beta2 * s + (1 - beta2) * g**2
        w = w - lr * (m / (1 - beta1**t)) / (np.sqrt(s / (1 - beta2**t)) + epsilon)
    return w


def rmsprop(w, gradients, lr, rho, epsilon):
    s = np.zeros_like(w)
    for g in gradients:
        s = rho * s + (1 - rho) * g**2
        w = w - lr * g / (np.sqrt(s) + epsilon)
    return w


def adagrad(w, gradients, lr, epsilon, initial_accumulator):
    a = np.full_like(w, initial_accumulator)
    for g in gradients:
        a = a + g**2
        w = w - lr * g / (np.sqrt(a) + epsilon)
    return w


def steps(optimizer, dtype):
    weights = jnp.asarray(WEIGHTS, dtype)
    for gradient in GRADIENTS:
        weights = optimizer.step(weights, jnp.asarray(gradient, dtype))
    return np.asarray(weights)


CASES = [
    (SGD, {"lr": 0.1}, sgd),
    (SGD, {"lr": 0.1, "momentum": 0.9}, heavy_ball),
    (SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}, nesterov),
    (Adam, {"lr": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}, adam),
    (Adam, {"lr": 0.1, "beta1": 0.0, "beta2": 0.0, "epsilon": 1.0}, adam),
    (RMSProp, {"lr": 0.1, "rho": 0.9, "epsilon": 1e-8}, rmsprop),
    (AdaGrad, {"lr": 0.1, "epsilon": 1e-10, "initial_accumulator": 0.25}, adagrad),
]


@pytest.mark.parametrize(("make", "numbers", "formula"), CASES)
def test_float32_weights_follow_the_formula_over_ten_steps(make, numbers, formula):
    expected = formula(WEIGHTS, GRADIENTS, **{k: v for k, v in numbers.items() if k != "nesterov"})
    np.testing.assert_allclose(steps(make(**numbers), jnp.float32), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("make", "numbers", "formula"), CASES)
def test_float64_weights_follow_the_formula_to_float64(make, numbers, formula):
    # Hyper-parameters are float32 for weights of any dtype, so the formula gets the same rounded ones.
    rounded = {k: float(np.float32(v)) for k, v in numbers.items() if k != "nesterov"}
    with jax.enable_x64(True):
        actual = steps(make(**numbers), jnp.float64)
    np.testing.assert_allclose(actual, formula(WEIGHTS, GRADIENTS, **rounded), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_narrow_weights_are_computed_wide_and_rounded_once(dtype):
    weights, gradient = jnp.full(3, 1.0, dtype), jnp.full(3, 3e-4, dtype)
    # g^2 underflows in float16, and 1 - 1e-4 is 1 in both: only float32 inside gives a step of lr.
    moved = AdaGrad(lr=0.125).step(weights, gradient)
    assert moved.tolist() == [0.875] * 3
