import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import Buffer, Dense, Dropout, Key, Param, Sequential, Variable


@pytest.mark.parametrize("cls", [Variable, Param, Buffer])
def test_value_keeps_its_shape(cls):
    variable = cls(jnp.zeros((2, 3)))
    variable.value = np.ones((2, 3))
    np.testing.assert_array_equal(variable.value, 1)
    requirement = (
        rf"^a variable outside a model \({cls.__name__}\) must keep its shape \(2, 3\)\. "
        r"Received: value\.shape=\(3, 2\)"
    )
    with pytest.raises(ValueError, match=requirement):
        variable.value = jnp.ones((3, 2))
    np.testing.assert_array_equal(variable.value, 1)


def test_errors_name_the_path_once_the_variable_sits_in_a_model():
    model = Sequential(Dense(4, 6, 0))
    _, bias = model.params()
    with pytest.raises(ValueError, match=r"^layers\.0\.bias \(Param\) must keep its shape \(6,\)"):
        bias.value = jnp.ones(3)
    with pytest.raises(
        ValueError,
        match=r"^The gradient of layers\.0\.bias \(Param\) must have shape \(6,\)\. Received: gradient\.shape=\(4,\)",
    ):
        bias.add_grad(jnp.ones(4))


@pytest.mark.parametrize("value", [1.0, jnp.asarray(1.0), jnp.float32(1), np.float64(1)])
def test_weak_types_are_removed(value):
    variable = Variable(value)
    assert not variable.value.aval.weak_type
    variable.value = value
    assert not variable.value.aval.weak_type
    assert variable.value.dtype == jnp.float32


def test_a_jax_array_brings_its_dtype_and_all_else_gets_the_values():
    param = Param(jnp.zeros(2))
    param.value = jnp.ones(2, jnp.bfloat16)
    assert param.value.dtype == jnp.bfloat16
    param.value = [1, 2]
    assert param.value.dtype == jnp.bfloat16


def test_value_does_not_follow_the_array_it_came_from():
    array = np.zeros(1000, np.float32)
    variable = Variable(array)
    array[:] = 1
    np.testing.assert_array_equal(variable.value, 0)


@pytest.mark.parametrize("role", ["weight", "bias", "scale"])
def test_roles(role):
    assert Param(jnp.ones(2), role=role).role == role


def test_unknown_role_is_rejected():
    with pytest.raises(ValueError, match=r"^role must be one of weight, bias, scale\. Received: role='gain'"):
        Param(jnp.ones(2), role="gain")


@pytest.mark.parametrize("dtype", [int, bool, jnp.complex64])
def test_param_is_of_a_float_dtype(dtype):
    requirement = r"\(Param\) must be of a float dtype\. Received: value\.dtype="
    with pytest.raises(ValueError, match=requirement):
        Param(jnp.ones(2, dtype))
    param = Param(jnp.zeros(2))
    with pytest.raises(ValueError, match=requirement):
        param.value = jnp.ones(2, dtype)
    np.testing.assert_array_equal(param.value, 0)


def test_gradient_is_zeros_until_added_and_after_zero_grad():
    param = Param(jnp.ones((2, 3), jnp.float16))
    for _ in range(2):
        np.testing.assert_array_equal(param.grad, np.zeros((2, 3)))
        assert param.grad.dtype == jnp.float16
        param.add_grad(jnp.ones((2, 3), jnp.float16))
        param.add_grad(jnp.full((2, 3), 2, jnp.float16))
        np.testing.assert_array_equal(param.grad, np.full((2, 3), 3))
        param.zero_grad()


def test_set_grad_replaces_and_checks_the_shape():
    param = Param(jnp.ones(2))
    param.add_grad(jnp.ones(2))
    param.set_grad(jnp.array([3.0, 4.0]))
    np.testing.assert_array_equal(param.grad, [3, 4])
    with pytest.raises(ValueError, match=r"must have shape \(2,\)\. Received: gradient\.shape=\(1, 2\)"):
        param.set_grad(jnp.ones((1, 2)))


def test_repr_shows_name_dtype_and_shape():
    model = Sequential(Dense(4, 6, 0))
    assert repr(model.layers[0].weight) == "Param(float32[4, 6])"
    model.variables()
    assert repr(model.layers[0].weight) == "Param(layers.0.weight: float32[4, 6])"


def draws(stream, count=3):
    return [float(jax.random.uniform(stream.next())) for _ in range(count)]


def test_key_differs_each_time_and_is_reproducible():
    first = draws(Key(0))
    assert len(set(first)) == 3
    assert draws(Key(0)) == first
    assert not set(draws(Key(1))) & set(first)


@pytest.mark.parametrize("seed", [7, jax.random.key(7), jax.random.PRNGKey(7), np.array([0, 7], np.uint32)])
def test_every_kind_of_seed_gives_the_same_stream(seed):
    assert draws(Key(seed)) == draws(Key(7))
    stream = Key(0)
    stream.value = jax.random.key(7) if isinstance(seed, int) else seed
    assert draws(stream) == draws(Key(7))


def test_key_keeps_the_kind_of_generator():
    stream = Key(jax.random.key(0, impl="rbg"))
    assert jax.random.key_impl(stream.next()) == "rbg"


def test_key_value_may_be_saved_and_loaded():
    stream = Key(0)
    stream.next()
    saved = np.asarray(stream.value)
    expected = draws(stream)
    stream.value = saved
    assert draws(stream) == expected
    assert saved.dtype == np.uint32


@pytest.mark.parametrize("again", [copy.deepcopy, lambda part: pickle.loads(pickle.dumps(part))])
@pytest.mark.parametrize(
    "variable", [Variable([1.0]), Param([1.0, 2.0], role="bias", trainable=False), Buffer(3), Key(5)]
)
def test_copies_are_equal_and_apart(variable, again):
    other = again(variable)
    assert type(other) is type(variable)
    np.testing.assert_array_equal(other.value, variable.value)
    if isinstance(variable, Param):
        assert (other.role, other.trainable) == ("bias", False)
        other.add_grad(jnp.ones(2))
        np.testing.assert_array_equal(variable.grad, 0)
    if isinstance(variable, Key):
        assert draws(other) == draws(Key(5))
        np.testing.assert_array_equal(variable.value, Key(5).value)


def test_params_buffers_and_keys_of_a_model():
    model = Sequential(Dense(4, 6, 0), Dropout(0.5, 0))
    assert {path: type(variable) for path, variable in model.variables().items()} == {
        "layers.0.weight": Param,
        "layers.0.bias": Param,
        "layers.1.key": Key,
    }


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (Param(jnp.zeros(())), "abc", r"\(Param\) must be set to numbers\. Received: value='abc'"),
        (Buffer(jnp.zeros((), int)), 3.7, r"\(Buffer\) must be set to integers\. Received: value=3\.7"),
        (Buffer(jnp.zeros(2, int)), np.array([1.5, 2]), r"\(Buffer\) must be set to integers\. Received: value=array"),
    ],
)
def test_what_a_variable_cannot_hold_is_refused(variable, value, message):
    with pytest.raises(ValueError, match=message):
        variable.value = value
    np.testing.assert_array_equal(variable.value, 0)
