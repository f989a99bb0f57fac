"""When programs are compiled, what they share, and what they take as constants."""

import copy
import gc
import logging
import pickle
import re
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import MSE, AutoLayer, Buffer, Dense, Dropout, Layer, Param, Sequential, SoftmaxCrossEntropy, mlp
from da_optim import SGD, Adam, CosineLR, Optimizer
from da_trainer import Callback, Trainer, bits_equal

X = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)


@pytest.fixture
def in_both(everything):
    """Runs the same training by the loop and compiled, and compares all that it moves."""

    def check(train):
        loop, compiled = train(False), train(True)
        assert bits_equal(everything(loop), everything(compiled)).differences == {}
        return compiled

    return check


# How many


@pytest.mark.parametrize("drop_last", [False, True])
def test_two_training_programs_at_most_and_none_in_a_second_fit(compilations, drop_last, caplog):
    """1000 samples, batch 64, 3 epochs; then flips between fit, evaluate and predict."""
    big = np.random.default_rng(0).standard_normal((1000, 4)).astype(np.float32)
    trainer = Trainer(mlp([4, 3, 4], jax.random.key(0)), MSE(), Adam(0.01), schedule=CosineLR(9), compile=True)
    with caplog.at_level(logging.INFO, "da_trainer"):
        trainer.fit(big, big, 3, 64, drop_last=drop_last)
    assert sum("a step of training" in message for message in caplog.messages) == 2 - drop_last
    trainer.evaluate(big, big)
    trainer.predict(big)
    before = compilations.count
    for _ in range(5):
        trainer.fit(big, big, 1, 64, drop_last=drop_last)
        trainer.evaluate(big, big)
        trainer.predict(big)
    assert compilations.count == before


def test_the_compilation_counter_counts(compilations):
    jax.jit(lambda x: x * 3 + 1)(jnp.ones((2, 9)))
    assert compilations.count > 0


def test_second_trainer_with_other_numbers_compiles_nothing(compilations):
    def make(number):
        model = mlp([4, 4], jax.random.key(0))
        options = {"weight_decay": number, "clip_norm": number, "schedule": CosineLR(100 * number)}
        return Trainer(model, MSE(), Adam(number, beta1=number, epsilon=number), **options, compile=True)

    make(0.01).fit(X, X, 1, 8, X_val=X, y_val=X)
    before = compilations.count
    make(0.02).fit(X, X, 1, 8, X_val=X, y_val=X)
    assert compilations.count == before


# What counts at once


class Turn(Callback):
    """Sets everything that may be set, after each step."""

    def on_step_end(self, trainer, epoch, step, loss):
        number = 0.1 / (3 * epoch + step)
        optimizer = trainer.optimizer_prototype
        for name in ("lr", "momentum", "beta1", "beta2", "epsilon"):
            if hasattr(optimizer, name):
                setattr(optimizer, name, number if name == "lr" else 0.5 + number)
        trainer.weight_decay, trainer.clip_norm = number, 10 * number


@pytest.mark.parametrize("make", [lambda: SGD(0.1, 0.9), lambda: SGD(0.1, 0.9, nesterov=True), lambda: Adam(0.01)])
@pytest.mark.parametrize("decay", ["l2", "decoupled"])
def test_numbers_set_in_a_callback_or_between_fits_count_at_once_and_compile_nothing(
    in_both, make, decay, compilations
):
    def train(mode, turning=True):
        options = {"weight_decay": 0.01, "clip_norm": 1.0, "decay": decay}
        trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), make(), **options, compile=mode)
        trainer.fit(X, X, 1, 8)
        before = compilations.count
        trainer.fit(X, X, 2, 8, callbacks=[Turn()] * turning)
        Turn().on_step_end(trainer, 4, 0, 0.0)
        trainer.fit(X, X, 1, 8)
        assert not mode or compilations.count == before
        return trainer

    turned = in_both(train)
    assert not bits_equal(turned.model.state_dict(), train(True, turning=False).model.state_dict())


