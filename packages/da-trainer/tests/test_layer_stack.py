"""A stack of equal layers: one loop in the compiled step, the bits of single layers."""

import jax
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
    "make", [Tied, lambda: Tied(0), TiedElsewhere, plain, counting, shared_activation, applied_twice]
)
def test_a_stack_whose_parts_are_used_elsewhere_too(make, everything, tracers):
    results = []
    for mode in (False, True):
        model = make()
        loss = Penalty(model.layers[0].layers[2]) if make is plain else MSE()
        trained = Trainer(model, loss, Adam(0.01), compile=mode, clip_norm=0.5).fit(X[:, 0], X[:, 1], 3, 8)
        results.append([everything(trained), trained.evaluate(X[:, 0], X[:, 1])])
        assert tracers(trained) == []
    assert bits_equal(*results).differences == {}


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
    steps = Batches(check_pairs(X[:16], Y[:16]), 8)
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


def test_layer_that_keeps_what_it_needs_in_an_attribute_is_refused():
    class Remembers(Dense):
        def forward(self, x, training=False):
            self.x = x
            return super().forward(x, training)

        def backward(self, g):
            return super().backward(g) + 0 * self.x

    trained = trainer(True, make=lambda seed: Remembers(8, 8, seed))
    with pytest.raises(ValueError, match=r"^layers\.1\.layers\.0 \(Remembers\) must keep what .* Received: x, "):
        trained.fit(X, Y, 1, 8)
    assert not isinstance(trained.model.layers[1].layers[0].weight.value, jax.core.Tracer)
