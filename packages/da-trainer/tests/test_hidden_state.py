"""State that is carried from step to step in plain sight of Python, but not of the step: refused by name."""

import copy
import dataclasses
import random
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import MSE, Buffer, Dense, Layer, ReLU, Sequential, mlp
from da_optim import SGD, Optimizer
from da_trainer import Trainer, bits_equal

X = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)


def in_the_middle(layer):
    return Sequential(Dense(4, 4, jax.random.key(0)), layer, ReLU())


class Base(Layer):
    """A layer whose backward does not matter."""

    def backward(self, g):
        return g


class Attribute(Base):
    def __init__(self):
        self.seen = jnp.zeros(4)

    def forward(self, x, training=False):
        self.seen = self.seen + x.mean(0)
        return x + self.seen


class FromNone(Base):
    def __init__(self):
        self.seen = None

    def forward(self, x, training=False):
        self.seen = x.mean(0) if self.seen is None else 0.5 * self.seen + x.mean(0)
        return x + self.seen


class AsksForTheKind(FromNone):
    def forward(self, x, training=False):
        y = x + self.seen if isinstance(self.seen, jax.Array) else x
        self.seen = x * 0.5
        return y


class OnlyWhetherNone(Base):
    def __init__(self):
        self.first = None

    def forward(self, x, training=False):
        y = x * 2.0 if self.first is None else x
        self.first = x
        return y


class New(Base):
    def forward(self, x, training=False):
        x = x + vars(self).get("last", 0.0)
        self.last = x.mean(0)
        return x


class Counter(Base):
    def __init__(self):
        self.steps = 0

    def forward(self, x, training=False):
        self.steps += 1
        return x * self.steps


class InDict(Base):
    def __init__(self):
        self.store = {"last": jnp.zeros(4)}

    def forward(self, x, training=False):
        x = x + self.store["last"]
        self.store["last"] = x.mean(0)
        return x


class InList(Base):
    def __init__(self):
        self.history = [jnp.zeros(4)]

    def forward(self, x, training=False):
        y = x + self.history[-1]
        self.history.append(x.mean(0))
        return y


class LengthOfList(Base):
    def __init__(self):
        self.history = []

    def forward(self, x, training=False):
        self.history.append(x)
        return x * len(self.history)


class Popped(Base):
    def __init__(self):
        self.rates = [0.1 * step for step in range(1000)]

    def forward(self, x, training=False):
        return x * self.rates.pop()


class InSet(Base):
    def __init__(self):
        self.seen = set()

    def forward(self, x, training=False):
        self.seen.add(len(self.seen))
        return x * len(self.seen)


class Helper:
    total = 0.0


class InHelper(Base):
    def __init__(self):
        self.helper = Helper()

    def forward(self, x, training=False):
        self.helper.total = self.helper.total + x.mean()
        return x + self.helper.total


@dataclasses.dataclass(slots=True)
class Slotted:
    total: object = 0.0


class InSlots(InHelper):
    def __init__(self):
        self.helper = Slotted()


class InNumPy(Base):
    def __init__(self):
        self.count = np.zeros(1, np.float32)

    def forward(self, x, training=False):
        self.count[0] += 1
        return x * self.count[0]


HIDDEN = [
    (Attribute, "seen"),
    (FromNone, "seen"),
    (AsksForTheKind, "seen"),
    (New, "last"),
    (Counter, "steps"),
    (InDict, "store.last"),
    (InList, "history"),
    (LengthOfList, "history"),
    (Popped, "rates"),
    (InSet, "seen"),
    (InHelper, "helper.total"),
    (InSlots, "helper.total"),
    (InNumPy, "count"),
]


def plain(value):
    """What a copied attribute holds, for comparison."""
    if isinstance(value, (Helper, Slotted)):
        return value.total
    return sorted(value) if isinstance(value, set) else value


@pytest.mark.parametrize(("layer", "attribute"), HIDDEN)
def test_hidden_state_is_refused_by_name(layer, attribute):
    model = in_the_middle(layer())
    before, attributes = model.state_dict(), copy.deepcopy(vars(model.layers[1]))
    trainer = Trainer(model, MSE(), SGD(0.01), compile=True)
    refusal = rf"^layers\.1 \({layer.__name__}\) must keep .*Received: {attribute}"
    with pytest.raises(ValueError, match=refusal) as raised:
        trainer.fit(X, X, 1, 8)
    assert "da_layers.Buffer" in str(raised.value)
    assert bits_equal(before, model.state_dict())
    now = vars(model.layers[1])
    assert now.keys() == attributes.keys()
    assert bits_equal(*({name: plain(value) for name, value in held.items()} for held in (now, attributes)))
    trainer.compile = False
    assert np.isfinite(trainer.fit(X, X, 1, 8).history_["train_loss"]).all()


