"""A loss or gradient that is NaN or infinite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import MSE, Dense, Dropout, Layer, Sequential, mlp
from da_optim import SGD, Adam, CosineLR, Schedule
from da_trainer import Callback, Trainer, bits_equal

X = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)
Y = np.zeros_like(X)
# Batch 5 of 3 samples has an entry that makes the trap snap.
LOUD = X.copy()
LOUD[12, 0] = 1000.0


class Trap(Layer):
    """The identity; its backward is NaN where the input was large."""

    def forward(self, x, training=False):
        if training:
            self.keep(x)
        return x

    def backward(self, g):
        (x,) = self.take()
        return jnp.where(jnp.abs(x).max() > 50, jnp.nan, g)


def make(mode, **options):
    parts = Dense(4, 4, jax.random.key(0)), Trap(), Dropout(0.5, 2), Dense(4, 4, jax.random.key(1))
    return Trainer(Sequential(*parts), MSE(), Adam(0.01), compile=mode, **options)


def everything(trainer):
    slots = [param.slots(trainer.optimizer_prototype) for param in trainer.model.params()]
    return trainer.model.state_dict(), slots, trainer.history_


def test_epoch_step_and_layer_are_named_and_the_values_from_before_are_there(mode):
    good, trainer = (make(mode).fit(X, Y, 1, 3, shuffle=False) for _ in range(2))
    good.fit(LOUD[:12], Y[:12], 1, 3, shuffle=False)
    with pytest.raises(FloatingPointError, match=r"epoch 2, step 5, first in layers\.1 \(Trap\), backward"):
        trainer.fit(LOUD, Y, 1, 3, shuffle=False)
    assert bits_equal(everything(good)[:2], everything(trainer)[:2])
    assert len(trainer.history_["train_loss"]) == trainer.epoch_ == 1
    trainer.fit(X, Y, 1, 3)


def test_step_callback_meets_it_too(mode):
    class Count(Callback):
        steps = 0

        def on_step_end(self, trainer, epoch, step, loss):
            Count.steps = step

    with pytest.raises(FloatingPointError, match="epoch 1, step 5"):
        make(mode).fit(LOUD, Y, 1, 3, shuffle=False, callbacks=[Count()])
    assert Count.steps == 4


def test_forward_is_named(mode):
    trainer = make(mode)
    trainer.model.layers[3].bias.value = np.full(4, np.inf)
    with pytest.raises(FloatingPointError, match=r"epoch 1, step 1, first in layers\.3 \(Dense\), forward"):
        trainer.fit(X, Y, 1, 3)


def test_skip_counts_and_moves_nothing():
    results = []
    for mode in (False, True):
        trainer = make(mode, on_nonfinite="skip").fit(LOUD, Y, 2, 3, shuffle=False)
        assert trainer.skipped_steps_ == 2
        results.append(everything(trainer))
        alone = make(mode, on_nonfinite="skip").fit(LOUD[:12], Y[:12], 1, 3, shuffle=False)
        before = everything(alone)[:2]
        alone.fit(LOUD[12:15], Y[12:15], 1, 3, shuffle=False)
        assert alone.skipped_steps_ == 1
        assert bits_equal(before, everything(alone)[:2])
        assert np.isnan(alone.history_["train_loss"][-1])
    assert bits_equal(*results)


def test_nan_in_a_batch_may_be_skipped(mode):
    bad = X.copy()
    bad[4] = np.nan
    trainer = make(mode, on_nonfinite="skip").fit(bad, Y, 1, 3, shuffle=False)
    assert trainer.skipped_steps_ == 1
    assert all(np.isfinite(value).all() for value in trainer.model.state_dict().values() if value.dtype == np.float32)


def test_norm_that_overflows_is_not_finite(mode):
    model = Dense(4, 4, jax.random.key(0))
    trainer = Trainer(model, MSE(), SGD(0.1), clip_norm=1.0, compile=mode)
    before = model.state_dict()
    with pytest.raises(FloatingPointError, match="epoch 1, step 1"):
        trainer.fit(X[:3] * 1e12, X[:3] * -1e12, 1, 3)
    assert bits_equal(before, model.state_dict())


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_losses_of_skipped_steps_are_left_out_of_the_mean(value):
    target, results = Y.copy(), []
    target[0] = value
    for mode in (False, True):
        trainer = make(mode, on_nonfinite="skip").fit(X, target, 1, 3, shuffle=False)
        assert trainer.skipped_steps_ == 1
        assert np.isfinite(trainer.history_["train_loss"]).all()
        results.append(everything(trainer))
    assert bits_equal(*results)


@pytest.mark.parametrize("compile", [False, True])
def test_skipped_batch_leaves_what_the_others_make(compile):
    """The random streams too: the step after the skipped one draws what the skipped one drew."""
    clean = np.delete(LOUD, slice(12, 15), axis=0)
    alone, skipping = (make(compile, on_nonfinite="skip") for _ in range(2))
    alone.fit(clean, Y[:21], 1, 3, shuffle=False)
    skipping.fit(LOUD, Y, 1, 3, shuffle=False)
    assert bits_equal(everything(alone), everything(skipping))


def test_validation_data_may_be_nan_only_where_steps_may(mode):
    bad = X.copy()
    bad[3, 1] = np.nan
    trainer = make(mode)
    with pytest.raises(ValueError, match=r"X_val must be finite in float32\. Received: X_val\[3, 1\]=nan"):
        trainer.fit(X, Y, 1, 3, X_val=bad, y_val=Y)
    assert trainer.epoch_ == 0
    trainer = make(mode, on_nonfinite="skip").fit(X, Y, 2, 3, X_val=bad, y_val=Y, patience=2)
    assert np.isnan(trainer.history_["val_loss"]).all()
    assert len(trainer.history_["val_loss"]) == 2


def test_loss_that_is_no_scalar_is_refused(mode):
    class PerSample(MSE):
        def forward(self, prediction, target):
            super().forward(prediction, target)
            return ((prediction - target) ** 2).mean(-1)

    trainer = Trainer(Dense(4, 4, 0), PerSample(), SGD(0.1), compile=mode)
    with pytest.raises(ValueError, match=r"PerSample: forward must return a scalar.*Received: returned=\(3,\)"):
        trainer.fit(X, Y, 1, 3)


def test_loss_that_is_no_array_is_refused():
    class Number(MSE):
        def forward(self, prediction, target):
            return float(super().forward(prediction, target))

    trainer = Trainer(Dense(4, 4, 0), Number(), SGD(0.1))
    with pytest.raises(ValueError, match=r"Number: forward must return a scalar array.*Received: returned=float"):
        trainer.fit(X, Y, 1, 3)


def test_loss_with_a_gradient_of_another_shape_is_refused(mode):
    class Summed(MSE):
        def backward(self):
            return super().backward().sum(0)

    trainer = Trainer(Dense(4, 4, 0), Summed(), SGD(0.1), compile=mode)
    refusal = r"Summed: backward must return .* of the prediction, of shape \(3, 4\)\. Received: returned=\(4,\)"
    with pytest.raises(ValueError, match=refusal):
        trainer.fit(X, Y, 1, 3)


class Falls(Schedule):
    """1 in the first epoch, then what it is told."""

    def __init__(self, then):
        self.then = then

    def multiplier(self, epoch):
        return 1.0 if epoch < 1 else self.then


@pytest.mark.parametrize("value", [np.nan, np.inf, "a", None])
def test_learning_rate_that_is_no_number_is_refused_before_the_step(mode, value):
    def trainer(schedule=None):
        return Trainer(mlp([4, 4], jax.random.key(0)), MSE(), SGD(0.1, 0.9), schedule, compile=mode)

    good = trainer().fit(X, X, 1, 8)
    bad = trainer(Falls(value))
    with pytest.raises(ValueError, match=rf"schedule\.multiplier\(1\) must be a finite number\. Received: .*{value}"):
        bad.fit(X, X, 3, 8)
    assert bits_equal(bad.model.state_dict(), good.model.state_dict())
    vars(good.optimizer_prototype)["lr"] = value  # as an optimiser that checks nothing would take it
    with pytest.raises(ValueError, match=rf"optimizer\.lr must be a finite number\. Received: lr=.*{value}"):
        good.fit(X, X, 1, 8)
    assert bits_equal(bad.model.state_dict(), good.model.state_dict())


@pytest.mark.parametrize(("name", "value"), [("weight_decay", np.nan), ("weight_decay", -1), ("clip_norm", -1)])
def test_decay_and_clipping_are_checked_where_they_are_set_later_too(mode, name, value):
    trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), SGD(0.1), compile=mode).fit(X, X, 1, 8)
    before = trainer.model.state_dict()
    setattr(trainer, name, value)
    with pytest.raises(ValueError, match=f"{name} must be .*a finite number of 0 or more. Received: {name}={value}"):
        trainer.fit(X, X, 1, 8)
    assert bits_equal(before, trainer.model.state_dict())


def test_schedule_that_is_a_class_is_refused():
    with pytest.raises(ValueError, match=r"schedule must be an object with multiplier\(epoch\)"):
        Trainer(mlp([4, 4], jax.random.key(0)), MSE(), SGD(0.1), schedule=CosineLR)
