"""Numbers at the edge of what the dtype holds."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import (
    GELU,
    GRU,
    LSTM,
    MSE,
    RNN,
    BatchNorm,
    Conv1D,
    ConvTranspose1D,
    Dense,
    GroupNorm,
    LayerNorm,
    MultiHeadAttention,
    ReLU,
    RMSNorm,
    SeparableConv2D,
    Sigmoid,
    SoftmaxCrossEntropy,
    Tanh,
)


def test_cross_entropy_of_huge_logits():
    loss = SoftmaxCrossEntropy()
    logits = jnp.array([[1e4, -1e4], [-1e4, 1e4], [1e4, 1e4]])
    assert loss.forward(logits, jnp.array([0, 0, 1])) == pytest.approx((0 + 2e4 + np.log(2)) / 3)
    np.testing.assert_allclose(loss.backward(), [[0, 0], [-1 / 3, 1 / 3], [1 / 6, -1 / 6]], atol=1e-7)


def test_cross_entropy_of_a_class_that_is_ruled_out():
    loss = SoftmaxCrossEntropy()
    logits = jnp.array([[0.0, 0.0, -jnp.inf]])
    assert loss.forward(logits, jnp.array([1])) == pytest.approx(np.log(2))
    np.testing.assert_allclose(loss.backward(), [[0.5, -0.5, 0]])
    assert jnp.isinf(loss.forward(logits, jnp.array([2])))


def test_cross_entropy_lets_nan_through():
    assert jnp.isnan(SoftmaxCrossEntropy().forward(jnp.array([[jnp.nan, 0.0]]), jnp.array([1])))
    assert jnp.isnan(MSE().forward(jnp.array([jnp.nan, 0.0]), jnp.zeros(2)))


@pytest.mark.parametrize("cls", [ReLU, GELU, Tanh, Sigmoid])
@pytest.mark.parametrize("x", [1e4, -1e4, 1e30, -1e30, 0.0])
def test_activations_far_out(cls, x):
    layer = cls()
    limits = {ReLU: (max(x, 0), x > 0), GELU: (max(x, 0), x > 0), Tanh: (np.sign(x), 0), Sigmoid: (x > 0, 0)}
    y, slope = (float(number) for number in limits[cls])
    if x == 0:
        y, slope = {ReLU: (0, 0), GELU: (0, 0.5), Tanh: (0, 1), Sigmoid: (0.5, 0.25)}[cls]
    assert layer.forward(jnp.array([x]), training=True)[0] == pytest.approx(y)
    assert layer.backward(jnp.ones(1))[0] == pytest.approx(slope)


def test_attention_with_huge_scores_picks_one_token():
    layer = MultiHeadAttention(4, 2, 0)
    for name in ("query", "key", "value", "output"):
        getattr(layer, name).weight.value = np.eye(4) * (1e3 if name in ("query", "key") else 1)
    x = jnp.asarray(np.repeat([[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]], 2, 0).repeat(2, 2), jnp.float32)
    np.testing.assert_allclose(layer.forward(x, training=True), np.broadcast_to(x[:, 2:], x.shape))
    assert np.isfinite(layer.backward(jnp.ones_like(x))).all()


def test_norms_that_centre_give_the_bias_for_equal_numbers(cases, x64):
    norms = [(case.build(), case.shape) for case in cases if "Norm" in case.name and case.name != "RMSNorm"]
    assert norms
    for layer, shape in norms:
        x = jnp.full(shape, 0.5)
        np.testing.assert_array_equal(layer.forward(x, training=True), np.broadcast_to(layer.bias.value, shape))
        assert np.isfinite(layer.backward(jnp.ones_like(x))).all()


@pytest.mark.parametrize("make", [LayerNorm, RMSNorm, partial(GroupNorm, 1)])
def test_norms_of_float16_do_not_overflow(make):
    layer = make(4)
    for param in layer.params():
        param.value = jnp.asarray(param.value, jnp.float16)
    x = np.array([[1000.0, 2000.0, -3000.0, 0.0]])
    expected = (x - x.mean()) / x.std()
    np.testing.assert_allclose(layer.forward(jnp.asarray(x, jnp.float16)), expected, rtol=2e-3)


def test_batch_norm_of_one_sample():
    layer = BatchNorm(2)
    y = layer.forward(jnp.array([[3.0, -1.0]]), training=True)
    np.testing.assert_array_equal(y, 0)
    np.testing.assert_array_equal(layer.backward(jnp.ones((1, 2))), 0)
    np.testing.assert_allclose(layer.running_mean.value, [0.3, -0.1], rtol=1e-6)
    np.testing.assert_array_equal(layer.running_variance.value, 1)


@pytest.mark.parametrize(
    ("layer", "axes"),
    [
        (Dense(3, 4, 0), 1),
        (Conv1D(3, 4, 2, 0), 1),
        (SeparableConv2D(3, 4, 2, 0), 2),
        (ConvTranspose1D(3, 4, 2, 0), 1),
        (RNN(3, 4, 0), 1),
        (GRU(3, 4, 0), 1),
        (LSTM(3, 4, 0), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_input_of_less_precision_than_the_weights(layer, axes):
    x = jnp.ones((2, *(5,) * axes, 3), jnp.bfloat16)
    y = layer.forward(x, training=True)
    assert y.dtype == jnp.float32
    np.testing.assert_allclose(y, layer.forward(x.astype(jnp.float32)), rtol=1e-6)
    assert layer.backward(jnp.ones_like(y)).shape == x.shape
    assert all(param.grad.dtype == jnp.float32 for param in layer.params())
