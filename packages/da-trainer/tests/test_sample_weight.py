"""Weights of samples in fit, in both executors."""

import numpy as np
import pytest
from da_layers import MSE, Loss, SoftmaxCrossEntropy, mlp
from da_optim import Adam
from da_trainer import Callback, Trainer, bits_equal

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(13, 4)).astype(np.float32), RNG.integers(0, 3, 13)
WEIGHTS = RNG.uniform(0.5, 2, 13)


def make(mode, loss=None):
    return Trainer(mlp([4, 6, 3], 0), loss or SoftmaxCrossEntropy(), Adam(0.01), compile=mode)


def state(trainer):
    return trainer.model.state_dict(), trainer.history_


def test_both_executors_give_the_same_bits():
    loop, compiled = (make(mode).fit(X, Y, 4, 5, sample_weight=WEIGHTS) for mode in (False, True))
    assert bits_equal(state(loop), state(compiled))
    assert not bits_equal(state(loop), state(make(False).fit(X, Y, 4, 5)))


def test_weight_0_is_absence(mode):
    weights = np.ones(13)
    weights[10:] = 0
    weighted = make(mode).fit(X, Y, 3, 13, sample_weight=weights, shuffle=False)
    absent = make(mode).fit(X[:10], Y[:10], 3, 13, shuffle=False)
    for path, value in weighted.model.state_dict().items():
        np.testing.assert_allclose(value, absent.model.state_dict()[path], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(weighted.history_["train_loss"], absent.history_["train_loss"], rtol=1e-5)


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_train_loss_is_the_mean_by_weight(mode, shuffle):
    trainer = make(mode)
    trainer.optimizer_prototype.lr = 0.0
    trainer.fit(X, Y, 2, 5, sample_weight=WEIGHTS, shuffle=shuffle)
    losses = [trainer.evaluate(X[i : i + 1], Y[i : i + 1]) for i in range(13)]
    np.testing.assert_allclose(trainer.history_["train_loss"], [np.average(losses, weights=WEIGHTS)] * 2, rtol=1e-5)


def test_evaluate_weighs_too(mode):
    trainer = make(mode)
    losses = [trainer.evaluate(X[i : i + 1], Y[i : i + 1]) for i in range(13)]
    weighted = trainer.evaluate(X, Y, 5, sample_weight=WEIGHTS)
    np.testing.assert_allclose(weighted, np.average(losses, weights=WEIGHTS), rtol=1e-5)


def test_verify_takes_the_weighted_steps():
    report = make(True).verify(X, Y, 5, steps=6, sample_weight=WEIGHTS)
    assert report.ok
    trainer, losses = make(False), []
    record = Callback()
    record.on_step_end = lambda trainer, epoch, step, loss: losses.append(loss)
    trainer.fit(X, Y, 2, 5, sample_weight=WEIGHTS, callbacks=[record])
    assert report.loop_losses == losses


def test_labels_that_are_ignored_do_not_count_between_batches(mode):
    loss, labels = SoftmaxCrossEntropy(ignore_index=-1), np.where(np.arange(13) < 8, -1, Y)
    trainer = make(mode, loss)
    expected = trainer.evaluate(X[8:], Y[8:], 13)
    for batch_size in (13, 5, 2, 1):
        np.testing.assert_allclose(trainer.evaluate(X, labels, batch_size), expected, rtol=1e-5)
        weighted = trainer.evaluate(X, labels, batch_size, sample_weight=WEIGHTS)
        np.testing.assert_allclose(weighted, trainer.evaluate(X[8:], Y[8:], 13, sample_weight=WEIGHTS[8:]), rtol=1e-5)
    trainer.optimizer_prototype.lr = 0.0
    trainer.fit(X, labels, 1, 5, X_val=X, y_val=labels)
    for losses in (trainer.history_["train_loss"], trainer.history_["val_loss"]):
        np.testing.assert_allclose(losses, [expected], rtol=1e-5)


@pytest.mark.parametrize("target", ["label", "number"])
def test_the_target_of_a_sample_without_weight_may_be_anything(mode, target):
    weights = WEIGHTS.copy()
    weights[3] = 0
    y = Y.copy() if target == "label" else np.eye(3, dtype=np.float32)[Y]
    wrong = y.copy()
    wrong[3] = -1 if target == "label" else np.nan
    trainers = [make(mode).fit(X, labels, 2, 5, sample_weight=weights) for labels in (y, wrong)]
    assert bits_equal(*map(state, trainers))


class Weighed(MSE):
    """Takes the weights by name alone."""

    def forward(self, prediction, target, other=None, *, sample_weight=None):
        assert other is None
        return super().forward(prediction, target, sample_weight)


def test_weights_are_handed_over_by_name(mode):
    y = np.eye(3, dtype=np.float32)[Y]
    runs = [make(mode, loss).fit(X, y, 2, 5, sample_weight=WEIGHTS) for loss in (MSE(), Weighed())]
    assert bits_equal(*map(state, runs))


def test_new_weights_are_a_cause_to_recompile():
    trainer = Trainer(mlp([4, 6, 3], 0), SoftmaxCrossEntropy(), Adam(0.01), compile=True, recompile="raise")
    trainer.fit(X, Y, 1, 13)
    with pytest.raises(ValueError, match="sample_weight is new"):
        trainer.fit(X, Y, 1, 13, sample_weight=WEIGHTS)


class OwnLoss(Loss):
    def forward(self, prediction, target):
        self.keep(prediction)
        return prediction.sum()

    def backward(self):
        (prediction,) = self.take()
        return prediction * 0 + 1


@pytest.mark.parametrize(
    ("loss", "weights", "message"),
    [
        (None, WEIGHTS[:5], r"sample_weight must have 13 entries\. Received: len\(sample_weight\)=5"),
        (None, {"a": WEIGHTS}, r"sample_weight must be one array\. Received: sample_weight=dict"),
        (None, 0 * WEIGHTS, r"sample_weight must be above 0 for one sample at least\."),
        (None, -WEIGHTS, r"sample_weight must be 0 or more\. Received: sample_weight\.min\(\)=-"),
        (None, WEIGHTS * np.inf, r"sample_weight must be finite"),
        (OwnLoss(), WEIGHTS, r"sample_weight needs a loss with forward\(prediction, target, sample_weight\).*OwnLoss"),
        (MSE(), np.ones((13, 2)), r"sample_weight must have the first axes of the prediction \(5, 3\)"),
    ],
)
def test_weights_that_do_not_fit_are_named(loss, weights, message):
    y = np.zeros((13, 3), np.float32) if isinstance(loss, MSE) else Y
    trainer = make(False, loss)
    before = trainer.model.state_dict()
    with pytest.raises(ValueError, match=message):
        trainer.fit(X, y, 1, 5, sample_weight=weights)
    assert bits_equal(before, trainer.model.state_dict())