@pytest.mark.parametrize("lr", [1, np.float32(0.3), np.float64(0.3), jnp.float32(0.3), np.array(0.3)], ids=repr)
def test_learning_rate_of_any_kind_of_number(in_both, compilations, lr):
    def train(mode):
        trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), SGD(0.1, 0.9), compile=mode).fit(X, X, 1, 8)
        trainer.optimizer_prototype.lr = 0.25
        trainer.fit(X, X, 1, 8)
        before = compilations.count
        trainer.optimizer_prototype.lr = lr
        trainer.fit(X, X, 1, 8)
        assert not mode or compilations.count == before
        assert trainer.history_["lr"][-1] == float(lr)
        return trainer

    in_both(train)


class Wrapped(Optimizer):
    """Its numbers are in another optimiser."""

    def __init__(self):
        super().__init__(0.1)
        self.inner = SGD(0.1, 0.5)

    def init(self, weights):
        return self.inner.init(weights)

    def update(self, weights, gradient, slots, lr):
        return self.inner.update(weights, gradient, slots, lr)


def test_numbers_of_an_optimizer_inside_the_optimizer_count(in_both):
    def train(mode):
        trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), Wrapped(), compile=mode).fit(X, X, 1, 8)
        trainer.optimizer_prototype.inner.momentum = 0.9
        return trainer.fit(X, X, 1, 8)

    in_both(train)


class Damped(SGD):
    damping = 0.5

    def update(self, weights, gradient, slots, lr):
        return super().update(weights, gradient * self.damping, slots, lr)


def test_number_of_the_class_may_become_one_of_the_object(in_both):
    def train(mode):
        trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), Damped(0.1), compile=mode).fit(X, X, 1, 8)
        trainer.optimizer_prototype.damping = 0.25
        return trainer.fit(X, X, 1, 8)

    in_both(train)


# Constants


def test_attributes_that_the_step_took_as_constants_count(in_both):
    def train(mode):
        model = Sequential(Dense(4, 4, jax.random.key(0)), Dropout(0.3, 1), Dense(4, 4, jax.random.key(2)))
        trainer = Trainer(model, MSE(), SGD(0.1), compile=mode).fit(X, X, 1, 24)
        model.layers[1].rate = 0.8
        trainer.fit(X, X, 1, 24)
        model.layers[0].weight.trainable = False
        frozen = model.layers[0].weight.value
        trainer.fit(X, X, 1, 24)
        assert bits_equal(frozen, model.layers[0].weight.value)
        model.layers[0].weight.trainable = True
        trainer.fit(X, X, 1, 24)
        assert not bits_equal(frozen, model.layers[0].weight.value)
        return trainer

    in_both(train)


class Head(Layer):
    """The first `size` outputs."""

    size = 2

    def __init__(self):
        self.size = 2

    def forward(self, x, training=False):
        if training:
            self.keep(x.shape[-1] - self.size)
        return x[:, : self.size]

    def backward(self, g):
        (rest,) = self.take()
        return jnp.pad(g, ((0, 0), (0, rest)))


def test_labels_are_checked_against_the_prediction_of_now(in_both):
    def train(mode):
        model = Sequential(Dense(4, 4, jax.random.key(0)), Head())
        trainer = Trainer(model, SoftmaxCrossEntropy(), SGD(0.1), compile=mode)
        trainer.fit(X, np.arange(24) % 2, 1, 24)
        with pytest.raises(ValueError, match="labels from 0 to 1"):
            trainer.fit(X, np.arange(24) % 4, 1, 24)
        model.layers[1].size = 4
        return trainer.fit(X, np.arange(24) % 4, 1, 24)

    in_both(train)


class Table(AutoLayer):
    def __init__(self, seed, place):
        self.table = place(np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32))

    def function(self, values, x):
        return x @ self.table