def test_fused_refuses_it_too():
    with pytest.raises(ValueError, match=r"^layers\.1 \(Counter\) must keep .*Received: steps"):
        Trainer(in_the_middle(Counter()), MSE(), SGD(0.01), compile="fused").fit(X, X, 1, 8)


class OwnGenerator(Base):
    def __init__(self):
        self.generator = np.random.default_rng(0)

    def forward(self, x, training=False):
        return x * self.generator.random()


class GlobalGenerator(Base):
    def forward(self, x, training=False):
        return x * np.random.random()


class Clock(Base):
    def forward(self, x, training=False):
        return x * (time.perf_counter_ns() % 1000003)


@pytest.mark.parametrize("layer", [OwnGenerator, GlobalGenerator, Clock, OnlyWhetherNone])
def test_step_that_differs_from_the_next_in_a_way_no_attribute_tells_is_refused(layer):
    model = in_the_middle(layer())
    with pytest.raises(ValueError, match=r"Each layer must keep .*Received: a step that is another computation each"):
        Trainer(model, MSE(), SGD(0.01), compile=True).fit(X, X, 1, 8)


@pytest.mark.parametrize(
    "generator", [np.random.default_rng(0), np.random.RandomState(0), random.Random(0)], ids=lambda g: type(g).__name__
)
def test_refusal_leaves_a_generator_where_it_was(generator):
    layer = OwnGenerator()
    layer.generator = generator
    state = copy.deepcopy(generator)
    with pytest.raises(ValueError, match="another computation each"):
        Trainer(in_the_middle(layer), MSE(), SGD(0.01), compile=True).fit(X, X, 1, 8)
    assert generator.normal() == state.normal() if hasattr(state, "normal") else generator.random() == state.random()


class LastMean(Base):
    """Evaluation reads what training left, which the compiled step leaves nowhere."""

    def __init__(self):
        self.mean = jnp.zeros(4)

    def forward(self, x, training=False):
        if training:
            self.mean = x.mean(0)
        return x - self.mean


@pytest.mark.parametrize("evaluate_first", [False, True])
def test_attribute_carried_from_training_into_evaluation_is_refused(evaluate_first):
    trainer = Trainer(in_the_middle(LastMean()), MSE(), SGD(0.01), compile=True)
    if evaluate_first:
        trainer.evaluate(X, X)
    trainer.fit(X, X, 1, 8)
    for use in (lambda: trainer.evaluate(X, X), lambda: trainer.predict(X)):
        with pytest.raises(ValueError, match=r"^layers\.1 \(LastMean\) must keep .*Received: mean"):
            use()


class Passing(Layer):
    """Keeps x in every kind of place, from forward to backward only."""

    def __init__(self):
        self.x, self.places, self.calls = None, {"list": [], "dict": {}}, []
        self.helper, self.slotted = Helper(), Slotted()

    def forward(self, x, training=False):
        self.x = self.new = self.helper.total = self.slotted.total = x
        self.shape = x.shape
        self.places["dict"]["x"] = x
        self.calls.append(x)
        return x * x

    def backward(self, g):
        held = (self.new, self.helper.total, self.slotted.total, self.places["dict"]["x"])
        assert all(x is self.x for x in held)
        return 2 * g.reshape(self.shape) * self.calls.pop()


def test_what_passes_from_forward_to_backward_compiles_and_is_put_back():
    results = []
    for mode in (False, True):
        model = Sequential(Dense(4, 4, jax.random.key(0)), Passing(), Dense(4, 4, jax.random.key(1)))
        trainer = Trainer(model, MSE(), SGD(0.01), compile=mode).fit(X, X, 2, 8, X_val=X, y_val=X)
        layer = model.layers[1]
        if mode:
            assert vars(layer).keys() == {"x", "places", "calls", "helper", "slotted"}
            assert layer.x is None
            assert layer.places == {"list": [], "dict": {}}
            assert layer.helper.total == layer.slotted.total == 0.0
            assert layer.calls == []
        results.append((trainer.history_, model.state_dict()))
    assert bits_equal(*results)


def test_what_the_loop_left_in_such_attributes_compiles_nothing_again():
    model = in_the_middle(Passing())
    trainer = Trainer(model, MSE(), SGD(0.01), compile=True).fit(X, X, 1, 8)
    seconds = trainer.compile_seconds
    model.backward(model.forward(jnp.asarray(X), training=True))
    assert model.layers[1].shape == (24, 4)
    trainer.fit(X, X, 1, 8)
    assert trainer.compile_seconds == seconds


