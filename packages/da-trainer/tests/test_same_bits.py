"""The loop and the compiled step: the same bits in every loss, value and slot."""

import jax
import numpy as np
import optax
import pytest
from da_layers import Param
from da_optim import (
    SGD,
    AdaGrad,
    Adam,
    ConstantLR,
    CosineLR,
    CosineWarmRestarts,
    ExponentialLR,
    LinearWarmup,
    NoamSchedule,
    PolynomialLR,
    RMSProp,
    StepLR,
    from_optax,
)
from da_trainer import bits_equal

MODELS = ["mlp", "noisy", "transformer", "cnn", "norms"]
OPTIMIZERS = {
    "sgd": lambda: SGD(0.1),
    "momentum": lambda: SGD(0.1, 0.9),
    "nesterov": lambda: SGD(0.1, 0.9, nesterov=True),
    "adam": lambda: Adam(0.01),
    "rmsprop": lambda: RMSProp(0.01),
    "adagrad": lambda: AdaGrad(0.1),
    "adamw of optax": lambda: from_optax(optax.adamw(0.01)),
}
OPTIONS = [
    {},
    {"clip_norm": 0.5},
    {"weight_decay": 0.01},
    {"weight_decay": 0.01, "decay": "decoupled", "clip_norm": 0.5},
]
SCHEDULES = [
    ConstantLR(),
    StepLR(1),
    ExponentialLR(0.9),
    PolynomialLR(4),
    CosineLR(4),
    CosineWarmRestarts(2),
    LinearWarmup(2),
    NoamSchedule(2),
]


@pytest.fixture
def check(trainer, data, everything):
    def run(model, optimizer, fit=None, **options):
        results = []
        for mode in (False, True):
            t = trainer(mode, model, OPTIMIZERS[optimizer](), **options)
            t.fit(*data(model), epochs=3, batch_size=8, **(fit or {}))
            results.append(everything(t))
        assert bits_equal(*results).differences == {}
        assert np.isfinite(results[0]["history"]["train_loss"]).all()

    return run


@pytest.mark.parametrize(
    ("model", "optimizer", "options"),
    [
        (model, optimizer, OPTIONS[(i + j) % len(OPTIONS)])
        for i, model in enumerate(MODELS)
        for j, optimizer in enumerate(OPTIMIZERS)
        if model == "noisy" or j == i + 1
    ],
)
def test_loop_and_compiled(check, model, optimizer, options):
    check(model, optimizer, **options)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
def test_every_schedule(check, schedule):
    check("mlp", "momentum", schedule=schedule, weight_decay=0.1, decay="decoupled")


@pytest.mark.parametrize("fit", [{"shuffle": False}, {"drop_last": True}, {"key": jax.random.key(7)}])
def test_ways_to_fit(check, fit):
    check("noisy", "adam", fit)


def test_dropout_compiles(trainer, data):
    X, y = data()
    masks = []
    for mode in (False, True):
        t = trainer(mode)
        keys = [t.model.layers[3].key.value]
        for _ in range(5):
            t.fit(X, y, 1, 22)
            keys.append(t.model.layers[3].key.value)
        masks.append(keys)
    assert bits_equal(*masks)
    assert len({np.asarray(key).tobytes() for key in masks[0]}) == 6


def test_batchnorm_compiles_and_evaluation_uses_its_statistics(trainer, data):
    X, y = data()
    losses = []
    for mode in (False, True):
        t = trainer(mode)
        before = t.evaluate(X, y)
        t.fit(X, y, 2, 8)
        assert not bits_equal(t.model.layers[1].running_mean.value, np.zeros(6, np.float32))
        losses.append((before, t.evaluate(X, y), np.asarray(t.predict(X))))
        t.model.layers[1].running_mean.value = np.ones(6)
        losses[-1] += (t.evaluate(X, y),)
        assert losses[-1][1] != losses[-1][3]
    assert bits_equal(*losses)


