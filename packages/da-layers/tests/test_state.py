"""state_dict and load_state_dict."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import BatchNorm, Dense, Dropout, Param, Sequential, mlp


def make(seed):
    return Sequential(Dense(4, 6, seed), BatchNorm(6), Dropout(0.5, seed))


def test_round_trip_through_a_file(tmp_path):
    model, other = make(0), make(1)
    model.forward(jnp.arange(12.0).reshape(3, 4), training=True)
    np.savez(tmp_path / "state.npz", **model.state_dict())
    with np.load(tmp_path / "state.npz") as state:
        other.load_state_dict(state)
    for path, array in model.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[path], array)
    x = jnp.ones((2, 4))
    for training in (False, True):
        np.testing.assert_array_equal(model.forward(x, training=training), other.forward(x, training=training))


def test_state_is_a_picture_of_its_time():
    model = make(0)
    before = model.state_dict()
    model.layers[0].bias.value = np.ones(6)
    np.testing.assert_array_equal(before["layers.0.bias"], 0)


def changed(**changes):
    state = {path: np.ones(array.shape, array.dtype) for path, array in make(1).state_dict().items()}
    state.update({name.replace("__", "."): array for name, array in changes.items()})
    return {path: array for path, array in state.items() if array is not None}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (changed(layers__0__bias=None), r"Received: missing layers\.0\.bias$"),
        (changed(other=np.ones(2)), r"Received: unknown other$"),
        (
            changed(layers__0__bias=np.ones(5)),
            r"^layers\.0\.bias \(Param\) must keep its shape \(6,\)\. Received: value\.shape=\(5,\)",
        ),
        (changed(layers__0__bias=None, other=1), r"Received: missing layers\.0\.bias; unknown other$"),
        (changed(layers__1__bias=jnp.ones(6, int)), r"layers\.1\.bias \(Param\) must be of a float dtype"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(state, message):
    model = make(0)
    before = model.state_dict()
    with pytest.raises(ValueError, match=message):
        model.load_state_dict(state)
    assert all(array is before[path] for path, array in model.state_dict().items())


def test_what_is_no_number_changes_nothing():
    model = make(0)
    before = model.state_dict()
    with pytest.raises((TypeError, ValueError)):
        model.load_state_dict(changed(layers__1__bias=np.array(["a"] * 6)))
    assert all(array is before[path] for path, array in model.state_dict().items())


def test_numpy_arrays_get_the_dtype_of_the_value():
    layer = Sequential(Dense(4, 6, 0))
    layer.load_state_dict({"layers.0.weight": np.ones((4, 6), np.float64), "layers.0.bias": [0] * 6})
    assert {array.dtype for array in layer.state_dict().values()} == {jnp.dtype(jnp.float32)}


def test_a_typed_key_may_be_loaded():
    model = make(0)
    model.load_state_dict({**model.state_dict(), "layers.2.key": jax.random.key(5)})
    np.testing.assert_array_equal(model.layers[2].key.value, jax.random.key_data(jax.random.key(5)))


def test_shared_params_are_saved_once():
    layer = Dense(4, 4, 0)
    model = Sequential(layer, layer)
    assert list(model.state_dict()) == ["layers.0.weight", "layers.0.bias"]
    assert all(isinstance(param, Param) for param in model.params())


def test_an_npz_file_keeps_bfloat16(tmp_path):
    model, other = (mlp([3, 4, 2], seed) for seed in (0, 1))
    for param in [*model.params(), *other.params()]:
        param.value = param.value.astype(jnp.bfloat16)
    np.savez(tmp_path / "model.npz", **model.state_dict())
    with np.load(tmp_path / "model.npz") as state:
        other.load_state_dict(state)
    for param, twin in zip(model.params(), other.params(), strict=True):
        assert twin.value.dtype == jnp.bfloat16
        np.testing.assert_array_equal(param.value, twin.value)
