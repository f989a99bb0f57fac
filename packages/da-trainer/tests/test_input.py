"""What users hand in: the good in every form, the bad refused by name, in both executors."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import (
    MSE,
    BCEWithLogits,
    Dense,
    Focal,
    Hinge,
    KLDivergence,
    Layer,
    Param,
    SoftmaxCrossEntropy,
    mlp,
)
from da_optim import SGD, Schedule
from da_trainer import Callback, Trainer, bits_equal

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
    "integers": (
        dict(X=np.ones((12, 8), int)),
        r"layers\.0 \(Dense\): x must be of a float dtype\. Received: x\.dtype=int32",
    ),
    "booleans": (dict(X=X > 0), r"X must be of a float or integer dtype\. Received: X\.dtype=bool"),
    "masked": (dict(X=np.ma.masked_less(X, 0)), r"X must be an array without a mask\. Received: X=MaskedArray"),
    "shuffle": (dict(shuffle="no"), r"shuffle must be True or False\. Received: shuffle='no'"),
    "key a text": (dict(key="a"), r"key must be one key from jax\.random\.key or PRNGKey\. Received: key='a'"),
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
    "X_val alone": (dict(X_val=X), r"X_val and y_val must be given together\. Received: X_val='given', y_val='None'"),
    "X_val NaN": (dict(X_val=nan_at(np.nan), y_val=Y), r"X_val must be finite"),
    "y_val lengths": (dict(X_val=X, y_val=Y[:3]), "X_val and y_val must have the same length"),
    "X_val width": (
        dict(X_val=X[:, :5], y_val=Y),
        r"layers\.0 \(Dense\): x must have shape \(\.\.\., 8\)(.|\n)*X_val\.shape=\(4, 5\), y_val\.shape=\(4,\)",
    ),
    "y_val labels": (dict(X_val=X, y_val=Y + 1), r"y must hold labels from 0 to 2(.|\n)*y_val\.shape"),
    "y_val shape": (
        dict(X_val=X, y_val=np.zeros((12, 2))),
        r"target must be integer labels(.|\n)*y_val",
    ),
    "labels too large for int32": (
        dict(y=Y + 2**32),
        r"y must fit into int32\. Received: y\.min\(\)=4294967296, y\.max\(\)=4294967298",
    ),
    "key an int": (dict(key=0), r"key must be one key from jax\.random\.key or PRNGKey\. Received: key=0"),
    "keys": (dict(key=jax.random.split(jax.random.key(0))), "key must be one key"),
    "key of floats": (dict(key=np.ones(2)), "key must be one key"),
    "batch_size True": (dict(batch_size=True), "batch_size must be an integer of 1 or more. Received: batch_size=True"),
    "no arrays": (dict(X={}), r"The arrays of X must have the same length\. Received: lengths=\[\]"),
    "complex numbers": (dict(X=X + 1j), r"X must hold numbers\. Received: X\.dtype=complex64"),
    "nothing": (dict(y=None), r"y must hold numbers\. Received: y\.dtype=object"),
    "patience alone": (dict(patience=3), "patience must come with X_val and y_val. Received: patience=3"),
    "patience 0": (dict(patience=0, X_val=X, y_val=Y), "patience must be an integer of 1 or more"),
    "min_delta": (dict(patience=1, X_val=X, y_val=Y, min_delta=-1.0), "min_delta must be a finite number of 0 or more"),
}


@pytest.fixture
def make(mode):
    return lambda: Trainer(mlp([8, 6, 3], jax.random.key(0)), SoftmaxCrossEntropy(), SGD(0.1), compile=mode)


@pytest.fixture(scope="module", params=[False, True], ids=["loop", "compiled"])
def trained(request):
    """One trainer for all bad input, which changes nothing."""
    model = mlp([8, 6, 3], jax.random.key(0))
    return Trainer(model, SoftmaxCrossEntropy(), SGD(0.1), compile=request.param).fit(X, Y, 1, 4)


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_and_changes_nothing(trained, name):
    changed, message = BAD[name]
    before = copy.deepcopy((trained.model.state_dict(), trained.history_, trained.epoch_))
    with pytest.raises(ValueError, match=message):
        trained.fit(**({"X": X, "y": Y, "epochs": 1, "batch_size": 4} | changed))
    assert bits_equal(before, (trained.model.state_dict(), trained.history_, trained.epoch_))
    assert trained.predict(X).shape == (12, 3)


@pytest.mark.parametrize("name", ["empty", "lengths", "integers", "NaN", "width", "label too large", "batch_size 0"])
def test_evaluate_and_predict_refuse_the_same(trained, name):
    changed, message = BAD[name]
    arguments = {"X": X, "y": Y, "batch_size": 4} | changed
    with pytest.raises(ValueError, match=message):
        trained.evaluate(**arguments)
    if "y" not in changed:
        with pytest.raises(ValueError, match=message.replace(r", y\.shape=\(12,\)", "")):
            trained.predict(arguments["X"], arguments["batch_size"])


def test_first_fit_with_labels_out_of_range_changes_nothing(make):
    trainer = make()
    before = trainer.model.state_dict()
    with pytest.raises(ValueError, match="SoftmaxCrossEntropy: y must hold labels from 0 to 2"):
        trainer.fit(X, Y + 5, 1, 4)
    assert bits_equal(before, trainer.model.state_dict())


def test_labels_of_every_integer_dtype_and_bool(make):
    def losses(labels):
        return make().fit(X, labels, 2, 6).history_

    expected = losses(Y % 2)
    for dtype in ("int8", "uint8", "int16", "int64", "uint64", "bool"):
        assert bits_equal(expected, losses((Y % 2).astype(dtype)))


def test_inputs_in_every_form(make, tmp_path):
    mapped = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=X.shape)
    mapped[:] = X
    expected = make().fit(X, Y, 2, 6).history_
    for form in (X.tolist(), X.astype(np.float64), mapped, jnp.asarray(X)):
        assert bits_equal(expected, make().fit(form, Y.tolist(), 2, 6).history_)


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
            trainer = Trainer(Two(), SoftmaxCrossEntropy(), SGD(0.1), compile=mode).fit(form, Y, 2, 6)
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
    "schedule": (dict(schedule=3), r"schedule must be an object with multiplier\(epoch\). Received: schedule=3"),
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


def test_counts_of_every_integer_type(make):
    expected = make().fit(X, Y, 2, 6).history_
    for number in (np.int64, np.uint8, jnp.int32):
        assert bits_equal(make().fit(X, Y, number(2), number(6)).history_, expected)


@pytest.mark.parametrize("number", [np.float32(1), np.int64(1)], ids=repr)
def test_numbers_of_every_type(number, mode):
    options = {"weight_decay": number, "clip_norm": number, "schedule": Constant(number)}
    trainer = Trainer(mlp([8, 3], jax.random.key(0)), SoftmaxCrossEntropy(), SGD(0.1), **options, compile=mode)
    trainer.fit(X, Y, 1, 12, X_val=X, y_val=Y, patience=1, min_delta=number)
    options = {"weight_decay": 1.0, "clip_norm": 1.0}
    other = Trainer(mlp([8, 3], jax.random.key(0)), SoftmaxCrossEntropy(), SGD(0.1), **options, compile=mode)
    assert bits_equal(trainer.history_, other.fit(X, Y, 1, 12, X_val=X, y_val=Y).history_)


class Constant(Schedule):
    def __init__(self, number):
        self.number = number

    def multiplier(self, epoch):
        return jnp.float32(self.number)


def test_callbacks_errors_get_no_note_about_the_data(make):
    class Wrong(Callback):
        def on_step_end(self, trainer, epoch, step, loss):
            raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$") as raised:
        make().fit(X, Y, 1, 4, callbacks=[Wrong()])
    assert not hasattr(raised.value, "__notes__")


@pytest.mark.parametrize(
    ("loss", "target", "message"),
    [
        (SoftmaxCrossEntropy(), -5.0, r"SoftmaxCrossEntropy: y must be from 0 to 1\. Received: y\.min\(\)=-5\.0"),
        (BCEWithLogits(), 2, r"BCEWithLogits: y must be from 0 to 1\. Received: y\.min\(\)=2, y\.max\(\)=2"),
        (Focal(), 1.5, r"Focal: y must be from 0 to 1\."),
        (KLDivergence(), -0.5, r"KLDivergence: y must be from 0 to 1\."),
        (Hinge(), 0, r"Hinge: y must be -1 or 1\. Received: y\.min\(\)=0, y\.max\(\)=0"),
        (Hinge(), 0.0, r"Hinge: y must be -1 or 1\."),
    ],
)
def test_targets_that_a_loss_does_not_take(mode, loss, target, message):
    trainer = Trainer(mlp([8, 3], 0), loss, SGD(0.1), compile=mode)
    before = trainer.model.state_dict()
    with pytest.raises(ValueError, match=message):
        trainer.fit(X, np.full((12, 3), target), 1, 4)
    assert bits_equal(before, trainer.model.state_dict())


class Halves(Dense):
    def backward(self, g):
        return super().backward(g)[:, :4]


def test_the_gradient_of_the_models_input_is_checked(mode):
    trainer = Trainer(Halves(8, 3, 0), MSE(), SGD(0.1), compile=mode)
    refusal = r"Halves: backward must return the gradient of the input, of shape \(4, 8\)\. Received: returned=\(4, 4\)"
    with pytest.raises(ValueError, match=refusal):
        trainer.fit(X, np.zeros((12, 3)), 1, 4)


def test_one_sample_alone_is_no_batch(mode):
    trainer = Trainer(mlp([8, 3], 0), MSE(), SGD(0.1), compile=mode)
    refusal = r"X must have samples along its first axis, .*Received: outputs=\[\(3,\)\]"
    with pytest.raises(ValueError, match=refusal) as raised:
        trainer.predict(X[0])
    assert raised.value.__notes__[-1] == "The arguments were X.shape=(8,)."


class Weighed(MSE):
    def __init__(self):
        self.weight = Param(1.0, role="scale")


class Holds(Layer):
    def __init__(self):
        self.loss = Dense(8, 3, 0)


def test_loss_and_model_may_not_share_a_path():
    with pytest.raises(ValueError, match="Weighed: no Variable may have the path of one of the model's"):
        Trainer(Holds(), Weighed(), SGD(0.1))


def test_executor_may_only_be_one_of_three(mode):
    trainer = Trainer(mlp([8, 3], jax.random.key(0)), MSE(), SGD(0.1), compile=mode)
    with pytest.raises(ValueError, match=r"compile must be False, True .* or 'fused'"):
        trainer.compile = "fast"
    assert trainer.compile is mode


class TwoOutputs(Layer):
    """Gives two outputs."""

    def __init__(self):
        self.dense = Dense(8, 3, 0)

    def forward(self, x, training=False):
        y = self.dense.forward(x, training)
        return {"first": y, "second": y[:, :2]}

    def backward(self, g):
        return self.dense.backward(g["first"])


@pytest.mark.parametrize(("loss", "target"), [(MSE(), np.zeros((12, 3))), (SoftmaxCrossEntropy(), Y)])
def test_model_of_another_structure_than_the_loss_takes(mode, loss, target):
    refusal = (
        rf"^{type(loss).__name__}: prediction and target must be one array each\. Received: "
        r"prediction=\{'first': \(4, 3\), 'second': \(4, 2\)\}, target=\(4,"
    )
    with pytest.raises(ValueError, match=refusal):
        Trainer(TwoOutputs(), loss, SGD(0.1), compile=mode).fit(X, target, 1, 4)


class Widens(SGD):
    """Changes the form of its slots in its first step."""

    def init(self, weights):
        return {"moved": jnp.zeros(2)}

    def update(self, weights, gradient, slots, lr):
        return weights - lr * gradient, self.widened(slots)


WIDENINGS = {
    "shape": (lambda slots: {"moved": jnp.zeros(3)}, r"moved of shape \(2,\) .* Received: moved\.shape=\(3,\)"),
    "dtype": (lambda slots: {"moved": jnp.zeros(2, jnp.int32)}, r"dtype float32\. Received: .* moved\.dtype=int32"),
    "names": (lambda slots: {}, r"give back the slots \['moved'\]\. Received: slots=\[\]"),
}


@pytest.mark.parametrize("widened", WIDENINGS)
def test_optimizer_that_changes_the_form_of_its_slots(mode, widened):
    optimizer = Widens(0.1)
    optimizer.widened, refusal = WIDENINGS[widened]
    model = mlp([8, 3], jax.random.key(0))
    before = model.state_dict()
    with pytest.raises(ValueError, match=rf"Widens\.update on layers\.0\.weight \(Param\) must .*{refusal}"):
        Trainer(model, MSE(), optimizer, compile=mode).fit(X, np.zeros((12, 3)), 1, 4)
    assert bits_equal(before, model.state_dict())


@pytest.mark.parametrize(
    ("setting", "message"),
    {
        "model": "model must be a da_layers.Layer. Received: model=3",
        "loss": "loss must be a da_layers.Loss. Received: loss=3",
        "optimizer_prototype": "An optimizer must have lr",
        "schedule": r"schedule must be an object with multiplier\(epoch\). Received: schedule=3",
        "decay": "decay must be 'l2' or 'decoupled'. Received: decay=3",
        "on_nonfinite": "on_nonfinite must be 'raise' or 'skip'. Received: on_nonfinite=3",
        "clip_norm": None,
    }.items(),
)
def test_settings_are_checked_again_where_they_were_set_later(make, setting, message):
    trainer = make()
    model, state = trainer.model, trainer.model.state_dict()
    setattr(trainer, setting, 3)
    if message is None:
        trainer.fit(X, Y, 1, 4)
        return
    with pytest.raises(ValueError, match=message):
        trainer.fit(X, Y, 1, 4)
    assert bits_equal(model.state_dict(), state)
