"""What every layer must do, asked of every layer in the table of cases; in float64."""

import copy
import pickle

import da_layers
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import AutoLayer, Dense, Dropout, Layer, Loss, MeanLoss, Param, Sequential, Sigmoid

pytestmark = pytest.mark.usefixtures("x64")
TIGHT = {"rtol": 1e-10, "atol": 1e-12}


def public_classes(base):
    found = [part for part in vars(da_layers).values() if isinstance(part, type) and issubclass(part, base)]
    return set(found) - {base}


def kept(layer):
    return [entry for part in layer.layers_by_path().values() for entry in vars(part).get("_kept", ())]


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def gradients(layer):
    return {path: variable.grad for path, variable in layer.variables().items() if isinstance(variable, Param)}


def param_values(layer):
    return {path: variable.value for path, variable in layer.variables().items() if isinstance(variable, Param)}


def assert_close(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(leaves(actual), leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, **TIGHT)


def test_every_public_layer_has_a_case(cases):
    made = {type(part) for case in cases for part in case.make().layers_by_path().values()}
    assert public_classes(Layer) - {AutoLayer} - made == set()
    assert any(issubclass(cls, AutoLayer) for cls in made)


def test_every_public_loss_has_a_case(loss_cases):
    assert public_classes(Loss) - {MeanLoss} == {type(case.make()) for case in loss_cases}


def test_forward_equals_the_numpy_formula(case):
    layer, x = case.build(), case.x()
    np.testing.assert_allclose(layer.forward(x), case.formula(layer, np.asarray(x)), **TIGHT)
    if case.training_formula is not None:
        expected = case.training_formula(layer, np.asarray(x))
        np.testing.assert_allclose(layer.forward(x, training=True), expected, **TIGHT)


def test_backward_equals_vjp(case, pure):
    layer, x = case.build(), case.x()
    y, pullback = jax.vjp(pure(layer), param_values(layer), x)
    g = case.g(y)
    expected_gradients, expected_gx = pullback(g)

    assert_close(layer.forward(x, training=True), y)
    assert_close(layer.backward(g), expected_gx)
    assert_close(gradients(layer), expected_gradients)


class Twice(Layer):
    """y = f(x) + f(x / 2), with one layer f."""

    def __init__(self, inner):
        self.inner = inner

    def forward(self, x, training=False):
        return self.inner.forward(x, training) + self.inner.forward(x / 2, training)

    def backward(self, g):
        return self.inner.backward(g) / 2 + self.inner.backward(g)


def test_layer_used_twice_in_one_forward(case):
    layer, twice, x = case.build(), Twice(case.build()), case.x()
    g = case.g(layer.forward(x))
    y, gx = layer.forward(x, training=True), layer.backward(g)
    y_half, gx_half = layer.forward(x / 2, training=True), layer.backward(g)

    assert_close(twice.forward(x, training=True), y + y_half)
    assert_close(twice.backward(g), gx + gx_half / 2)
    assert_close(gradients(twice.inner), gradients(layer))
    assert kept(twice) == []


@pytest.mark.parametrize("inner", [lambda: Dense(4, 4, 0), lambda: Dropout(0.4, 0), Sigmoid])
def test_layer_used_twice_equals_vjp(inner, pure):
    layer = inner()
    model, x = Sequential(layer, Twice(layer), layer), jnp.linspace(-1.0, 1.0, 8).reshape(2, 4)
    y, pullback = jax.vjp(pure(model), param_values(model), x)
    g = jnp.cos(jnp.arange(8.0)).reshape(2, 4)
    expected_gradients, expected_gx = pullback(g)
    assert_close(model.forward(x, training=True), y)
    assert_close(model.backward(g), expected_gx)
    assert_close(gradients(model), expected_gradients)


def test_gradients_add_up_until_zero_grad(case):
    layer, x = case.build(), case.x()
    start = layer.state_dict()
    layer.backward(case.g(layer.forward(x, training=True)))
    once = gradients(layer)
    layer.load_state_dict(start)  # the same masks again
    layer.backward(case.g(layer.forward(x, training=True)))
    for path, gradient in gradients(layer).items():
        # A Param that is used twice has a sum of four, of which the order counts.
        np.testing.assert_allclose(gradient, 2 * np.asarray(once[path]), **TIGHT)
    for param in layer.params():
        param.zero_grad()
        assert not np.asarray(param.grad).any()


def test_evaluation_keeps_nothing(case):
    layer = case.build()
    before = layer.state_dict()
    layer.forward(case.x())
    assert kept(layer) == []
    for path, now in layer.state_dict().items():
        assert now is before[path]


def test_backward_leaves_nothing_behind(case):
    layer = case.build()
    y = layer.forward(case.x(), training=True)
    assert kept(layer) != []
    layer.backward(case.g(y))
    assert kept(layer) == []


def test_forwards_without_backward_keep_memory_flat(case, live_arrays):
    layer, x = case.build(), case.x()
    layer.forward(x, training=True)
    layer.forward(x, training=True)
    entries, arrays = len(kept(layer)), len(jax.live_arrays())
    for _ in range(100):
        layer.forward(x, training=True)
    assert len(kept(layer)) == entries
    assert live_arrays(limit=arrays) <= arrays


def test_backward_without_forward_names_the_path(case):
    layer = case.build()
    model = Sequential(Sequential(layer))
    g = case.g(layer.forward(case.x()))
    with pytest.raises(RuntimeError, match=r"layers\.0\.layers\.0[\w.]* \(\w+\): backward needs a forward\("):
        model.backward(g)


def test_second_backward_needs_a_second_forward(case):
    layer = case.build()
    g = case.g(layer.forward(case.x(), training=True))
    layer.backward(g)
    with pytest.raises(RuntimeError, match=r"one for each backward"):
        layer.backward(g)


def test_wrong_shape_names_path_requirement_and_shape(case):
    if case.rejects is None:
        return
    shape, requirement = case.rejects
    model = Sequential(Sequential(case.build()))
    received = r"Received: x\.shape=\(" + ", ".join(map(str, shape))
    with pytest.raises(ValueError, match=rf"^layers\.0\.layers\.0[\w.]* \(\w+\): {requirement}.*{received}"):
        model.forward(jnp.ones(shape))


def test_integers_are_rejected_where_the_layer_says_so(case):
    model, x = Sequential(case.build()), jnp.asarray(np.ones(case.shape, int))
    if not case.only_float:
        assert model.forward(x).shape == model.forward(case.x()).shape
        return
    for training in (False, True):
        requirement = r"^layers\.0[\w.]* \(\w+\): x must be of a float dtype\. Received: x\.dtype=int64"
        with pytest.raises(ValueError, match=requirement):
            model.forward(x, training=training)


class Broken(Layer):
    def __init__(self, direction):
        self.direction = direction

    def forward(self, x, training=False):
        if self.direction == "forward":
            raise ZeroDivisionError("no layer of ours")
        return x

    def backward(self, g):
        raise ZeroDivisionError("no layer of ours")


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_error_in_a_users_layer_gets_a_note_with_its_path(direction):
    model = Sequential(Sequential(da_layers.ReLU(), Broken(direction)))
    with pytest.raises(ZeroDivisionError) as caught:
        model.backward(model.forward(jnp.ones(2), training=True))
    assert caught.value.__notes__ == [f"In layers.0.layers.1 (Broken), {direction}."]


def test_inputs_stay_as_they_are(case):
    layer, again = case.build(), case.build()
    x = np.array(case.x())
    g = np.array(case.g(again.forward(case.x(), training=True)))
    given_x, given_g = x.copy(), g.copy()

    y, gx = layer.forward(given_x, training=True), layer.backward(given_g)
    np.testing.assert_array_equal(given_x, x)
    np.testing.assert_array_equal(given_g, g)
    assert gx.shape == x.shape
    assert y.shape == g.shape


def copied(layer):
    return copy.deepcopy(layer)


def pickled(layer):
    return pickle.loads(pickle.dumps(layer))


@pytest.mark.parametrize("copy_of", [copied, pickled])
def test_copies_give_the_same_output(case, copy_of):
    layer, x = case.build(), case.x()
    layer.forward(x, training=True)  # what is kept must not be in the way
    other = copy_of(layer)
    assert kept(other) == []
    for training in (False, True):
        np.testing.assert_array_equal(layer.forward(x, training=training), other.forward(x, training=training))
    assert all(a is not b for a, b in zip(layer.params(), other.params(), strict=True))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_low_precision_stays_in_forward_and_backward(case, dtype):
    layer, x = case.build(), case.x(dtype)
    for param in layer.params():
        param.value = jnp.asarray(np.asarray(param.value), dtype)
    before = jax.eval_shape(lambda: (layer.state_dict(), gradients(layer)))

    def step(x):
        y = layer.forward(x, training=True)
        return y, layer.backward(jnp.ones_like(y)), (layer.state_dict(), gradients(layer))

    assert jax.eval_shape(layer.forward, x).dtype == dtype
    y, gx, after = jax.eval_shape(step, x)
    assert (y.dtype, gx.dtype, gx.shape) == (dtype, dtype, x.shape)
    assert after == before


def test_second_call_compiles_nothing(case, compilations):
    layer, x = case.build(), case.x()

    def step():
        y = layer.forward(x, training=True)
        layer.forward(x)
        layer.backward(g)
        return y

    g = case.g(layer.forward(x))
    step()
    step()  # the first that adds to a gradient
    with compilations() as names:
        step()
    assert names == []


def test_variables_keep_their_form_through_a_step(case):
    layer = case.build()
    form = {path: (v.value.shape, v.value.dtype, v.value.aval.weak_type) for path, v in layer.variables().items()}
    layer.backward(case.g(layer.forward(case.x(), training=True)))
    now = {path: (v.value.shape, v.value.dtype, v.value.aval.weak_type) for path, v in layer.variables().items()}
    assert now == form


def test_state_goes_from_one_layer_to_another(case):
    layer, other = case.build(), case.make()
    saved = {path: np.asarray(array) for path, array in layer.state_dict().items()}  # as np.savez would write it
    other.load_state_dict(saved)
    for training in (False, True):
        np.testing.assert_array_equal(
            layer.forward(case.x(), training=training), other.forward(case.x(), training=training)
        )
