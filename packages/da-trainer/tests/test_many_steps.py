"""Many steps in one compiled call: the bits of single steps, however they are cut; no transfer, few calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import MSE, BatchNorm, Dense, Dropout, Sequential, SoftmaxCrossEntropy, cnn, mlp
from da_optim import SGD, Adam, CosineLR, Schedule
from da_trainer import Callback, Trainer, bits_equal
from da_trainer._pace import Pace

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((53, 4)).astype(np.float32), RNG.integers(0, 3, 53)
IMAGES = RNG.standard_normal((20, 6, 6, 1)).astype(np.float32)


def noisy():
    return Sequential(Dense(4, 6, 0), BatchNorm(6), Dropout(0.2, 1), Dense(6, 3, 2))


def train(mode, steps_per_call="auto", callbacks=(), epochs=3):
    trainer = Trainer(
        noisy(),
        SoftmaxCrossEntropy(),
        Adam(0.01),
        CosineLR(5),
        weight_decay=0.01,
        clip_norm=1.0,
        compile=mode,
        steps_per_call=steps_per_call,
    )
    return trainer.fit(X, Y, epochs, 8, callbacks=callbacks)


class Calls:
    """Counts the calls of a trainer's compiled training programs, and the steps of each."""

    def __init__(self, trainer, monkeypatch):
        self.steps = []
        run = trainer.executor.run

        def counted(parts, batches, steps, rates, options):
            self.steps.append(len(steps))
            return run(parts, batches, steps, rates, options)

        monkeypatch.setattr(trainer.executor, "run", counted)


@pytest.mark.parametrize("steps_per_call", ["auto", 1, 2, 4, 100])
def test_same_bits_however_many_steps_a_call_takes(steps_per_call, everything):
    assert bits_equal(everything(train(True, steps_per_call)), everything(train(False))).differences == {}


def test_xla_leaves_the_loop_of_a_tiny_model_as_it_is():
    """Written out as one function, a short last batch of three rows would be rounded otherwise."""
    trainer = Trainer(Sequential(Dense(4, 3, 0)), SoftmaxCrossEntropy(), Adam(0.01), compile=True, steps_per_call=9)
    trainer.fit(X[:13], Y[:13], 1, 5, shuffle=False)
    ((_, program),) = trainer.executor.programs._programs.values()
    assert "while" in program.as_text()
    assert "xla_cpu_small_call" not in program.as_text()
    small = jax.jit(lambda x: jax.lax.fori_loop(0, x[1].astype(int), lambda _, y: y * 1.1, x)).lower(jnp.ones(4))
    assert "xla_cpu_small_call" in small.compile().as_text(), "XLA says otherwise now what it makes of a small loop"


def test_an_int_fixes_the_steps_of_a_call(monkeypatch):
    trainer = Trainer(noisy(), SoftmaxCrossEntropy(), Adam(0.01), compile=True, steps_per_call=4)
    calls = Calls(trainer, monkeypatch)
    trainer.fit(X, Y, 1, 8)
    assert calls.steps == [4, 3]
    trainer.fit(X, Y, 1, 8, drop_last=True)
    assert calls.steps[2:] == [4, 2]


def test_a_call_takes_many_epochs_where_nobody_looks_between_them(monkeypatch, everything):
    trainer = Trainer(noisy(), SoftmaxCrossEntropy(), Adam(0.01), CosineLR(7), compile=True, steps_per_call=16)
    loop = Trainer(noisy(), SoftmaxCrossEntropy(), Adam(0.01), CosineLR(7))
    calls = Calls(trainer, monkeypatch)
    trainer.fit(X, Y, 5, 8)
    # 7 steps an epoch: two epochs at once.
    assert calls.steps == [14, 14, 7]
    trainer.fit(X, Y, 2, 8, callbacks=[Callback()])
    assert calls.steps[3:] == [7, 7]
    assert bits_equal(everything(trainer), everything(loop.fit(X, Y, 7, 8))).differences == {}
    assert len(set(trainer.history_["lr"])) == len(trainer.history_["train_loss"]) == 7