class ConstantArray(Base):
    def __init__(self):
        self.mask = np.array([1.0, np.nan, 2.0, 3.0], np.float32)

    def forward(self, x, training=False):
        return x * jnp.nan_to_num(self.mask)


def test_constant_with_nan_is_not_taken_for_state():
    Trainer(in_the_middle(ConstantArray()), MSE(), SGD(0.01), compile=True).fit(X, X, 1, 8)


class CountingSGD(SGD):
    steps = 0

    def update(self, weights, gradient, slots, lr):
        self.steps = self.steps + 1
        return super().update(weights, gradient, slots, lr / self.steps)


class FloatCounting(Optimizer):
    """Counts in a float attribute, as numbers that a step takes as arguments are."""

    def __init__(self, lr):
        super().__init__(lr)
        self.shrunk = 1.0

    def init(self, weights):
        return {}

    def update(self, weights, gradient, slots, lr):
        self.shrunk = self.shrunk * 0.5
        return (weights - lr * self.shrunk * gradient).astype(weights.dtype), {}


@pytest.mark.parametrize(("optimizer", "attribute"), [(CountingSGD, "steps"), (FloatCounting, "shrunk")])
def test_optimizer_with_hidden_state_is_refused(optimizer, attribute):
    refusal = rf"^optimizer \({optimizer.__name__}\) must keep .* slot.*Received: {attribute}"
    with pytest.raises(ValueError, match=refusal):
        Trainer(mlp([4, 4], jax.random.key(0)), MSE(), optimizer(0.1), compile=True).fit(X, X, 1, 8)


def test_loop_keeps_the_hidden_state_of_an_optimizer():
    """3 steps on 2 Params."""
    trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), FloatCounting(0.1)).fit(X, X, 1, 8)
    assert float(trainer.optimizer_prototype.shrunk) == 0.5**6


class Remembers(SGD):
    last_lr = 0.0

    def __init__(self, lr):
        super().__init__(lr)
        self.last_lr = 0.0

    def update(self, weights, gradient, slots, lr):
        self.last_lr = lr
        return super().update(weights, gradient, slots, self.last_lr)


def test_optimizer_that_only_writes_an_attribute_compiles():
    trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), Remembers(0.1), compile=True).fit(X, X, 1, 8)
    assert trainer.optimizer_prototype.last_lr == 0.0


class Average(Layer):
    def __init__(self):
        self.shown = {"running": Buffer(jnp.zeros(4))}

    def forward(self, x, training=False):
        if training:
            self.shown["running"].value = 0.9 * self.shown["running"].value + 0.1 * x.mean(0)
        return x - self.shown["running"].value

    def backward(self, g):
        return g


def test_state_in_a_buffer_is_carried():
    results = []
    for mode in (False, True):
        model = Sequential(Dense(4, 4, jax.random.key(0)), Average())
        trainer = Trainer(model, MSE(), SGD(0.1), compile=mode).fit(X, X, 3, 8)
        results.append((trainer.history_, model.state_dict(), trainer.evaluate(X, X)))
    assert bits_equal(*results)
    assert "layers.1.shown.running" in results[0][1]


class WrittenInTheShortBatch(Base):
    """The last batch of an epoch writes what a full one of the next epoch reads."""

    def forward(self, x, training=False):
        if x.shape[0] < 8:
            self.last = x.mean(0)
            return x + self.last
        return x + self.last if hasattr(self, "last") else x


def test_no_step_runs_where_the_short_batch_writes_what_a_full_one_reads(everything):
    trainer = Trainer(in_the_middle(WrittenInTheShortBatch()), MSE(), SGD(0.1), compile=True)
    before = everything(trainer)
    with pytest.raises(ValueError, match=r"layers\.1 \(WrittenInTheShortBatch\) .*Received: last, "):
        trainer.fit(X[:22], X[:22], 2, 8)
    assert bits_equal(before, everything(trainer))


class Limits(NamedTuple):
    lowest: float
    highest: float


class Clips(Layer):
    def __init__(self):
        self.limits = Limits(-1.0, 1.0)

    def forward(self, x, training=False):
        if training:
            self.keep(x)
        return jnp.clip(x, *self.limits)

    def backward(self, g):
        (x,) = self.take()
        return jnp.where((x > self.limits.lowest) & (x < self.limits.highest), g, 0)


def test_a_named_tuple_is_an_attribute_like_others():
    X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    runs = []
    for mode in (False, True):
        model = Sequential(Dense(3, 3, 0), Clips())
        runs.append(Trainer(model, MSE(), SGD(0.1), compile=mode).fit(X, X, 2, 4).model.state_dict())
    assert bits_equal(*runs)
