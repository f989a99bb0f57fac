"""What is left in the objects: no tracers, the last good values, no leaks."""

import gc
import os
import random
import signal

import jax
import numpy as np
import pytest
from da_layers import MSE, Dense, Layer, Sequential, mlp
from da_optim import SGD, AdaGrad, Adam, CosineWarmRestarts, RMSProp
from da_trainer import Callback, Trainer, bits_equal

X = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)


def test_search_finds_tracers_in_a_model_while_it_is_traced(tracers):
    found = []

    class Look(Layer):
        def forward(self, x, training=False):
            self.held = {"x": [x]}
            found.extend(tracers(trainer))
            return x

        def backward(self, g):
            return g

    trainer = Trainer(Sequential(Look(), Dense(4, 4, 0)), MSE(), SGD(0.1), compile=True)
    trainer.fit(X, X, 1, 24)
    assert found
    assert tracers(trainer) == []


def everything(trainer):
    slots = [param.slots(trainer.optimizer_prototype) for param in trainer.model.params()]
    return trainer.model.state_dict(), slots


@pytest.fixture
def assert_sound(tracers):
    """The trainer holds what it held after `steps` steps of 3 samples, and works."""

    def check(trainer, steps):
        assert tracers(trainer) == []
        assert all(param._grad is None for param in trainer.model.params())
        other = Trainer(make_model(), MSE(), Adam(0.01), compile=trainer.compile)
        if steps:
            other.fit(X[: 3 * steps], X[: 3 * steps], 1, 3, shuffle=False)
        assert bits_equal(everything(trainer), everything(other))
        assert (trainer.epoch_, trainer.history_) == (0, {"train_loss": [], "val_loss": [], "lr": []})
        assert trainer.predict(X).shape == (24, 4)
        trainer.model.load_state_dict(trainer.model.state_dict())
        trainer.fit(X, X, 1, 3)

    return check


class Trap(Layer):
    """Passes x on; does what it is told with an odd batch of 2, or in any forward or backward."""

    def __init__(self):
        self.spring = lambda where, x: None

    def forward(self, x, training=False):
        self.spring("training" if training else "evaluation", x)
        return x

    def backward(self, g):
        self.spring("backward", g)
        return g


def make_model():
    return Sequential(Dense(4, 4, jax.random.key(0)), Trap(), Dense(4, 4, jax.random.key(1)))


def fail():
    raise RuntimeError("on purpose")


def interrupt():
    signal.raise_signal(signal.SIGINT)


def kill():
    os.kill(os.getpid(), signal.SIGINT)


BREAKS = [(fail, RuntimeError), (interrupt, KeyboardInterrupt), (kill, KeyboardInterrupt)]


@pytest.fixture
def breaking(mode):
    return Trainer(make_model(), MSE(), Adam(0.01), compile=mode)


class AtStep(Callback):
    def __init__(self, step, action):
        self.step, self.action = step, action

    def on_step_end(self, trainer, epoch, step, loss):
        if step == self.step:
            self.action()


@pytest.mark.parametrize(("action", "kind"), BREAKS)
def test_callback_breaks_off_in_step_7(breaking, action, kind, assert_sound):
    with pytest.raises(kind):
        breaking.fit(X, X, 1, 3, shuffle=False, callbacks=[AtStep(7, action)])
    assert_sound(breaking, steps=7)


@pytest.mark.parametrize("where", ["training", "backward"])
@pytest.mark.parametrize(("action", "kind"), BREAKS[:2])
def test_layer_breaks_off_step_7(breaking, where, action, kind, assert_sound):
    """The 7th batch is a short one; compiled, its step is traced before the first is taken."""

    def spring(here, x):
        if here == where and x.shape[0] == 2:
            action()

    breaking.model.layers[1].spring = spring
    with pytest.raises(kind) as raised:
        breaking.fit(X[:20], X[:20], 1, 3, shuffle=False)
    if kind is RuntimeError:
        direction = "forward" if where == "training" else "backward"
        assert f"In layers.1 (Trap), {direction}." in raised.value.__notes__
    breaking.model.layers[1].spring = lambda where, x: None
    assert_sound(breaking, steps=0 if breaking.compile else 6)


@pytest.mark.parametrize(("action", "kind"), BREAKS[:2])
def test_validation_breaks_off(breaking, action, kind, assert_sound):
    """The weights are those after the epoch's steps; the epoch is not counted, and the history has no half entry."""

    def spring(here, x):
        if here == "evaluation":
            action()

    breaking.model.layers[1].spring = spring
    with pytest.raises(kind):
        breaking.fit(X, X, 1, 3, shuffle=False, X_val=X, y_val=X)
    breaking.model.layers[1].spring = lambda where, x: None
    assert_sound(breaking, steps=8)