def test_a_bad_step_inside_many_epochs_leaves_the_epochs_before_it(mode, everything):
    """The learning rate of the third epoch's second step is what breaks it: the step after that is not finite."""

    class Breaking(Schedule):
        def multiplier(self, epoch):
            return 1e30 if epoch > 2.1 else 1.0

    def make():
        return Trainer(noisy(), SoftmaxCrossEntropy(), SGD(0.1), Breaking(), compile=mode, steps_per_call=100)

    trainer = make()
    with pytest.raises(FloatingPointError, match=r"in epoch 3, step 3, first in"):
        trainer.fit(X, Y, 5, 8)
    assert trainer.epoch_ == len(trainer.history_["train_loss"]) == len(trainer.history_["lr"]) == 2
    assert trainer.history_ == make().fit(X, Y, 2, 8).history_


def test_a_callback_that_wants_every_step_gets_every_step(monkeypatch, everything):
    class Steps(Callback):
        def __init__(self):
            self.steps = []

        def on_step_end(self, trainer, epoch, step, loss):
            self.steps.append((epoch, step, loss))

    loop, compiled, whole = Steps(), Steps(), train(True, 100)
    watched = train(True, 100, [compiled])
    train(False, callbacks=[loop])
    assert loop.steps == compiled.steps
    assert [step for _, step, _ in loop.steps] == [*range(1, 8)] * 3
    assert bits_equal(everything(watched), everything(whole)).differences == {}


def test_convolutions_run_step_by_step_on_a_cpu(monkeypatch, everything):
    """In a loop inside the program they would take another kernel, of other bits."""
    results = []
    for mode in (False, True):
        model = cnn(1, [2], 3, jax.random.key(0))
        trainer = Trainer(model, SoftmaxCrossEntropy(), Adam(0.01), compile=mode, steps_per_call=3)
        programs = []
        if mode:
            get = trainer.executor.programs.get

            def seen(key, steps, *args, get=get, programs=programs):
                programs.append(len(steps))
                return get(key, steps, *args)

            monkeypatch.setattr(trainer.executor.programs, "get", seen)
        results.append(everything(trainer.fit(IMAGES, Y[:20], 2, 8)))
        # A program that loops would hold the step of the short last batch too.
        assert programs == ([1] * 6 if mode else [])
    assert bits_equal(*results).differences == {}


def test_a_whole_fit_passes_without_an_implicit_transfer():
    model = mlp([4, 6, 4], jax.random.key(0))
    trainer = Trainer(model, MSE(), Adam(0.01), CosineLR(50), clip_norm=1.0, weight_decay=0.1, compile=True)
    data, key = jnp.asarray(X), jax.random.key(1)
    trainer.fit(data, data, 1, 8, key=key, X_val=data, y_val=data)
    with jax.transfer_guard("disallow"):
        trainer.fit(data, data, 2, 8, key=key, X_val=data, y_val=data)


def test_values_are_read_from_the_device_once_an_epoch_at_most(monkeypatch):
    trainer = train(True, epochs=1)
    reads, get = [], jax.device_get

    def counted(values):
        reads.append(values)
        return get(values)

    monkeypatch.setattr(jax, "device_get", counted)
    trainer.fit(X, Y, 5, 8)
    # And the key, once a fit.
    assert len(reads) <= 1 + 5
    reads.clear()
    trainer.fit(X, Y, 5, 8, callbacks=[Callback()])
    assert len(reads) == 1 + 5


def test_the_pace_aims_at_a_quarter_of_a_second():
    pace = Pace(None)
    assert pace.steps == 1
    pace.took(1, 0.001)
    assert pace.steps == 250
    pace.took(250, 2.5)
    assert pace.steps == 25
    pace.took(1, 60.0)
    assert pace.steps == 1
    fixed = Pace(7)
    fixed.took(7, 0.001)
    assert fixed.steps == 7


@pytest.mark.parametrize("steps_per_call", [0, -1, 1.5, "all", True, None])
def test_bad_steps_per_call(steps_per_call):
    with pytest.raises(ValueError, match=r"steps_per_call must be an integer of 1 or more.* Received: steps_per_call="):
        Trainer(noisy(), SoftmaxCrossEntropy(), Adam(0.01), steps_per_call=steps_per_call)