class Calls(Layer):
    """Calls a Python function, which the program's text only numbers."""

    def __init__(self, factor):
        self.factor = np.float32(factor)

    def forward(self, x, training=False):
        return jax.pure_callback(lambda a: np.asarray(a) * self.factor, jax.typeof(x), x)

    def backward(self, g):
        return g * self.factor


@pytest.mark.parametrize("simplified", [False, True])
@pytest.mark.parametrize(
    "make",
    [lambda i: Table(i, np.asarray), lambda i: Table(i, jnp.asarray), lambda i: Calls(i)],
    ids=["NumPy array", "JAX array", "callback"],
)
def test_programs_that_differ_in_their_constants_or_callbacks_only_are_not_mixed_up(in_both, make, simplified):
    """With simplified constants, JAX keeps large ones beside the program's text."""
    name = "jax_use_simplified_jaxpr_constants"
    before = getattr(jax.config, name)
    jax.config.update(name, simplified)
    try:
        for number in (1, 2):

            def train(mode, number=number):
                model = Sequential(Dense(4, 4, jax.random.key(0)), make(number))
                return Trainer(model, MSE(), SGD(0.01), compile=mode).fit(X, X, 1, 24)

            in_both(train)
    finally:
        jax.config.update(name, before)


class Chooses(Layer):
    """Uses one of two Params of the same shape: JAX does not give the other to the program."""

    def __init__(self, use):
        self.a, self.b, self.use = Param(np.full(4, 2.0)), Param(np.full(4, 3.0)), use

    def forward(self, x, training=False):
        return x * getattr(self, self.use).value

    def backward(self, g):
        return g * getattr(self, self.use).value


def test_programs_that_differ_in_the_arguments_they_use_only_are_not_mixed_up(mode):
    for use, factor in (("a", 2), ("b", 3)):
        trainer = Trainer(Chooses(use), MSE(), SGD(0.01), compile=mode)
        assert bits_equal(trainer.predict(X), X * np.float32(factor))
        trainer.model.use = "b"
        assert bits_equal(trainer.predict(X), X * np.float32(3))


class Flags(Layer):
    kind = "plain"
    zero = 0.0

    def __init__(self):
        self.double, self.negate, self.shift = True, False, True
        self.table = {1: 1.0, "1": 1.0}
        self.gained = Gained(jnp.ones(()))
        self.steps = [abs, jnp.exp, abs]

    def forward(self, x, training=False):
        y = x * 2 if self.double else x
        y = -y if self.negate else y
        y = y + 1 if self.shift else y
        y = y * 3 if self.kind == "odd" else y
        y = y + jnp.float32(np.copysign(1.0, self.zero))
        for step in self.steps:
            y = step(y * 0.1)
        return y * self.table[1] * self.table["1"] * self.gained.value * self.gained.gain

    def backward(self, g):
        return g


class Gained(Buffer):
    gain = 1.0


def shift(layer):
    layer.shift = False


def negate(layer):
    layer.negate = True


def entry(layer):
    layer.table["1"] = 5.0


def first_entry(layer):
    layer.table[1] = 6.0


def repeated(layer):
    layer.steps[2] = jnp.exp


def of_a_variable(layer):
    layer.gained.gain = 7.0


def sign_of_zero(layer):
    layer.zero = -0.0


def of_the_class(layer):
    type(layer).kind = "odd"


@pytest.mark.parametrize(
    "change", [shift, negate, entry, first_entry, repeated, of_a_variable, sign_of_zero, of_the_class]
)
def test_any_changed_attribute_counts(change, monkeypatch):
    """Also one whose old or new value is somewhere else in the model too."""
    monkeypatch.setattr(Flags, "kind", "plain")
    layer = Flags()
    loop, compiled = (Trainer(layer, MSE(), SGD(0.01), compile=mode) for mode in (False, True))
    before = compiled.predict(X)
    assert bits_equal(before, loop.predict(X))
    change(layer)
    assert not bits_equal(before, compiled.predict(X))
    assert bits_equal(compiled.predict(X), loop.predict(X))


