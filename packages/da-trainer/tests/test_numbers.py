"""Decay, clipping, losses, rates: against formulas in NumPy, in both executors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import MSE, BatchNorm, Dense, Layer, Param, Sequential
from da_optim import SGD, CosineLR, LinearWarmup, ReduceOnPlateau, StepLR
from da_trainer import Callback, Trainer, bits_equal


@pytest.fixture
def linear():
    """One Dense on one batch, its trainer, and the NumPy gradient of its MSE."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 4)), rng.standard_normal((6, 3))

    def make(mode, **options):
        model = Dense(4, 3, jax.random.key(0))
        model.bias.value = np.full(3, 0.5)
        return Trainer(model, MSE(), SGD(0.1), compile=mode, **options), X.astype(np.float32), y.astype(np.float32)

    def gradient(w, b):
        error = (X @ w + b - y) * 2 / y.size
        return X.T @ error, error.sum(0)

    return make, gradient


@pytest.mark.parametrize("decay", ["l2", "decoupled"])
@pytest.mark.parametrize("schedule", [StepLR(3, 0.5), CosineLR(10), LinearWarmup(4)], ids=lambda s: type(s).__name__)
def test_decay_follows_its_formula_over_a_schedule(linear, mode, decay, schedule):
    make, gradient = linear
    trainer, X, y = make(mode, weight_decay=0.2, decay=decay, schedule=schedule)
    w, b = (np.asarray(p.value, np.float64) for p in (trainer.model.weight, trainer.model.bias))
    for epoch in range(10):
        eta = schedule.multiplier(epoch)
        g_w, g_b = gradient(w, b)
        b = b - 0.1 * eta * g_b
        decayed = 0.1 * eta * 0.2 * w if decay == "l2" else eta * 0.2 * w
        w = w - decayed - 0.1 * eta * g_w
    trainer.fit(X, y, 10, 6)
    np.testing.assert_allclose(trainer.model.weight.value, w, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(trainer.model.bias.value, b, rtol=2e-5, atol=1e-6)


def test_decay_leaves_biases_and_scales_alone(trainer, mode):
    t = trainer(mode, weight_decay=0.1)
    assert t.decayed() == ["layers.0.weight", "layers.4.weight"]
    t.model.layers[4].weight.trainable = False
    assert t.decayed() == ["layers.0.weight"]
    t.weight_decay = 0.0
    assert t.decayed() == []


def test_clipping_takes_the_norm_over_each_param_once(mode):
    class Tied(Layer):
        def __init__(self):
            self.first = Dense(3, 3, jax.random.key(0), bias=False)
            self.second = Dense(3, 3, jax.random.key(1), bias=False)
            self.second.weight = self.first.weight

        def forward(self, x, training=False):
            return self.second.forward(self.first.forward(x, training), training)

        def backward(self, g):
            return self.first.backward(self.second.backward(g))

    X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    trainer = Trainer(Tied(), MSE(), SGD(1.0), clip_norm=0.01, compile=mode)
    w = np.asarray(trainer.model.first.weight.value, np.float64)
    error = (X @ w @ w - X) * 2 / X.size
    gradient = X.T @ (error @ w.T) + (X @ w).T @ error
    expected = w - gradient * 0.01 / np.linalg.norm(gradient)
    trainer.fit(X, X, 1, 5)
    np.testing.assert_allclose(trainer.model.first.weight.value, expected, rtol=1e-5, atol=1e-7)


def test_clipping_zero_gradients_to_zero_gives_zero(mode):
    model = Dense(2, 2, jax.random.key(0))
    X = np.ones((4, 2), np.float32)
    trainer = Trainer(model, MSE(), SGD(1.0), clip_norm=0.0, compile=mode)
    before = model.state_dict()
    trainer.fit(X, model.forward(jnp.asarray(X)), 2, 4)
    trainer.fit(X, X, 2, 4)
    assert bits_equal(model.state_dict(), before)


def test_epoch_loss_weighs_samples(trainer, data, mode):
    X, y = data("mlp", 22)
    t = trainer(mode, "mlp", SGD(0.0)).fit(X, y, 1, 8, shuffle=False)
    pieces = [(t.evaluate(X[i : i + 8], y[i : i + 8]), len(X[i : i + 8])) for i in (0, 8, 16)]
    expected = sum(loss * n for loss, n in pieces) / 22
    assert t.history_["train_loss"] == pytest.approx([expected], rel=1e-6)


def test_validation_loss_is_evaluate(trainer, data, mode):
    X, y = data("mlp")
    t = trainer(mode, "mlp").fit(X, y, 2, 8, X_val=X[:13], y_val=y[:13])
    assert t.history_["val_loss"][-1] == t.evaluate(X[:13], y[:13]) == t.evaluate(X[:13], y[:13], batch_size=8)
    assert len(t.history_["val_loss"]) == 2
    losses = [t.evaluate(X, y, batch_size=size) for size in (5, 8, 100)]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-6)
    np.testing.assert_allclose(t.predict(X, batch_size=5), t.predict(X), rtol=1e-5, atol=1e-6)