@pytest.mark.parametrize("on_nonfinite", ["raise", "skip"])
@pytest.mark.parametrize(("steps_per_call", "call", "steps"), [(1, 6, 5), (3, 2, 3), ("auto", 2, 1)])
def test_ctrl_c_between_a_call_and_its_result_loses_no_good_step(
    on_nonfinite, steps_per_call, call, steps, monkeypatch, assert_sound
):
    """The memory of the state has gone into the call whose result never arrived."""
    options = {"on_nonfinite": on_nonfinite, "steps_per_call": steps_per_call}
    trainer = Trainer(make_model(), MSE(), Adam(0.01), compile=True, **options)
    get, calls = trainer.executor.programs.get, []

    def interrupted(*args, **kwargs):
        program = get(*args, **kwargs)

        def run(*args):
            calls.append(program(*args))
            if len(calls) == call:
                interrupt()
            return calls[-1]

        return run

    monkeypatch.setattr(trainer.executor.programs, "get", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(X, X, 1, 3, shuffle=False)
    assert_sound(trainer, steps)


def test_ctrl_c_while_the_results_are_read_leaves_values_and_history_of_the_same_steps(monkeypatch):
    trainer, other = (Trainer(make_model(), MSE(), Adam(0.01), compile=True) for _ in range(2))
    store, calls = trainer.executor.store, []

    def interrupted(parts):
        calls.append(1)
        if len(calls) == 1:
            interrupt()
        return store(parts)

    monkeypatch.setattr(trainer.executor, "store", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(X, X, 1, 3, shuffle=False)
    assert (trainer.epoch_, trainer.history_) == (1, other.fit(X, X, 1, 3, shuffle=False).history_)
    assert bits_equal(everything(trainer), everything(other))


def test_epoch_callback_that_raises_leaves_the_epoch(breaking, tracers):
    class Raise(Callback):
        def on_epoch_end(self, trainer, epoch):
            if epoch == 2:
                fail()

    with pytest.raises(RuntimeError):
        breaking.fit(X, X, 5, 3, callbacks=[Raise()])
    assert breaking.epoch_ == len(breaking.history_["train_loss"]) == 2
    assert tracers(breaking) == []


@pytest.mark.parametrize(
    "make",
    [lambda: SGD(0.1), lambda: SGD(0.1, 0.9), Adam, RMSProp, AdaGrad],
    ids=["sgd", "momentum", "adam", "rms", "ada"],
)
def test_state_keeps_its_form(make, mode, tracers):
    trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), make(), compile=mode)

    def forms():
        arrays = [trainer.model.state_dict(), [p.slots(trainer.optimizer_prototype) for p in trainer.model.params()]]
        return [(a.shape, a.dtype, a.aval.weak_type) for a in jax.tree.leaves(arrays)]

    before = forms()
    trainer.fit(X, X, 2, 8)
    assert forms() == before
    assert not any(weak for _, _, weak in before)
    assert tracers(trainer) == []


def test_references_taken_before_and_during_fit_stay_readable(mode):
    class Take(Callback):
        def __init__(self):
            self.taken = []

        def on_step_end(self, trainer, epoch, step, loss):
            self.taken.append(trainer.model.params()[0].value)

    model, take = mlp([4, 4], jax.random.key(0)), Take()
    before = model.params()[0].value
    Trainer(model, MSE(), Adam(0.01), compile=mode).fit(X, X, 2, 8, callbacks=[take])
    assert len({np.asarray(value).tobytes() for value in [before, *take.taken]}) == 7


def test_fits_leave_memory_flat(mode, memory):
    trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), Adam(0.01), CosineWarmRestarts(7.3), compile=mode)
    counts, sizes = [], []
    for fits in range(200 if mode else 100):
        trainer.fit(X, X, 1, 24, X_val=X, y_val=X)
        if fits % 25 == 24:
            gc.collect()
            counts.append(len(jax.live_arrays()))
            sizes.append(memory())
    assert len({*counts[1:]}) == 1
    assert sizes[-1] - sizes[1] < 5


def test_new_models_leave_memory_flat(mode):
    counts = []
    for models in range(20):
        Trainer(mlp([4, 4], jax.random.key(models)), MSE(), Adam(0.01), compile=mode).fit(X, X, 1, 8)
        if models % 5 == 4:
            gc.collect()
            counts.append(len(jax.live_arrays()))
    assert counts[1] == counts[2] == counts[3]


def test_gradients_are_gone_after_fit(mode):
    model = mlp([4, 4, 4], jax.random.key(0))
    model.params()[0].trainable = False
    Trainer(model, MSE(), SGD(0.1), compile=mode).fit(X, X, 1, 8)
    assert all(param._grad is None for param in model.params())


def test_global_random_state_is_left_alone(mode):
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    Trainer(mlp([4, 4], jax.random.key(0)), MSE(), SGD(0.1), compile=mode).fit(X, X, 2, 8)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
