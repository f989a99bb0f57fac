"""Products: their values, and the one rounding of the small."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers.layers._dot import dot

SIZES = (1, 3, 7, 8)


@pytest.mark.parametrize("terms", SIZES)
def test_is_the_product(terms):
    rng = np.random.default_rng(terms)
    for rows, columns in itertools.product(SIZES, SIZES):
        a, b = rng.normal(size=(2, rows, terms)), rng.normal(size=(2, columns, terms))
        with jax.enable_x64():
            result = np.asarray(dot(jnp.asarray(a), jnp.asarray(b), ((2,), (2,)), ((0,), (0,))))
        np.testing.assert_allclose(result, a @ b.swapaxes(1, 2), rtol=1e-13, atol=1e-13)


def test_sums_along_several_axes():
    a, b = np.random.default_rng(0).normal(size=(2, 2, 3, 4))
    with jax.enable_x64():
        result = np.asarray(dot(jnp.asarray(a), jnp.asarray(b[..., :2]), ((0, 1), (0, 1))))
    np.testing.assert_allclose(result, np.einsum("ijk,ijl->kl", a, b[..., :2]), rtol=1e-13)


@pytest.mark.parametrize("terms", [2, 3, 7])
def test_each_of_few_terms_is_rounded(terms):
    rng = np.random.default_rng(terms)
    for rows, columns in [(1, 33), (3, 3), (4, 6), (33, 1), (7, 7)]:
        a = rng.normal(size=(rows, terms)).astype(np.float32)
        b = rng.normal(size=(terms, columns)).astype(np.float32)
        expected = a[:, :1] * b[:1]
        for term in range(1, terms):
            expected = expected + a[:, term, None] * b[term]
        np.testing.assert_array_equal(jax.jit(lambda a, b: dot(a, b, ((1,), (0,))))(a, b), expected)


def test_keeps_the_dtype_and_rounds_once():
    a = np.asarray(jnp.array([[1.01, 3.3, -4.3]], jnp.bfloat16))
    result = dot(jnp.asarray(a), jnp.asarray(a), ((1,), (1,)))
    assert result.dtype == jnp.bfloat16
    np.testing.assert_array_equal(result, (a.astype(float) ** 2).sum().astype(a.dtype))


def test_sizes_that_do_not_fit():
    with pytest.raises(TypeError, match="contracting dimensions to have the same shape"):
        dot(jnp.ones((2, 3, 4)), jnp.ones((3, 2, 2)), ((0, 1), (0, 1)))


def test_an_empty_product():
    assert dot(jnp.ones((0, 3)), jnp.ones((3, 2)), ((1,), (0,))).shape == (0, 2)
    np.testing.assert_array_equal(dot(jnp.ones((2, 0)), jnp.ones((0, 2)), ((1,), (0,))), np.zeros((2, 2)))
