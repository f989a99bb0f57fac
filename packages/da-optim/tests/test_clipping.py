import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_optim import clip_by_global_norm, global_norm

RNG = np.random.default_rng(0)
ARRAYS = [RNG.normal(size=shape) for shape in [(3, 4), (5,), ()]]
NORM = np.sqrt(sum((array**2).sum() for array in ARRAYS))


@pytest.mark.parametrize(
    ("dtype", "rtol"), [("float32", 1e-6), ("bfloat16", 1e-2), ("float16", 1e-3), ("float64", 1e-7)]
)
@pytest.mark.parametrize("share", [1 / 3, 3])
def test_clipping_equals_numpy_and_keeps_dtypes(dtype, rtol, share):
    with jax.enable_x64(dtype == "float64"):
        gradients = [jnp.asarray(array, dtype) for array in ARRAYS]
        clipped, norm = clip_by_global_norm(gradients, share * NORM)
        assert isinstance(clipped, list)
        assert norm.dtype == (jnp.float64 if dtype == "float64" else jnp.float32)
        np.testing.assert_allclose(norm, NORM, rtol=rtol)
        np.testing.assert_allclose(global_norm(gradients), NORM, rtol=rtol)
        for array, gradient in zip(ARRAYS, clipped, strict=True):
            assert gradient.dtype == dtype
            expected = array * min(1.0, share)
            np.testing.assert_allclose(gradient.astype(norm.dtype), expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_gradients_within_the_norm_keep_their_bits(factor):
    gradients = [jnp.asarray(array, jnp.float32) for array in ARRAYS]
    clipped, _ = clip_by_global_norm(gradients, factor * global_norm(gradients))
    assert [c.tobytes() for c in map(np.asarray, clipped)] == [g.tobytes() for g in map(np.asarray, gradients)]


@pytest.mark.parametrize(("gradient", "max_norm"), [(0.0, 0.0), (0.0, 1.0), (3.0, 0.0)])
def test_zero_gradients_and_a_zero_norm_give_zero(gradient, max_norm):
    with jax.debug_nans(True):
        [clipped], norm = clip_by_global_norm([jnp.full(4, gradient)], max_norm)
    assert clipped.tolist() == [0.0] * 4
    assert norm == 2 * gradient


def test_a_nan_reaches_the_norm_and_every_gradient():
    clipped, norm = clip_by_global_norm([jnp.array([jnp.nan, 1.0]), jnp.ones(2)], 1.0)
    assert jnp.isnan(norm)
    assert all(jnp.isnan(gradient).all() for gradient in clipped)


def test_an_infinite_gradient_gives_an_infinite_norm_and_stays_not_finite():
    [clipped], norm = clip_by_global_norm([jnp.array([jnp.inf, 1.0])], 1.0)
    assert jnp.isinf(norm)
    assert not jnp.isfinite(clipped).all()


def test_narrow_squares_are_summed_in_float32():
    gradient = jnp.full(10_000, 300.0, jnp.float16)  # its square is beyond float16
    assert global_norm([gradient]) == 30_000.0
    assert global_norm([jnp.ones(10_000, jnp.bfloat16)]) == 100.0  # bfloat16 stops counting at 256


def test_no_gradients_have_norm_zero():
    clipped, norm = clip_by_global_norm([], 1.0)
    assert clipped == []
    assert (norm.dtype, norm.weak_type, norm.item()) == (jnp.float32, False, 0.0)


def test_a_new_max_norm_compiles_nothing(compilations):
    gradients = [jnp.asarray(array, jnp.float32) for array in ARRAYS]
    clip_by_global_norm(gradients, 1.0)
    compilations.clear()
    [first, *_], _ = clip_by_global_norm(gradients, 0.5)
    [second, *_], _ = clip_by_global_norm(tuple(gradients), jnp.float32(0.25))
    assert compilations == []
    np.testing.assert_allclose(first, 2 * second, rtol=1e-6)
