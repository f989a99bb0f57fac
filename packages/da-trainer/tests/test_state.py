"""What is left in the objects: no tracers, the last good values, no leaks; hidden state is refused."""

import copy
import gc
import random
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import MSE, Buffer, Dense, Layer, ReLU, Sequential, mlp, walk
from da_optim import SGD, AdaGrad, Adam, RMSProp
from da_trainer import Callback, Trainer, bits_equal

X = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)


def tracers(trainer):
    """Paths of all tracers in the objects, gradients and slots included."""
    found = []
    for name in ("model", "loss", "optimizer_prototype"):
        for path, part in walk(getattr(trainer, name), name):
            held = vars(part).values() if hasattr(part, "__dict__") else [part]
            found += [path for leaf in jax.tree.leaves(list(held)) if isinstance(leaf, jax.core.Tracer)]
    for param in trainer.model.params():
        leaves = jax.tree.leaves(param.slots(trainer.optimizer_prototype))
        found += [param.name for leaf in leaves if isinstance(leaf, jax.core.Tracer)]
    return found


class RaiseAt(Callback):
    def __init__(self, step, error):
        self.step, self.error, self.good = step, error, None

    def on_step_end(self, trainer, epoch, step, loss):
        if step == self.step:
            self.good = trainer.model.state_dict()
            self.error()


def interrupt():
    signal.raise_signal(signal.SIGINT)


def fail():
    raise RuntimeError("from the callback")


@pytest.mark.parametrize(("error", "kind"), [(fail, RuntimeError), (interrupt, KeyboardInterrupt)])
def test_callback_that_raises_in_step_7(mode, error, kind):
    model = mlp([4, 5, 4], jax.random.key(0))
    trainer, callback = Trainer(model, MSE(), Adam(0.01), compile=mode), RaiseAt(7, error)
    with pytest.raises(kind):
        trainer.fit(X, X, 1, 3, callbacks=[callback])
    assert tracers(trainer) == []
    assert bits_equal(model.state_dict(), callback.good)
    other = Trainer(mlp([4, 5, 4], jax.random.key(0)), MSE(), Adam(0.01), compile=mode)
    order = jax.random.permutation(jax.random.fold_in(jax.random.PRNGKey(0), 0), 24)
    other.fit(X[order][:21], X[order][:21], 1, 3, shuffle=False)
    assert bits_equal(model.state_dict(), other.model.state_dict())
    assert trainer.predict(X).shape == (24, 4)
    trainer.fit(X, X, 1, 3)


class Stop(Layer):
    """Passes x on, and raises when told to."""

    armed = False

    def forward(self, x, training=False):
        return x

    def backward(self, g):
        if Stop.armed:
            raise RuntimeError("from the layer")
        return g


def test_layer_that_raises_leaves_the_last_good_values(mode, monkeypatch):
    model = Sequential(Dense(4, 4, jax.random.key(0)), Stop(), Dense(4, 4, jax.random.key(1)))
    trainer = Trainer(model, MSE(), Adam(0.01), compile=mode).fit(X, X, 1, 8)
    before = model.state_dict()
    monkeypatch.setattr(Stop, "armed", True)
    with pytest.raises(RuntimeError, match="from the layer") as raised:
        trainer.fit(X, X, 1, 7)
    assert "In layers.1 (Stop), backward." in raised.value.__notes__
    assert tracers(trainer) == []
    assert bits_equal(before, model.state_dict())
    monkeypatch.setattr(Stop, "armed", False)
    trainer.predict(X)
    trainer.fit(X, X, 1, 7)


@pytest.mark.parametrize(
    "make",
    [lambda: SGD(0.1), lambda: SGD(0.1, 0.9), Adam, RMSProp, AdaGrad],
    ids=["sgd", "momentum", "adam", "rms", "ada"],
)
def test_state_keeps_its_form(make, mode):
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


def test_fits_leave_memory_flat(mode):
    trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), Adam(0.01), compile=mode)
    counts = []
    for fits in range(60):
        trainer.fit(X, X, 1, 8, X_val=X, y_val=X)
        if fits % 20 == 19:
            gc.collect()
            counts.append(len(jax.live_arrays()))
    assert counts[1] == counts[2]


def test_new_models_leave_memory_flat(mode):
    counts = []
    for models in range(15):
        Trainer(mlp([4, 4], jax.random.key(models)), MSE(), Adam(0.01), compile=mode).fit(X, X, 1, 8)
        if models % 5 == 4:
            gc.collect()
            counts.append(len(jax.live_arrays()))
    assert counts[1] == counts[2]