def test_weak_and_strong_inputs_are_the_same(mode):
    model = AutoLayerOnParam(jnp.bfloat16)
    trainer = Trainer(model, MSE(), SGD(0.01), compile=mode)
    weak = jnp.full((3, 4), 1.7)
    assert weak.weak_type
    strong = jnp.asarray(np.full((3, 4), 1.7, np.float32))
    assert bits_equal(trainer.predict(strong), trainer.predict(weak))


class AutoLayerOnParam(AutoLayer):
    def __init__(self, dtype):
        self.scale = Param(jnp.ones(4, dtype), role="scale")

    def function(self, values, x):
        return values["scale"] * x


def test_layers_that_call_python_are_let_go_of():
    def train():
        layer = Calls(2.0)
        Trainer(Sequential(Dense(4, 4, 0), layer), MSE(), SGD(0.01), compile=True).fit(X, X, 1, 24)
        return weakref.ref(layer)

    layers = [train() for _ in range(3)]
    jax.clear_caches()
    gc.collect()
    assert [layer() for layer in layers] == [None] * 3


# Objects that change


class Grow(Callback):
    """Adds a layer after the first step, and another after the first epoch; freezes; takes another optimiser."""

    def on_step_end(self, trainer, epoch, step, loss):
        if (epoch, step) == (1, 1):
            trainer.model.layers.append(Dense(4, 4, jax.random.key(7)))

    def on_epoch_end(self, trainer, epoch):
        if epoch == 1:
            trainer.model.layers.append(Dense(4, 4, jax.random.key(8)))
        if epoch == 2:
            trainer.model.layers[0].weight.trainable = False
            trainer.optimizer_prototype = SGD(0.01, 0.9)


def test_model_may_grow_while_it_is_trained(in_both):
    def train(mode):
        model = mlp([4, 4], jax.random.key(0))
        trainer = Trainer(model, MSE(), Adam(0.01), compile=mode).fit(X, X, 3, 8, callbacks=[Grow()])
        assert not bits_equal(model.layers[1].weight.value, Dense(4, 4, jax.random.key(7)).weight.value)
        return trainer

    in_both(train)


def test_executor_may_be_switched_between_fits(everything):
    results = []
    for modes in ((False, False), (True, False), (False, True), (True, True)):
        trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), Adam(0.01))
        for mode in modes:
            trainer.compile = mode
            assert trainer.compile == mode
            trainer.fit(X, X, 2, 8)
        results.append(everything(trainer))
    assert all(bits_equal(results[0], result) for result in results)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda trainer: pickle.loads(pickle.dumps(trainer))])
def test_copies_go_on_alone(everything, mode, copied):
    trainer = Trainer(mlp([4, 4], jax.random.key(0)), MSE(), Adam(0.01), compile=mode).fit(X, X, 1, 8)
    other, before = copied(trainer), everything(trainer)
    assert bits_equal(everything(other), before)
    other.fit(X, X, 1, 8)
    assert bits_equal(everything(trainer), before | {"history": trainer.history_})
    assert bits_equal(everything(other), everything(trainer.fit(X, X, 1, 8)))


# What cannot be compiled


class Looks(Layer):
    def __init__(self, look):
        self.look = look

    def forward(self, x, training=False):
        return self.look(x)

    def backward(self, g):
        return g


LOOKS = {
    "float": (lambda x: x * float(x.mean()), "float(), int() or .item()", "arithmetic on the array itself"),
    "if": (lambda x: x if x.mean() > 0 else -x, "`if`, `while`, `and` or bool()", "jnp.where(condition, a, b)"),
    "numpy": (lambda x: x * np.asarray(x).mean(), "handed to NumPy", "jnp instead of numpy"),
    "norm": (lambda x: x * np.linalg.norm(x), "handed to NumPy", "jnp instead of numpy"),
    "item": (lambda x: x * x.mean().item(), "float(), int() or .item()", "arithmetic on the array itself"),
    "index": (lambda x: x * [1.0, 2.0][x.argmax() * 0], "in the place of a Python int", "jnp.take"),
    "mask": (lambda x: x[x > -100.0].reshape(x.shape), "indexed by a mask", "jnp.where(mask, x, 0)"),
}


