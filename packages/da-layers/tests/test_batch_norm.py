import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import BatchNorm

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(6, 3), (2, 4, 5, 3)])
def test_training_uses_the_batch_and_evaluation_the_running_statistics(shape):
    layer = BatchNorm(3, momentum=0.25)
    axes, count = tuple(range(len(shape) - 1)), np.prod(shape[:-1])
    mean, variance = np.zeros(3), np.ones(3)
    for _ in range(4):
        x = RNG.normal(2.0, 3.0, shape)
        y = layer.forward(jnp.asarray(x, jnp.float32), training=True)
        normal = (x - x.mean(axes)) / np.sqrt(x.var(axes) + layer.epsilon)
        np.testing.assert_allclose(y, normal, rtol=1e-4, atol=1e-4)
        mean = 0.75 * mean + 0.25 * x.mean(axes)
        variance = 0.75 * variance + 0.25 * x.var(axes) * count / (count - 1)
    np.testing.assert_allclose(layer.running_mean.value, mean, rtol=1e-5)
    np.testing.assert_allclose(layer.running_variance.value, variance, rtol=1e-5)

    evaluated = layer.forward(jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(evaluated, (x - mean) / np.sqrt(variance + layer.epsilon), rtol=1e-4, atol=1e-5)


def test_evaluation_does_not_depend_on_the_batch():
    layer, x = BatchNorm(3), jnp.asarray(RNG.normal(size=(8, 3)), jnp.float32)
    layer.forward(x, training=True)
    whole = np.asarray(layer.forward(x))
    parts = np.concatenate([layer.forward(x[:5]), layer.forward(x[5:])])
    np.testing.assert_array_equal(whole, parts)


def test_running_statistics_are_buffers_and_no_params():
    layer = BatchNorm(2)
    assert [(param.name, param.role) for param in layer.params()] == [("scale", "scale"), ("bias", "bias")]
    assert list(layer.state_dict()) == ["scale", "bias", "running_mean", "running_variance"]


@pytest.mark.parametrize(("momentum", "share"), [(0.0, 0.0), (1.0, 1.0)])
def test_momentum_at_its_ends(momentum, share):
    layer = BatchNorm(1, momentum=momentum)
    layer.forward(jnp.array([[1.0], [3.0]]), training=True)
    assert layer.running_mean.value.tolist() == [2.0 * share]


def test_momentum_outside_is_rejected():
    with pytest.raises(ValueError, match=r"^BatchNorm: momentum must be from 0 to 1\. Received: momentum=1\.5"):
        BatchNorm(2, momentum=1.5)


@pytest.mark.parametrize(("dtype", "of_input"), [(jnp.float32, jnp.bfloat16), (jnp.bfloat16, jnp.float32)])
def test_running_statistics_keep_their_dtype_whatever_comes_in(dtype, of_input):
    layer = BatchNorm(1)
    for buffer in (layer.running_mean, layer.running_variance):
        buffer.value = buffer.value.astype(dtype)
    layer.forward(jnp.array([[1.0], [3.0]], of_input), training=True)
    assert (layer.running_mean.value.dtype, layer.running_variance.value.dtype) == (dtype, dtype)
