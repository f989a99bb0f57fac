"""Embedding: tokens outside the table, and rows that two layers share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import Embedding, Sequential, Tanh, TiedHead


def test_tokens_outside_the_table_get_nan_and_no_gradient():
    layer = Embedding(3, 2, 0)
    y = layer.forward(jnp.array([0, 3, -1, 2]), training=True)
    np.testing.assert_array_equal(np.isnan(y).all(1), [False, True, True, False])
    layer.backward(jnp.ones((4, 2)))
    np.testing.assert_array_equal(layer.weight.grad, [[1, 1], [0, 0], [1, 1]])


def test_a_token_that_comes_twice_adds_both_gradients():
    layer = Embedding(3, 2, 0)
    layer.forward(jnp.array([[1, 1], [2, 1]]), training=True)
    gx = layer.backward(jnp.arange(8.0).reshape(2, 2, 2))
    np.testing.assert_array_equal(layer.weight.grad, [[0, 0], [0 + 2 + 6, 1 + 3 + 7], [4, 5]])
    np.testing.assert_array_equal(gx, np.zeros((2, 2)))


def test_a_tied_head_adds_to_the_gradient_of_its_embedding():
    with jax.enable_x64():
        embedding = Embedding(5, 4, 0)
        embedding.weight.value = embedding.weight.value.astype(float)
        model, tokens = Sequential(embedding, Tanh(), TiedHead(embedding)), jnp.array([[1, 4, 1]])

        def pure(weight):
            return jnp.tanh(weight[tokens]) @ weight.T

        y, pullback = jax.vjp(pure, embedding.weight.value)
        np.testing.assert_allclose(model.forward(tokens, training=True), y, rtol=1e-12)
        g = jnp.cos(jnp.arange(15.0)).reshape(1, 3, 5)
        model.backward(g)
        np.testing.assert_allclose(embedding.weight.grad, pullback(g)[0], rtol=1e-10)
    assert [param.name for param in model.params()] == ["layers.0.weight"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Embedding(0, 2, 0), r"sizes must be integers of 1 or more\. Received: n_tokens=0, n_out=2"),
        (lambda: Embedding(3, 2, 0, scale=0), r"scale must be positive\. Received: scale=0"),
        (
            lambda: Embedding(3, 2, 0).forward(jnp.ones(2)),
            r"x must be of an integer dtype\. Received: x\.dtype=float32",
        ),
        (lambda: TiedHead(3), r"embedding must be an Embedding\. Received: embedding=3"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
