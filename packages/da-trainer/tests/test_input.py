"""What users hand in: the good in every form, the bad refused by name, in both executors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import MSE, Dense, Layer, SoftmaxCrossEntropy, mlp
from da_optim import SGD
from da_trainer import Trainer, bits_equal

X, Y = np.random.default_rng(0).standard_normal((12, 8)).astype(np.float32), np.arange(12) % 3


def nan_at(value):
    bad = X.copy()
    bad[3, 7] = value
    return bad


BAD = {
    "empty": (dict(X=X[:0], y=Y[:0]), r"X must hold one sample at least\. Received: X\.shape=\(0, 8\)"),
    "lengths": (dict(y=Y[:5]), r"X and y must have the same length\. Received: len\(X\)=12, len\(y\)=5"),
    "batch_size 0": (dict(batch_size=0), "batch_size must be an integer of 1 or more. Received: batch_size=0"),
    "batch_size -1": (dict(batch_size=-1), "batch_size must be an integer of 1 or more. Received: batch_size=-1"),
    "batch_size 2.5": (dict(batch_size=2.5), "batch_size must be an integer"),
    "epochs": (dict(epochs=-1), "epochs must be an integer of 0 or more. Received: epochs=-1"),
    "width": (dict(X=X[:, :5]), r"layers\.0 \(Dense\): x must have shape \(\.\.\., 8\)\. Received: x\.shape=\(4, 5\)"),
    "width's argument": (dict(X=X[:, :5]), r"The arguments were X\.shape=\(12, 5\), y\.shape=\(12,\)"),
    "integers": (dict(X=np.ones((12, 8), int)), r"X must be of a float dtype\. Received: X\.dtype=int32"),
    "scalar": (dict(X=1.0), r"X must have samples along its first axis\. Received: X\.shape=\(\)"),
    "objects": (dict(X=X.astype(object)), r"X must hold numbers\. Received: X\.dtype=object"),
    "strings": (dict(y=np.array(["a"] * 12)), r"y must hold numbers\. Received: y\.dtype=<U1"),
    "ragged": (dict(X=[[1.0], [1.0, 2.0]]), "X must be an array: rows of one length"),
    "NaN": (dict(X=nan_at(np.nan)), r"X must be finite in float32\. Received: X\[3, 7\]=nan"),
    "infinity": (dict(X=nan_at(-np.inf)), r"X must be finite in float32\. Received: X\[3, 7\]=-inf"),
    "too large": (dict(X=nan_at(0).astype(float) + 1e300), r"X must be finite in float32\. Received: X\[0, 0\]=inf"),
    "label too large": (dict(y=Y + 1), r"y must hold labels from 0 to 2.* Received: y\.min\(\)=1, y\.max\(\)=3"),
    "label negative": (dict(y=Y - 1), r"y must hold labels from 0 to 2.* Received: y\.min\(\)=-1, y\.max\(\)=1"),
    "label shape": (dict(y=np.zeros((12, 2))), r"target must be integer labels of shape \(4,\) or float rows"),
    "drop_last": (dict(batch_size=13, drop_last=True), "batch_size must be at most the 12 samples"),
    "X_val alone": (dict(X_val=X), "X_val and y_val must be given together"),
    "X_val NaN": (dict(X_val=nan_at(np.nan), y_val=Y), r"X_val must be finite"),
    "y_val lengths": (dict(X_val=X, y_val=Y[:3]), "X_val and y_val must have the same length"),
    "patience alone": (dict(patience=3), "patience must come with X_val and y_val. Received: patience=3"),
    "patience 0": (dict(patience=0, X_val=X, y_val=Y), "patience must be an integer of 1 or more"),
    "min_delta": (dict(patience=1, X_val=X, y_val=Y, min_delta=-1.0), "min_delta must be a finite number of 0 or more"),
}


@pytest.fixture
def make(mode):
    return lambda: Trainer(mlp([8, 6, 3], jax.random.key(0)), SoftmaxCrossEntropy(), SGD(0.1), compile=mode)


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_and_changes_nothing(make, name):
    changed, message = BAD[name]
    trainer = make().fit(X, Y, 1, 4)
    before = (trainer.model.state_dict(), {key: list(values) for key, values in trainer.history_.items()})
    with pytest.raises(ValueError, match=message):
        trainer.fit(**({"X": X, "y": Y, "epochs": 1, "batch_size": 4} | changed))
    assert bits_equal(before, (trainer.model.state_dict(), trainer.history_))
    trainer.fit(X, Y, 1, 4)


@pytest.mark.parametrize("name", ["empty", "lengths", "integers", "NaN", "width", "label too large", "batch_size 0"])
def test_evaluate_and_predict_refuse_the_same(make, name):
    changed, message = BAD[name]
    arguments = {"X": X, "y": Y, "batch_size": 4} | changed
    trainer = make()
    with pytest.raises(ValueError, match=message):
        trainer.evaluate(**arguments)
    if not {"y"} & changed.keys():
        with pytest.raises(ValueError, match=message.replace(", y.shape=(12,)", "").replace(r", y\.shape=\(12,\)", "")):
            trainer.predict(arguments["X"], arguments["batch_size"])


def test_first_fit_with_labels_out_of_range_changes_nothing(make):
    trainer = make()
    before = trainer.model.state_dict()
    with pytest.raises(ValueError, match="SoftmaxCrossEntropy: y must hold labels from 0 to 2"):
        trainer.fit(X, Y + 5, 1, 4)
    assert bits_equal(before, trainer.model.state_dict())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "uint64"])
def test_labels_of_every_integer_dtype(make, dtype):
    assert bits_equal(make().fit(X, Y, 2, 5).history_, make().fit(X, Y.astype(dtype), 2, 5).history_)


def test_labels_as_bool(make):
    assert bits_equal(make().fit(X, Y % 2, 2, 5).history_, make().fit(X, Y % 2 == 1, 2, 5).history_)


def test_inputs_in_every_form(make, tmp_path):
    mapped = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=X.shape)
    mapped[:] = X
    expected = make().fit(X, Y, 2, 5).history_
    for form in (X.tolist(), X.astype(np.float64), mapped, jnp.asarray(X)):
        assert bits_equal(expected, make().fit(form, Y, 2, 5).history_)


class Two(Layer):
    """Adds the outputs of one Dense for each of two inputs."""

    def __init__(self):
        self.parts = {"a": Dense(8, 3, jax.random.key(0)), "b": Dense(8, 3, jax.random.key(1))}

    def forward(self, x, training=False):
        first, second = (x["a"], x["b"]) if isinstance(x, dict) else x
        return self.parts["a"].forward(first, training) + self.parts["b"].forward(second, training)

    def backward(self, g):
        return self.parts["a"].backward(g), self.parts["b"].backward(g)


def test_inputs_as_dict_and_tuple():
    results = []
    for mode in (False, True):
        for form in ({"a": X, "b": -X}, (X, -X)):
            trainer = Trainer(Two(), SoftmaxCrossEntropy(), SGD(0.1), compile=mode).fit(form, Y, 2, 5)
            results.append((trainer.history_, trainer.predict(form)))
    assert all(bits_equal(results[0], result) for result in results)


def test_dict_inputs_are_named_in_errors():
    trainer = Trainer(Two(), SoftmaxCrossEntropy(), SGD(0.1))
    with pytest.raises(ValueError, match=r"X\['b'\] must be finite in float32"):
        trainer.fit({"a": X, "b": nan_at(np.nan)}, Y, 1, 4)
    with pytest.raises(ValueError, match="The arrays of X must have the same length"):
        trainer.fit({"a": X, "b": X[:3]}, Y, 1, 4)


class NoProtocol:
    lr = 0.1

    def step(self, weights, gradient):
        return weights - 0.1 * gradient


CONSTRUCTOR = {
    "optimizer": (dict(optimizer=NoProtocol()), "NoProtocol, which lacks init, update"),
    "compile": (
        dict(compile="fast"),
        r"compile must be False, True \(the same as 'exact'\) or 'fused'.*compile='fast'",
    ),
    "compile 1": (dict(compile=1), "compile must be False, True"),
    "decay": (dict(decay="L2"), "decay must be 'l2' or 'decoupled'. Received: decay='L2'"),
    "weight_decay": (dict(weight_decay=-1.0), "weight_decay must be a finite number of 0 or more"),
    "clip_norm": (dict(clip_norm=float("nan")), "clip_norm must be None or a finite number of 0 or more"),
    "schedule": (dict(schedule=3), r"schedule must have multiplier\(epoch\). Received: schedule=3"),
    "on_nonfinite": (dict(on_nonfinite="ignore"), "on_nonfinite must be 'raise' or 'skip'"),
    "model": (dict(model=3), "model must be a da_layers.Layer. Received: model=3"),
    "loss": (dict(loss=MSE), "loss must be a da_layers.Loss"),
}


@pytest.mark.parametrize("name", CONSTRUCTOR)
def test_constructor_names_what_is_wrong(name, mode):
    changed, message = CONSTRUCTOR[name]
    arguments = dict(model=mlp([8, 3], jax.random.key(0)), loss=MSE(), optimizer=SGD(0.1), compile=mode)
    with pytest.raises(ValueError, match=message):
        Trainer(**(arguments | changed))
