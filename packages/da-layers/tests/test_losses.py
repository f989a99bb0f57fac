"""What every loss must do, in float64, and the labels that the cross-entropy takes."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import MSE, Focal, Huber, Layer, MeanLoss, SoftmaxCrossEntropy

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


def test_a_weight_of_0_equals_absence_and_of_2_a_twin(loss_case):
    if loss_case.shape == (3,) and "one" in loss_case.name:
        pytest.skip("a single row has no samples to weigh")
    loss = loss_case.make()
    prediction, target = map(jnp.asarray, loss_case.arrays())
    samples = len(prediction)
    weight = jnp.ones(samples).at[0].set(0.0).at[1].set(2.0)
    spoilt = prediction.at[0].set(jnp.nan)
    chosen = jnp.array([1, 1, *range(2, samples)])
    weighted, gradient = loss.forward(spoilt, target, weight), loss.backward()
    expected = loss.forward(prediction[chosen], target[chosen])
    of_chosen = loss.backward()
    np.testing.assert_allclose(weighted, expected, **TIGHT)
    np.testing.assert_array_equal(gradient[0], 0)
    np.testing.assert_allclose(gradient[1], of_chosen[0] + of_chosen[1], **TIGHT)
    np.testing.assert_allclose(gradient[2:], of_chosen[2:], **TIGHT)


def test_where_no_sample_has_weight_the_loss_is_0(loss_case):
    loss = loss_case.make()
    prediction, target = map(jnp.asarray, loss_case.arrays())
    assert loss.forward(prediction, target, jnp.zeros(prediction.shape[: min(1, prediction.ndim - 1)])) == 0
    np.testing.assert_array_equal(loss.backward(), 0)


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_predictions_give_finite_numbers(loss_case, size):
    loss = loss_case.make()
    prediction, target = loss_case.arrays()
    large = jnp.asarray(prediction * 0 + size * np.sign(prediction), jnp.float32)
    assert np.isfinite(loss.forward(large, jnp.asarray(target)))
    assert np.isfinite(loss.backward()).all()


def test_ignored_labels_count_as_absent():
    logits, labels = jnp.asarray(np.random.default_rng(0).normal(size=(4, 3))), jnp.array([0, -100, 2, -100])
    loss = SoftmaxCrossEntropy(ignore_index=-100)
    value = loss.forward(logits, labels)
    assert (loss.backward()[1] == 0).all()
    np.testing.assert_allclose(value, loss.forward(logits[::2], labels[::2]), **TIGHT)
    weight = jnp.array([3.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(
        loss.forward(logits, labels, weight), loss.forward(logits[::2], labels[::2], weight[::2]), **TIGHT
    )
    loss.check_labels(logits, -100, 2)
    with pytest.raises(ValueError, match=r"y must hold labels from 0 to 2"):
        loss.check_labels(logits, -1, 2)


def test_weights_of_tokens():
    rng = np.random.default_rng(0)
    logits, labels = jnp.asarray(rng.normal(size=(2, 3, 4))), jnp.asarray(rng.integers(0, 4, (2, 3)))
    mask = jnp.array([[1, 1, 0], [1, 0, 0]])
    loss, flat = SoftmaxCrossEntropy(), SoftmaxCrossEntropy()
    kept = np.flatnonzero(mask)
    np.testing.assert_allclose(
        loss.forward(logits, labels, mask), flat.forward(logits.reshape(6, 4)[kept], labels.reshape(6)[kept]), **TIGHT
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Huber(0), r"^Huber: delta must be a finite number above 0\. Received: delta=0"),
        (lambda: Focal(-1), r"^Focal: gamma must be a finite number of 0 or more\. Received: gamma=-1"),
        (lambda: Focal(alpha=2), r"^Focal: alpha must be None or in \[0, 1\]\. Received: alpha=2"),
        (lambda: SoftmaxCrossEntropy(1.0), r"label_smoothing must be in \[0, 1\)\. Received: label_smoothing=1\.0"),
        (
            lambda: SoftmaxCrossEntropy(ignore_index=0.5),
            r"ignore_index must be an int or None\. Received: ignore_index=0",
        ),
        (
            lambda: MSE().forward(jnp.ones((3, 2)), jnp.ones((3, 2)), jnp.ones(2)),
            r"^MSE: sample_weight must have the first axes of the prediction \(3, 2\)\. Received: .*shape=\(2,\)",
        ),
        (lambda: MeanLoss().forward(jnp.ones(2), jnp.ones(2)), r"MeanLoss must write formula\(prediction, target\)"),
    ],
)
def test_losses_say_what_they_require(make, message):
    with pytest.raises((ValueError, NotImplementedError), match=message):
        make()


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