def test_learning_rate_follows_the_schedule_at_each_step(mode):
    """With a gradient of 1 everywhere, each step moves the weight by its learning rate."""

    class Sum(Layer):
        def __init__(self):
            self.w = Param(jnp.zeros(()))

        def forward(self, x, training=False):
            return x[:, 0] * 0 + self.w.value

        def backward(self, g):
            self.w.add_grad(jnp.ones(()))
            return g[:, None]

    class Watch(Callback):
        def __init__(self):
            self.values = [0.0]

        def on_step_end(self, trainer, epoch, step, loss):
            self.values.append(float(trainer.model.w.value))

    schedule, watch = LinearWarmup(2.0, start=0.1), Watch()
    trainer = Trainer(Sequential(Sum()).layers[0], MSE(), SGD(0.5), schedule=schedule, compile=mode)
    trainer.fit(np.ones((5, 1)), np.ones(5), 3, 2, callbacks=[watch])
    used = -np.diff(watch.values)
    expected = [0.5 * schedule.multiplier(epoch + i / 3) for epoch in range(3) for i in range(3)]
    np.testing.assert_allclose(used, expected, rtol=1e-5)
    assert trainer.history_["lr"] == expected[::3]


@pytest.mark.parametrize("validated", [False, True])
def test_a_schedule_may_observe_the_loss_of_each_epoch(trainer, data, mode, validated):
    class Observed(ReduceOnPlateau):
        def __init__(self):
            super().__init__(0.5, 1, min_delta=1e9)
            self.losses = []

        def observe(self, epoch, loss):
            self.losses.append((epoch, loss))
            super().observe(epoch, loss)

    X, y = data()
    trained = trainer(mode, schedule=Observed())
    trained.fit(X, y, 4, 8, **({"X_val": X[:5], "y_val": y[:5]} if validated else {}))
    losses = trained.history_["val_loss" if validated else "train_loss"]
    assert trained.schedule.losses == list(zip(range(1, 5), losses, strict=True))
    lr = trained.history_["lr"]
    assert lr == [lr[0], lr[0], lr[0] / 2, lr[0] / 4]


def test_batch_norm_trains_on_the_statistics_of_the_batch(mode):
    """And moves its running statistics as the formula says, which evaluation then uses at once."""
    X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32) * 3 + 1
    wide, zeros = X.astype(np.float64), np.zeros_like(X)
    trainer = Trainer(BatchNorm(4), MSE(), SGD(0.0), compile=mode).fit(X, zeros, 1, 8)
    mean, variance = wide.mean(0), wide.var(0)
    running_mean, running_variance = 0.1 * mean, 0.9 + 0.1 * wide.var(0, ddof=1)
    trained = ((wide - mean) ** 2 / (variance + 1e-5)).mean()
    evaluated = ((wide - running_mean) ** 2 / (running_variance + 1e-5)).mean()
    assert trainer.history_["train_loss"] == pytest.approx([trained], rel=1e-5)
    np.testing.assert_allclose(trainer.model.running_mean.value, running_mean, rtol=1e-5)
    np.testing.assert_allclose(trainer.model.running_variance.value, running_variance, rtol=1e-5)
    assert trainer.evaluate(X, zeros) == pytest.approx(evaluated, rel=1e-5)


def test_schedule_that_starts_at_zero(trainer, data, mode):
    X, y = data("mlp")
    t = trainer(mode, "mlp", schedule=LinearWarmup(3), weight_decay=0.1, decay="decoupled")
    before = t.model.state_dict()
    t.fit(X, y, 1, 16)
    assert bits_equal(before, t.model.state_dict())
    t.fit(X, y, 1, 16)
    assert not bits_equal(before, t.model.state_dict())


@pytest.mark.parametrize(("patience", "min_delta"), [(1, 0.0), (2, 0.0), (1, 10.0), (50, 0.0)])
def test_early_stopping_path(trainer, data, patience, min_delta):
    """Stops after `patience` epochs without a better loss; ends with the best Params and Buffers either way."""
    X, y = data()
    results = []
    for mode in (False, True):
        t = trainer(mode, optimizer=SGD(0.8, 0.9))
        t.fit(X, y, 12, 8, X_val=X[:8], y_val=1 - y[:8] % 2, patience=patience, min_delta=min_delta)
        losses = t.history_["val_loss"]
        waited, best = 0, np.inf
        for place, loss in enumerate(losses):
            best, waited = (loss, 0) if loss < best - min_delta else (best, waited + 1)
            if waited == patience:
                assert place == len(losses) - 1
        assert waited == patience or len(losses) == 12
        assert t.evaluate(X[:8], 1 - y[:8] % 2) == best
        t.fit(X, y, 1, 8)
        results.append((t.history_, t.model.state_dict()))
    assert bits_equal(*results)
