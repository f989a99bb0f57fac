"""What callbacks are told, and what they see."""

import jax
import numpy as np
import pytest
from da_layers import MSE, mlp
from da_optim import SGD, Adam
from da_trainer import Callback, Trainer, bits_equal

X = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)


@pytest.fixture
def make(mode):
    return lambda: Trainer(mlp([4, 4], jax.random.key(0)), MSE(), Adam(0.01), compile=mode)


class Record(Callback):
    def __init__(self):
        self.calls, self.values, self.losses = [], [], []

    def on_step_end(self, trainer, epoch, step, loss):
        assert type(loss) is float
        self.calls.append((epoch, step))
        self.losses.append(loss)
        self.values.append((trainer.model.state_dict(), trainer.predict(X[:1])))

    def on_epoch_end(self, trainer, epoch):
        assert epoch == trainer.epoch_ == len(trainer.history_["train_loss"]) == len(trainer.history_["val_loss"])
        self.calls.append(epoch)


def test_order_and_numbers_go_on_in_the_next_fit(make):
    trainer, record = make(), Record()
    for _ in range(2):
        trainer.fit(X, X, 1, 8, X_val=X, y_val=X, callbacks=[record])
    assert record.calls == [(1, 1), (1, 2), (1, 3), 1, (2, 1), (2, 2), (2, 3), 2]
    assert trainer.history_["train_loss"] == pytest.approx([np.mean(record.losses[:3]), np.mean(record.losses[3:])])


def test_values_are_those_after_the_step_in_both_executors():
    records = []
    for mode in (False, True):
        records.append(Record())
        trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), Adam(0.01), compile=mode)
        trainer.fit(X, X, 2, 8, X_val=X, y_val=X, callbacks=[records[-1]])
        assert bits_equal(records[-1].values[-1][0], trainer.model.state_dict())
    assert bits_equal((records[0].values, records[0].losses), (records[1].values, records[1].losses))


def test_weights_set_in_a_callback_count_at_the_next_step():
    class Zero(Callback):
        def on_step_end(self, trainer, epoch, step, loss):
            if step == 2:
                trainer.model.layers[0].weight.value = np.zeros((4, 4))

    results = []
    for mode in (False, True):
        trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), SGD(0.1), compile=mode)
        trainer.fit(X, X, 1, 8, callbacks=[Zero()])
        results.append(trainer.model.state_dict())
        assert np.abs(results[-1]["layers.0.weight"]).max() < 0.1
    assert bits_equal(*results)


def test_method_may_be_set_on_the_object(make):
    steps, callback = [], Callback()
    callback.on_step_end = lambda trainer, epoch, step, loss: steps.append(step)
    make().fit(X, X, 1, 8, callbacks=[callback])
    assert steps == [1, 2, 3]


def test_one_callback_needs_no_list(make):
    record = Record()
    make().fit(X, X, 1, 24, X_val=X, y_val=X, callbacks=record)
    assert record.calls == [(1, 1), 1]


@pytest.mark.parametrize("callbacks", [[print], [Callback], print, [None]])
def test_other_objects_are_refused(make, callbacks):
    with pytest.raises(ValueError, match=r"callbacks must be objects of a da_trainer\.Callback class\. Received: call"):
        make().fit(X, X, 1, 8, callbacks=callbacks)


def test_best_values_are_those_that_were_validated(make):
    """A callback that changes the weights after the validation does not change what early stopping restores."""

    class Spoil(Callback):
        def on_epoch_end(self, trainer, epoch):
            for param in trainer.model.params():
                param.value = np.full(param.value.shape, 100.0)

    trainer = make().fit(X, X, 3, 8, X_val=X, y_val=X, patience=1, callbacks=[Spoil()])
    assert trainer.evaluate(X, X) == min(trainer.history_["val_loss"])


def test_progress_shows_epochs_and_losses(make, capsys):
    make().fit(X, X, 2, 8, X_val=X, y_val=X, progress=True)
    shown = capsys.readouterr().err
    assert "epoch 2/2" in shown
    assert "6/6" in shown
    assert "train_loss=" in shown
    assert "val_loss=" in shown
    make().fit(X, X, 1, 8)
    assert capsys.readouterr().err == ""