def test_global_random_state_is_left_alone(mode):
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    Trainer(mlp([4, 4], jax.random.key(0)), MSE(), SGD(0.1), compile=mode).fit(X, X, 2, 8)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_programs_are_few_and_shared(compilations):
    big = np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32)

    def make(lr):
        return Trainer(mlp([4, 3, 4], jax.random.key(0)), MSE(), Adam(lr, beta1=lr), compile=True)

    trainer = make(0.01)
    trainer.fit(big, big, 3, 16)
    trainings = [key for key in trainer.executor.programs._programs if key[0] == "training"]
    assert len(trainings) == 2
    trainer.evaluate(big, big)
    trainer.predict(big)
    before = compilations.count
    for _ in range(3):
        trainer.fit(big, big, 1, 16)
        trainer.evaluate(big, big)
        trainer.predict(big)
    assert compilations.count == before
    make(0.02).fit(big, big, 2, 16)
    assert compilations.count == before


# State that is carried from step to step in plain sight of Python, but not of the step.


class Base(Layer):
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


class Helper:
    total = 0.0


class InHelper(Base):
    def __init__(self):
        self.helper = Helper()

    def forward(self, x, training=False):
        self.helper.total = self.helper.total + x.mean()
        return x + self.helper.total


class InNumPy(Base):
    def __init__(self):
        self.count = np.zeros(1, np.float32)

    def forward(self, x, training=False):
        self.count[0] += 1
        return x * self.count[0]


HIDDEN = [
    (Attribute, "seen"),
    (FromNone, "seen"),
    (Counter, "steps"),
    (InDict, "store.last"),
    (InList, "history"),
    (InHelper, "helper.total"),
    (InNumPy, "count"),
]


@pytest.mark.parametrize(("layer", "attribute"), HIDDEN)
@pytest.mark.parametrize("compile", ["exact", "fused"])
def test_hidden_state_is_refused_by_name(layer, attribute, compile):
    model = Sequential(Dense(4, 4, jax.random.key(0)), {"any name": layer()}["any name"], ReLU())
    before = model.state_dict()
    attributes = copy.deepcopy(vars(model.layers[1]))
    with pytest.raises(
        ValueError, match=rf"^layers\.1 \({layer.__name__}\) must keep .*Received: {attribute}"
    ) as raised:
        Trainer(model, MSE(), SGD(0.01), compile=compile).fit(X, X, 1, 8)
    assert "da_layers.Buffer" in str(raised.value)
    assert bits_equal(before, model.state_dict())
    now = {name: value for name, value in vars(model.layers[1]).items() if not isinstance(value, Helper)}
    assert bits_equal(now, {name: value for name, value in attributes.items() if name in now})
    Trainer(model, MSE(), SGD(0.01)).fit(X, X, 1, 8)


class Passing(Layer):
    """Keeps x in every kind of place, from forward to backward only."""

    def __init__(self):
        self.x, self.places, self.calls = None, {"list": [], "dict": {}}, []

    def forward(self, x, training=False):
        self.x = x
        self.places["dict"]["x"] = x
        self.calls.append(x)
        return x * x

    def backward(self, g):
        assert self.places["dict"]["x"] is self.x
        return 2 * g * self.calls.pop()


def test_what_passes_from_forward_to_backward_compiles():
    results = []
    for mode in (False, True):
        model = Sequential(Dense(4, 4, jax.random.key(0)), Passing(), Dense(4, 4, jax.random.key(1)))
        trainer = Trainer(model, MSE(), SGD(0.01), compile=mode).fit(X, X, 2, 8)
        assert tracers(trainer) == []
        if mode:
            assert model.layers[1].x is None
            assert model.layers[1].places == {"list": [], "dict": {}}
        results.append((trainer.history_, model.state_dict()))
    assert bits_equal(*results)


class CountingSGD(SGD):
    steps = 0

    def update(self, weights, gradient, slots, lr):
        self.steps = self.steps + 1
        return super().update(weights, gradient, slots, lr / self.steps)


def test_optimizer_with_hidden_state_is_refused():
    model = mlp([4, 4], jax.random.key(0))
    with pytest.raises(ValueError, match=r"^optimizer \(CountingSGD\) must keep .* slot.*Received: steps"):
        Trainer(model, MSE(), CountingSGD(0.1), compile=True).fit(X, X, 1, 8)


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
        results.append((trainer.history_, model.state_dict()))
    assert bits_equal(*results)
    assert "layers.1.shown.running" in results[0][1]