def test_second_fit_does_not_restart_the_optimizer(trainer, data, everything, mode):
    X, y = data()
    results = []
    for parts in ((4,), (2, 2), (1, 3)):
        t = trainer(mode, optimizer=Adam(0.01), schedule=CosineLR(4), weight_decay=0.01)
        for epochs in parts:
            t.fit(X, y, epochs, 8, key=jax.random.PRNGKey(5))
        results.append(everything(t))
    assert bits_equal(results[0], results[1])
    assert bits_equal(results[0], results[2])


def test_weights_set_by_hand_count(trainer, data, everything):
    X, y = data()
    results = []
    for mode in (False, True):
        t = trainer(mode, optimizer=SGD(0.1, 0.9)).fit(X, y, 1, 8)
        before = t.evaluate(X, y)
        t.model.layers[0].weight.value = np.full((8, 6), 0.1)
        assert t.evaluate(X, y) != before
        results.append(everything(t.fit(X, y, 1, 8)))
    assert bits_equal(*results)


def test_same_seed_same_bits_whatever_is_shown_or_evaluated(trainer, data, everything, mode, capsys):
    from da_trainer import Callback

    class Look(Callback):
        def on_step_end(self, trainer, epoch, step, loss):
            trainer.evaluate(*data())

    X, y = data()
    plain = everything(trainer(mode).fit(X, y, 2, 8))
    watched = everything(trainer(mode).fit(X, y, 2, 8, callbacks=[Look()], progress=True, X_val=X, y_val=y))
    watched["history"] = watched["history"] | {"val_loss": []}
    assert bits_equal(plain, watched)


def test_changed_settings_count_at_once_and_compile_nothing(trainer, data, everything, compilations):
    X, y = data("mlp")
    results = []
    for mode in (False, True):
        t = trainer(mode, "mlp", Adam(0.01), weight_decay=0.01, clip_norm=1.0).fit(X, y, 1, 8)
        before, compiled = everything(t)["values"], compilations.count
        for step in range(1, 6):
            t.optimizer_prototype.lr, t.optimizer_prototype.beta1 = 0.01 / step, 0.5 + 0.05 * step
            t.weight_decay, t.clip_norm = 0.02 * step, 0.1 * step
            t.fit(X, y, 1, 8)
        assert not mode or compilations.count == compiled
        results.append(everything(t))
        t.optimizer_prototype.lr = 0.0
        t.weight_decay = 0.0
        values = everything(t)["values"]
        assert bits_equal(values, everything(t.fit(X, y, 1, 8))["values"])
        assert not bits_equal(values, before)
    assert bits_equal(*results)


def test_attributes_that_the_step_took_as_constants_count(trainer, data, everything):
    X, y = data()
    results = []
    for mode in (False, True):
        t = trainer(mode).fit(X, y, 1, 8)
        t.model.layers[3].rate = 0.8
        t.fit(X, y, 1, 8)
        t.model.layers[0].weight.trainable = False
        frozen = t.model.layers[0].weight.value
        t.fit(X, y, 1, 8)
        assert bits_equal(frozen, t.model.layers[0].weight.value)
        results.append(everything(t))
    assert bits_equal(*results)


def test_shared_layer_and_shared_param(data, everything):
    from da_layers import Dense, ReLU, Sequential, SoftmaxCrossEntropy
    from da_trainer import Trainer

    X, y = data("mlp")
    results = []
    for mode in (False, True):
        shared, tied = Dense(8, 8, jax.random.key(0)), Dense(8, 8, jax.random.key(1))
        tied.weight = shared.weight
        model = Sequential(shared, ReLU(), shared, tied, Dense(8, 3, jax.random.key(2)))
        assert sum(isinstance(v, Param) for v in model.variables().values()) == 5
        t = Trainer(model, SoftmaxCrossEntropy(), Adam(0.01), clip_norm=0.3, compile=mode)
        results.append(everything(t.fit(X, y, 3, 8)))
    assert bits_equal(*results)
