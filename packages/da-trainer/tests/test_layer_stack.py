"""A stack of equal layers: one loop in the compiled step, the bits of single layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import (
    MSE,
    BatchNorm,
    Buffer,
    Conv2D,
    Dense,
    Dropout,
    GlobalAveragePool,
    Key,
    Layer,
    LayerStack,
    Param,
    ReLU,
    Residual,
    Sequential,
    SoftmaxCrossEntropy,
    Tanh,
    TransformerBlock,
)
from da_optim import SGD, Adam, CosineLR
from da_trainer import Trainer, bits_equal
from da_trainer._batches import Batches
from da_trainer._data import check_pairs

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((22, 6, 8)).astype(np.float32), RNG.integers(0, 3, 22)


def noisy(seed):
    return Residual(Sequential(Dense(8, 8, seed), BatchNorm(8), Dropout(0.2, seed), Tanh()))


def block(seed):
    return TransformerBlock(8, 2, 12, seed, dropout=0.1)


def nested(seed):
    return LayerStack([noisy(2 * seed), noisy(2 * seed + 1)])


def net(make, layers=3):
    stack = LayerStack([make(seed) for seed in range(layers)])
    return Sequential(Dense(8, 8, 7), stack, BatchNorm(8), GlobalAveragePool(), Dense(8, 3, 8))


def trainer(mode, make=noisy, layers=3, optimizer=None, **options):
    return Trainer(net(make, layers), SoftmaxCrossEntropy(), optimizer or Adam(0.01), compile=mode, **options)


CLIPPED = {"clip_norm": 0.5, "weight_decay": 0.01, "decay": "decoupled"}


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (noisy, {}),
        (noisy, {"on_nonfinite": "skip", "weight_decay": 0.01}),
        (nested, CLIPPED),
        (block, CLIPPED),
    ],
    ids=["noisy", "skip", "nested", "transformer"],
)
def test_same_bits(make, options, everything, tracers):
    results = []
    for mode in (False, True):
        trained = trainer(mode, make, layers=2, schedule=CosineLR(5), **options).fit(X[:16], Y[:16], 2, 8)
        results.append([everything(trained), trained.evaluate(X, Y), trained.predict(X)])
        assert tracers(trained) == []
    assert bits_equal(*results).differences == {}


def steps_traced(trained):
    return [step.jaxpr for step in trained.executor.traces._steps.values()]


def test_a_deeper_stack_is_no_longer_program():
    sizes = []
    for layers in (2, 5):
        trained = trainer(True, layers=layers, clip_norm=0.5).fit(X[:16], Y[:16], 1, 8)
        (jaxpr,) = steps_traced(trained)
        sizes.append(len(jaxpr.eqns))
    assert sizes[0] == sizes[1]


def test_xla_leaves_the_loop_of_a_tiny_stack_as_it_is():
    model = LayerStack([Dense(3, 3, seed) for seed in range(3)])
    trained = Trainer(model, MSE(), SGD(0.1), compile=True, clip_norm=1.0)
    trained.fit(X[:4, 0, :3], X[:4, 0, :3], 1, 4, shuffle=False)
    ((_, program),) = trained.executor.programs._programs.values()
    assert "xla_cpu_small_call" not in program.as_text()


def convolution(seed):
    return Sequential(Conv2D(8, 8, 3, seed), ReLU())


def frozen_first(seed):
    layer = Dense(8, 8, seed)
    layer.weight.trainable = seed > 0
    return layer


@pytest.mark.parametrize(("make", "shape"), [(convolution, (22, 4, 4, 8)), (frozen_first, (22, 6, 8))])
def test_layer_by_layer_where_a_loop_would_not_do(make, shape, everything):
    """A convolution in a loop is another kernel on a CPU; layers that are frozen unalike are no equal layers."""
    data = RNG.standard_normal(shape).astype(np.float32)
    results = []
    for mode in (False, True):
        model = Sequential(LayerStack([make(seed) for seed in range(2)]), GlobalAveragePool(), Dense(8, 3, 8))
        trained = Trainer(model, SoftmaxCrossEntropy(), SGD(0.01), compile=mode, recompile="raise")
        results.append(everything(trained.fit(data, Y, 2, 8)))
    assert bits_equal(*results).differences == {}


@pytest.mark.parametrize("call", ["evaluate", "predict"])
def test_evaluation_before_training_convolves_as_the_loop_does(call):
    data = RNG.standard_normal((6, 4, 4, 8)).astype(np.float32)
    given = (data, Y[:6]) if call == "evaluate" else (data,)
    results = []
    for mode in (False, True):
        model = Sequential(LayerStack([convolution(seed) for seed in range(2)]), GlobalAveragePool(), Dense(8, 3, 8))
        results.append(getattr(Trainer(model, SoftmaxCrossEntropy(), SGD(0.01), compile=mode), call)(*given))
    assert bits_equal(*results).differences == {}


class Tied(Sequential):
    """Runs one layer of its stack again, from outside."""

    def __init__(self, index=1):
        super().__init__(LayerStack([Dense(8, 8, seed) for seed in range(3)]))
        self.index = index

    def forward(self, x, training=False):
        return self.layers[0].layers[self.index].forward(super().forward(x, training), training)

    def backward(self, g):
        return super().backward(self.layers[0].layers[self.index].backward(g))


class TiedElsewhere(Tied):
    """The same by an attribute of its own."""

    def __init__(self):
        super().__init__()
        self.again = self.layers[0].layers[1]


class Penalty(MSE):
    """Reads a weight of a stack."""

    def __init__(self, layer):
        self.layer = layer

    def forward(self, prediction, target):
        return super().forward(prediction, target) + (self.layer.weight.value**2).sum()


def plain():
    return Sequential(LayerStack([Dense(8, 8, seed) for seed in range(3)]))


class Counting(Layer):
    """Counts its backwards and draws noise for them."""

    def __init__(self, seed):
        self.count, self.noise = Buffer(np.float32(0)), Key(seed)

    def forward(self, x, training=False):
        return x

    def backward(self, g):
        self.count.value = self.count.value + 1
        return g * jax.random.uniform(self.noise.next(), g.shape)


def counting():
    return Sequential(Dense(8, 8, 9), LayerStack([Counting(seed) for seed in range(3)]))


TANH = Tanh()


def shared_activation():
    stack = LayerStack([Sequential(Dense(8, 8, seed), TANH) for seed in range(2)])
    return Sequential(Dense(8, 8, 5), TANH, stack, TANH, Dense(8, 8, 6), TANH)


def applied_twice():
    twice = [Dense(8, 8, seed) for seed in range(2)]
    stack = LayerStack([Sequential(dense, Tanh(), dense) for dense in twice])
    return Sequential(stack, Tanh(), stack)


@pytest.mark.parametrize(
    ("make", "one_by_one"),
    [
        (Tied, True),
        (lambda: Tied(0), True),
        (TiedElsewhere, True),
        (plain, True),
        (counting, False),
        (shared_activation, False),
        (applied_twice, False),
    ],
    ids=["tied", "tied-first", "tied-elsewhere", "penalty", "counting", "activation", "twice"],
)
def test_a_stack_whose_parts_are_used_elsewhere_too(make, one_by_one, everything, tracers):
    results = []
    for mode in (False, True):
        model = make()
        loss = Penalty(model.layers[0].layers[2]) if make is plain else MSE()
        trained = Trainer(model, loss, Adam(0.01), compile=mode, clip_norm=0.5).fit(X[:, 0], X[:, 1], 3, 8)
        results.append([everything(trained), trained.evaluate(X[:, 0], X[:, 1])])
        assert tracers(trained) == []
    assert bits_equal(*results).differences == {}
    assert trained.parts().stacked.stacks
    assert trained.executor._layer_by_layer == one_by_one


def test_layers_that_become_unlike_go_on_one_by_one(everything):
    results = []
    for mode in (False, True):
        trained = trainer(mode).fit(X[:16], Y[:16], 1, 8)
        trained.model.layers[1].layers[1].inner.layers[2].rate = 0.5
        results.append(everything(trained.fit(X[:16], Y[:16], 1, 8)))
    assert bits_equal(*results).differences == {}


def test_a_step_that_was_traced_leaves_no_gradient_in_the_stack(tracers):
    trained = trainer(True)
    parts = trained.parts()
    trained.executor.load(parts)
    steps = Batches(check_pairs(X[:16], Y[:16], trained.loss), 8)
    trained.executor.run(parts, steps, range(1), trained.rates(range(1), 2), trained.options)
    assert tracers(parts) == []


def test_a_convolution_beside_a_stack_leaves_it_a_loop():
    stack = LayerStack([Dense(8, 8, seed) for seed in range(2)])
    model = Sequential(convolution(5), stack, GlobalAveragePool(), Dense(8, 3, 8))
    trained = Trainer(model, SoftmaxCrossEntropy(), SGD(0.01), compile=True)
    trained.fit(RNG.standard_normal((8, 4, 4, 8)).astype(np.float32), Y[:8], 1, 8)
    (jaxpr,) = steps_traced(trained)
    assert any(equation.primitive.name in ("scan", "while") for equation in jaxpr.eqns)


def test_all_frozen_alike_stay_as_they_are():
    trained = trainer(True, make=lambda seed: Dense(8, 8, seed))
    for layer in trained.model.layers[1].layers:
        layer.weight.trainable = False
    before = [np.asarray(layer.weight.value) for layer in trained.model.layers[1].layers]
    trained.fit(X, Y, 1, 8)
    for layer, value in zip(trained.model.layers[1].layers, before, strict=True):
        assert bits_equal(layer.weight.value, value)
        assert np.asarray(layer.bias.value).any()


def test_weights_set_by_hand_count(everything):
    results = []
    for mode in (False, True):
        trained = trainer(mode).fit(X, Y, 1, 8)
        trained.model.layers[1].layers[2].inner.layers[0].weight.value *= 2
        results.append(everything(trained.fit(X, Y, 1, 8)))
    assert bits_equal(*results).differences == {}


def test_verify_of_a_stack():
    assert trainer(False, clip_norm=0.5).verify(X[:16], Y[:16], 8, 3).ok


class Remembers(Dense):
    """Keeps what backward needs in an attribute."""

    def forward(self, x, training=False):
        self.x = x
        return super().forward(x, training)

    def backward(self, g):
        return super().backward(g) + 0 * self.x


class Clipped(Param):
    """Keeps to [-0.1, 0.1]."""

    def update(self, optimizer, lr=None):
        super().update(optimizer, lr)
        self.value = jnp.clip(self.value, -0.1, 0.1)


def clipped(seed):
    layer = Dense(8, 8, seed)
    layer.weight = Clipped(layer.weight.value)
    return layer


class Named(Layer):
    """Runs its layers in the order of a dict."""

    def __init__(self, seed, names):
        self.parts = {name: Dense(8, 8, seed + ord(name)) for name in names}

    def forward(self, x, training=False):
        for part in self.parts.values():
            x = part.forward(x, training)
        return x

    def backward(self, g):
        for part in reversed(self.parts.values()):
            g = part.backward(g)
        return g


def named():
    stack = LayerStack([Named(0, "ab"), Named(5, "ab")])
    stack.layers[1].parts = dict(reversed(stack.layers[1].parts.items()))
    return Sequential(stack)


class Halved(Layer):
    """Multiplies by an array of its own that is no Variable."""

    def __init__(self, seed):
        self.factor = jnp.full(8, 0.5) + seed

    def forward(self, x, training=False):
        return x * self.factor

    def backward(self, g):
        return g * self.factor


class LastFirst(Sequential):
    """Holds the last of many layers before the stack too, whose gradient then comes first into the norm of all."""

    def __init__(self):
        layers = [Sequential(Dense(8, 8, seed), Tanh()) for seed in range(40)]
        self.last = layers[-1]
        super().__init__(LayerStack(layers))


class ReadsGradient(Sequential):
    """Adds the gradient that a layer of its stack has left from before."""

    def __init__(self):
        super().__init__(LayerStack([Dense(8, 8, seed) for seed in range(3)]))

    def forward(self, x, training=False):
        return super().forward(x, training) + self.layers[0].layers[1].bias.grad


def backward_by_hand(model):
    model.backward(model.forward(X[:4, 0], training=True))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sequential(LayerStack([Remembers(8, 8, seed) for seed in range(3)])),
        lambda: Sequential(LayerStack([clipped(seed) for seed in range(3)])),
        named,
        lambda: Sequential(Dense(8, 8, 9), LayerStack([Halved(seed) for seed in range(3)])),
        LastFirst,
        ReadsGradient,
    ],
    ids=["remembers", "clipped", "named", "halved", "last-first", "reads-gradient"],
)
def test_layers_that_cannot_run_as_one_run_one_by_one(make, everything):
    results = []
    for mode in (False, True):
        model = make()
        backward_by_hand(model)
        trained = Trainer(model, MSE(), Adam(0.01), compile=mode, clip_norm=0.5).fit(X[:, 0], X[:, 1], 2, 8)
        results.append(everything(trained))
    assert bits_equal(*results).differences == {}
    assert not trained.parts().stacked.stacks or trained.executor._layer_by_layer


def test_an_error_of_the_users_leaves_the_stack_one_loop():
    trained = trainer(True)
    with pytest.raises(ValueError, match="labels from 0 to 2"):
        trained.fit(X, Y + 5, 1, 8)
    trained.fit(X, Y, 1, 8)
    assert not trained.executor._layer_by_layer


def test_a_stack_that_had_to_be_refused_another_program_is_still_refused_it():
    trained = trainer(True, recompile="raise").fit(X[:16], Y[:16], 1, 8)
    for layer in trained.model.layers[1].layers:
        layer.inner.layers[2].rate = 0.5
    with pytest.raises(ValueError, match=r"recompile='raise' leaves .*\.rate"):
        trained.fit(X[:16], Y[:16], 1, 8)
