import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import Dropout

SEEDS = {
    "int": 3,
    "numpy int": np.int64(3),
    "typed key": jax.random.key(3),
    "raw key": jax.random.PRNGKey(3),
    "numpy raw key": np.array([0, 3], np.uint32),
}


def mask(layer, shape=(200, 50)):
    return np.asarray(layer.forward(jnp.ones(shape), training=True))


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS.keys())
def test_every_kind_of_key_gives_the_same_masks(seed):
    layer, reference = Dropout(0.5, seed), Dropout(0.5, 3)
    for _ in range(2):
        np.testing.assert_array_equal(mask(layer), mask(reference))


def test_entries_are_zero_or_scaled_and_the_mean_stays():
    x = jnp.asarray(np.random.default_rng(0).normal(2.0, 1.0, (200, 50)), jnp.float32)
    y = np.asarray(Dropout(0.3, 0).forward(x, training=True))
    zero = y == 0
    np.testing.assert_allclose(y[~zero], np.asarray(x)[~zero] / 0.7, rtol=1e-6)
    assert zero.mean() == pytest.approx(0.3, abs=0.02)  # four standard deviations of 10,000 draws
    assert y.mean() == pytest.approx(np.asarray(x).mean(), abs=0.06)


def test_masks_differ_from_call_to_call_and_from_layer_to_layer():
    layer = Dropout(0.5, 0)
    first, second, other = mask(layer), mask(layer), mask(Dropout(0.5, 1))
    assert (first != second).any()
    assert (first != other).any()


def test_evaluation_moves_no_stream():
    layer = Dropout(0.5, 0)
    x = jnp.ones((2, 3))
    assert layer.forward(x) is x
    np.testing.assert_array_equal(mask(layer), mask(Dropout(0.5, 0)))


def test_backward_uses_the_mask_of_its_forward():
    layer = Dropout(0.5, 0)
    y = mask(layer, (4, 5))
    np.testing.assert_array_equal(layer.backward(jnp.full((4, 5), 3.0)), 3 * y)


def test_rate_zero_keeps_everything():
    np.testing.assert_array_equal(mask(Dropout(0.0, 0)), 1)


def test_seeding_again_repeats_the_masks():
    layer = Dropout(0.5, 0)
    first = mask(layer)
    layer.key.value = jax.random.key(0)
    np.testing.assert_array_equal(mask(layer), first)


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_rate_outside_is_rejected(rate):
    with pytest.raises(ValueError, match=rf"^Dropout: rate must be from 0 to below 1\. Received: rate={rate}"):
        Dropout(rate, 0)
