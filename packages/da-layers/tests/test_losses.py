"""What every loss must do, in float64, and the labels that the cross-entropy takes."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import MSE, Layer, SoftmaxCrossEntropy

pytestmark = pytest.mark.usefixtures("x64")
TIGHT = {"rtol": 1e-10, "atol": 1e-12}


def test_forward_equals_the_numpy_formula(loss_case):
    prediction, target = loss_case.arrays()
    actual = loss_case.make().forward(jnp.asarray(prediction), jnp.asarray(target))
    assert actual.shape == ()
    np.testing.assert_allclose(actual, loss_case.formula(prediction, target), **TIGHT)


def test_backward_equals_vjp(loss_case):
    loss = loss_case.make()
    prediction, target = map(jnp.asarray, loss_case.arrays())
    _, pullback = jax.vjp(lambda prediction: loss.forward(prediction, target), prediction)
    (expected,) = pullback(jnp.ones(()))

    loss.forward(prediction, target)
    actual = loss.backward()
    assert (actual.shape, actual.dtype) == (prediction.shape, prediction.dtype)
    np.testing.assert_allclose(actual, expected, **TIGHT)


def test_backward_needs_a_forward_each_time(loss_case):
    loss = loss_case.make()
    prediction, target = map(jnp.asarray, loss_case.arrays())
    for _ in range(2):
        with pytest.raises(RuntimeError, match=rf"^{type(loss).__name__}: backward needs a forward"):
            loss.backward()
        loss.forward(prediction, target)
        loss.backward()


def test_forwards_without_backward_keep_memory_flat(loss_case, live_arrays):
    loss = loss_case.make()
    prediction, target = map(jnp.asarray, loss_case.arrays())
    loss.forward(prediction, target)
    arrays = len(jax.live_arrays())
    for _ in range(100):
        loss.forward(prediction, target)
    assert live_arrays(limit=arrays) <= arrays
    loss.forget()
    assert live_arrays(limit=arrays - 1) < arrays


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_gradient_has_the_dtype_of_the_prediction(loss_case, dtype):
    loss = loss_case.make()
    prediction, target = loss_case.arrays()

    def step(prediction, target):
        loss.forward(prediction, target)
        return loss.backward()

    gradient = jax.eval_shape(step, jnp.asarray(prediction, dtype), jnp.asarray(target))
    assert (gradient.dtype, gradient.shape) == (dtype, prediction.shape)


def test_inputs_stay_as_they_are(loss_case):
    loss = loss_case.make()
    prediction, target = (np.array(jnp.asarray(array)) for array in loss_case.arrays())
    before = prediction.copy(), target.copy()
    loss.forward(prediction, target)
    loss.backward()
    np.testing.assert_array_equal(prediction, before[0])
    np.testing.assert_array_equal(target, before[1])


def test_second_call_compiles_nothing(loss_case, compilations):
    loss = loss_case.make()
    prediction, target = map(jnp.asarray, loss_case.arrays())
    loss.forward(prediction, target)
    loss.backward()
    with compilations() as names:
        loss.forward(prediction, target)
        loss.backward()
    assert names == []


def test_copies_give_the_same_loss(loss_case):
    loss = loss_case.make()
    prediction, target = map(jnp.asarray, loss_case.arrays())
    expected = loss.forward(prediction, target)
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert other.forward(prediction, target) == expected


def test_integer_predictions_are_rejected(loss_case):
    prediction, target = loss_case.arrays()
    requirement = r"^\w+: prediction must be of a float dtype\. Received: prediction\.dtype=int64"
    with pytest.raises(ValueError, match=requirement):
        loss_case.make().forward(jnp.asarray(prediction.astype(int)), jnp.asarray(target))


def test_mse_names_both_shapes():
    requirement = (
        r"^MSE: prediction and target must have the same shape\. "
        r"Received: prediction\.shape=\(3, 1\), target\.shape=\(3,\)"
    )
    with pytest.raises(ValueError, match=requirement):
        MSE().forward(jnp.ones((3, 1)), jnp.ones(3))


@pytest.mark.parametrize("target", [jnp.ones(4, int), jnp.ones(3), jnp.ones((3, 2)), jnp.ones((3, 4), int)])
def test_cross_entropy_names_the_forms_that_a_target_may_have(target):
    requirement = (
        r"^SoftmaxCrossEntropy: target must be integer labels of shape \(3,\) or float rows of shape \(3, 4\)\. "
        r"Received: target\.shape="
    )
    with pytest.raises(ValueError, match=requirement):
        SoftmaxCrossEntropy().forward(jnp.ones((3, 4)), target)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_label_dtypes_give_the_same_loss(dtype):
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(4, 300)))
    labels = np.array([0, 1, 100, 44])
    loss, other = SoftmaxCrossEntropy(), SoftmaxCrossEntropy()
    assert loss.forward(logits, jnp.asarray(labels)) == other.forward(logits, jnp.asarray(labels.astype(dtype)))
    np.testing.assert_array_equal(loss.backward(), other.backward())


def test_label_outside_the_classes_adds_nothing():
    loss = SoftmaxCrossEntropy()
    logits = jnp.array([[1.0, 2.0], [3.0, 1.0]])
    with_outsider = loss.forward(logits, jnp.array([0, -1]))
    np.testing.assert_array_equal(loss.backward()[1], 0)
    np.testing.assert_allclose(with_outsider, loss.forward(logits[:1], jnp.array([0])) / 2, rtol=1e-6)


@pytest.mark.parametrize(("lowest", "highest"), [(-1, 2), (0, 3)])
def test_check_labels_names_the_range(lowest, highest):
    requirement = (
        rf"SoftmaxCrossEntropy: y must hold labels from 0 to 2, .*Received: y\.min\(\)={lowest}, y\.max\(\)={highest}"
    )
    with pytest.raises(ValueError, match=requirement):
        SoftmaxCrossEntropy().check_labels(jnp.ones((5, 3)), lowest, highest)


def test_check_labels_takes_what_fits():
    SoftmaxCrossEntropy().check_labels(jnp.ones((5, 3)), 0, 2)
    MSE().check_labels(jnp.ones(5), -100, 100)


def test_loss_used_twice_in_one_pass():
    class Both(Layer):
        def __init__(self):
            self.loss = MSE()

        def forward(self, x, training=False):
            return self.loss.forward(x, jnp.zeros(2)) + self.loss.forward(x, jnp.array([2.0, 4.0]))

        def backward(self, g):
            return (self.loss.backward() + self.loss.backward()) * g

    model, x = Both(), jnp.array([1.0, 5.0])
    model.forward(x, training=True)
    np.testing.assert_array_equal(model.backward(1.0), 2 * np.asarray(x) - np.array([2.0, 4.0]))