@pytest.mark.parametrize(("look", "received", "instead"), LOOKS.values(), ids=LOOKS)
def test_layer_that_looks_at_numbers_is_told_the_line_and_what_to_write(look, received, instead, everything):
    model = Sequential(Dense(4, 4, jax.random.key(0)), Looks(look))
    trainer = Trainer(model, MSE(), SGD(0.01), compile=True)
    before = everything(trainer)
    with pytest.raises(ValueError, match=r"^layers\.1 \(Looks\), forward must not look at the numbers") as raised:
        trainer.fit(X, X, 1, 8)
    message = str(raised.value)
    assert f"Write {instead}" in message
    assert "or train with compile=False. Received:" in message
    assert re.search(rf"{re.escape(received)}.*, in test_programs\.py:\d+: .*lambda x: ", message)
    assert "X.shape=(24, 4)" in raised.value.__notes__[0]
    assert bits_equal(everything(trainer), before)
    Trainer(model, MSE(), SGD(0.01)).fit(X, X, 1, 8)


outside = []


def leave(x):
    outside.append(x)
    return x + outside[1]


def use_up(x):
    return x * outside.pop()


@pytest.mark.parametrize(
    ("look", "where"), [(leave, r", and changes no attribute"), (use_up, r", at layers\.1 \(Looks\), forward, and")]
)
def test_layer_that_carries_state_in_a_global_is_told_to_use_a_variable(look, where):
    outside[:] = [1.0]
    model = Sequential(Dense(4, 4, jax.random.key(0)), Looks(look))
    with pytest.raises(ValueError, match=rf"in a Variable.* each time it is traced{where}.* Trainer\.verify finds"):
        Trainer(model, MSE(), SGD(0.01), compile=True).fit(X, X, 1, 8)


class Rounds(SGD):
    def update(self, weights, gradient, slots, lr):
        return super().update(weights, gradient, slots, float(lr))


def test_optimizer_that_looks_at_numbers_is_told_the_line_and_what_to_write():
    model = mlp([4, 4], jax.random.key(0))
    where = r"^Rounds\.update on layers\.0\.weight \(Param\) must not look .* test_programs\.py:\d+: .*float\(lr\)"
    with pytest.raises(ValueError, match=where):
        Trainer(model, MSE(), Rounds(0.1), compile=True).fit(X, X, 1, 8)
    Trainer(model, MSE(), Rounds(0.1)).fit(X, X, 1, 8)


# Recompiling


LONG = np.random.default_rng(1).standard_normal((24, 6, 4)).astype(np.float32)


def change_shape(trainer):
    trainer.fit(LONG, LONG, 1, 8)


def change_rank(trainer):
    trainer.fit(X, X, 1, 8)


def change_samples(trainer):
    trainer.fit(LONG[:19, :5], LONG[:19, :5], 1, 8)


def change_batch_size(trainer):
    trainer.fit(LONG[:20, :5], LONG[:20, :5], 1, 12)


def change_dtype(trainer):
    trainer.fit(LONG[:20, :5].astype(jnp.bfloat16), LONG[:20, :5], 1, 8)


def change_attribute(trainer):
    trainer.model.layers[1].rate = 0.5
    trainer.fit(LONG[:20, :5], LONG[:20, :5], 1, 8)


def freeze(trainer):
    trainer.model.layers[0].weight.trainable = False
    trainer.fit(LONG[:20, :5], LONG[:20, :5], 1, 8)


def change_setting(trainer):
    trainer.weight_decay = 0.1
    trainer.fit(LONG[:20, :5], LONG[:20, :5], 1, 8)


CAUSES = {
    change_shape: "X.shape[1]=6, which was 5; y.shape[1]=6, which was 5",
    change_rank: "X.shape=(8, 4), which was (8, 5, 4)",
    change_samples: "data.shape[0]=19, which was 20",
    change_batch_size: "X.shape[0]=12, which was 8",
    change_dtype: "X.dtype=bfloat16, which was float32",
    change_attribute: "another layers.1.rate",
    change_setting: "weight_decay is new",
    freeze: "training of layers.0.weight is gone",
}


@pytest.fixture
def recompiling():
    def make(recompile):
        model = Sequential(Dense(4, 4, jax.random.key(0)), Dropout(0.1, 1))
        trainer = Trainer(model, MSE(), SGD(0.01), compile=True, recompile=recompile)
        return trainer.fit(LONG[:20, :5], LONG[:20, :5], 2, 8)

    return make


@pytest.mark.parametrize("change", CAUSES, ids=lambda change: change.__name__)
def test_recompile_is_refused_with_its_cause(change, recompiling, everything):
    trainer = recompiling("raise")
    before = everything(trainer)
    with pytest.raises(ValueError, match=r"^recompile='raise' .* Received: step 1 of an epoch, ") as raised:
        change(trainer)
    assert CAUSES[change] in str(raised.value)
    assert bits_equal(everything(trainer), before)
    trainer.model.layers[1].rate, trainer.weight_decay = 0.1, 0.0
    trainer.model.layers[0].weight.trainable = True
    trainer.fit(LONG[:20, :5], LONG[:20, :5], 1, 8)


@pytest.mark.parametrize("change", CAUSES, ids=lambda change: change.__name__)
def test_recompile_is_logged_with_its_cause(change, recompiling, caplog):
    trainer = recompiling("allow")
    with caplog.at_level(logging.INFO, "da_trainer"):
        change(trainer)
    assert any(CAUSES[change] in message for message in caplog.messages)


def test_recompile_may_be_set_between_fits(recompiling):
    trainer = recompiling("allow")
    trainer.recompile = "raise"
    with pytest.raises(ValueError, match=r"X\.shape\[1\]=6"):
        change_shape(trainer)
    trainer.recompile = "allow"
    change_shape(trainer)


def test_a_fit_that_could_not_be_compiled_is_no_program():
    trainer = Trainer(mlp([4, 3], jax.random.key(0)), SoftmaxCrossEntropy(), SGD(0.1), compile=True, recompile="raise")
    with pytest.raises(ValueError, match="labels from 0 to 2"):
        trainer.fit(X, np.arange(24) % 7, 1, 8)
    with pytest.raises(ValueError, match="x must have shape"):
        trainer.fit(X[:, :3], np.arange(24) % 3, 1, 8)
    trainer.fit(X, np.arange(24) % 3, 1, 8)


class Tap(Layer):
    """Writes an attribute in evaluation only: the training step is then traced again, for it might read that."""

    def forward(self, x, training=False):
        if not training:
            self.seen = x
        return x

    def backward(self, g):
        return g


def test_validation_between_epochs_is_no_reason_to_refuse(caplog):
    model = Sequential(Dense(4, 4, jax.random.key(0)), Tap())
    trainer = Trainer(model, MSE(), SGD(0.1), compile=True, recompile="raise")
    with caplog.at_level(logging.INFO, "da_trainer"):
        trainer.fit(X, X, 3, 8, X_val=X, y_val=X)
    assert any("another step writes an attribute" in message for message in caplog.messages)


def test_bad_recompile():
    with pytest.raises(ValueError, match=r"recompile must be 'allow' or 'raise'\. Received: recompile='never'"):
        Trainer(mlp([4, 4], jax.random.key(0)), MSE(), SGD(0.1), recompile="never")
