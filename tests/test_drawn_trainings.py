"""Drawn trainings: small networks of all there is, by the loop and compiled, with the same bits."""

from random import Random

import da_layers
import da_optim
import jax
import numpy as np
import pytest
from da_bench.drawn import LOSSES, MIDDLE, OPTIMIZERS, SCHEDULES, Training, draw, exhaustive
from da_bench.drawn._parts import INPUTS, KINDS
from da_layers import walk
from da_trainer import Trainer, bits_equal
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_loop_and_compiled_have_the_same_bits(random):
    training = draw(random)
    assert training.compare().differences == {}, training


# A model of its own, from tokens to tokens.
WHOLE = {da_layers.TransformerLM}


def test_a_language_model_has_the_same_bits():
    tokens = np.random.default_rng(0).integers(0, 5, (12, 6))

    def run(mode):
        model, optimizer = da_layers.transformer_lm(5, 8, 2, 12, 2, 0), da_optim.Adam(0.01)
        return Trainer(model, da_layers.SoftmaxCrossEntropy(), optimizer, compile=mode).fit(tokens, tokens, 4, 5)

    assert bits_equal(*((done.model.state_dict(), done.history_) for done in map(run, (False, True))))


def public(module, kind):
    return {value for value in vars(module).values() if isinstance(value, type) and issubclass(value, kind)}


def test_every_layer_may_be_drawn():
    drawn = {
        type(layer)
        for part in MIDDLE.values()
        for inputs in part.inputs
        for _, layer in walk(part.make(INPUTS[inputs], jax.random.PRNGKey(0)))
    }
    of_tokens = next(training for training in map(draw, map(Random, range(1000))) if training.tokens)
    drawn |= {type(layer) for _, layer in walk(of_tokens.model())}
    drawn |= {kind for layer in drawn for kind in layer.__mro__}
    assert public(da_layers, da_layers.Layer) - WHOLE <= drawn


def test_every_loss_may_be_drawn():
    written = {kind for kind in public(da_layers, da_layers.Loss) if "formula" in vars(kind)}
    written -= {da_layers.MeanLoss}
    assert written <= {type(part.make()) for part in LOSSES.values()}


@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_has_the_same_bits(loss):
    options = ("SGD", "no schedule", "l2", 0.3, "raise", 5, 2, True, False, False, False, 0)
    training = Training("rows", False, ("Dense", "Tanh"), loss, *options)
    assert training.compare().differences == {}


def test_tokens_have_the_same_bits():
    layers = ("TransformerBlock", "TiedHead")
    options = ("Adam", "no schedule", "decoupled", 0.3, "raise", 5, 2, True, False, False, False, 0)
    assert Training("sequences", True, layers, "SoftmaxCrossEntropy", *options).compare().differences == {}


def test_every_optimizer_and_schedule_may_be_drawn():
    optimizers = {type(make()) for make in OPTIMIZERS.values()}
    schedules = {type(make()) for make in SCHEDULES.values()}
    assert public(da_optim, da_optim.Optimizer) <= optimizers | {da_optim.Optimizer}
    concrete = {kind for kind in vars(da_optim).values() if hasattr(kind, "multiplier")} - {da_optim.Schedule}
    assert concrete <= schedules


@pytest.mark.parametrize(
    ("name", "inputs"), [(name, inputs) for name, part in MIDDLE.items() for inputs in sorted(part.inputs)]
)
def test_part_makes_the_shape_it_says(name, inputs):
    part, shape = MIDDLE[name], INPUTS[inputs]
    layer = part.make(shape, jax.random.PRNGKey(0))
    output = jax.eval_shape(layer.forward, jax.ShapeDtypeStruct((2, *shape), "float32"))
    assert output.shape == (2, *part.shape(shape))
    assert len(part.shape(shape)) in KINDS


def test_a_training_is_drawn_again_from_its_seed():
    assert draw(Random(7)) == draw(Random(7)) != draw(Random(8))
    assert len({draw(Random(number)) for number in range(50)}) == 50


def test_what_differs_is_counted_and_named(monkeypatch):
    def backward(self, g):
        (x,) = self.take()
        return g * (x > 0) * (1.001 if isinstance(g, jax.core.Tracer) else 1)

    def forward(self, x, training=False):
        if training:
            self.keep(x)
        return x * (x > 0)

    monkeypatch.setattr(da_layers.ReLU, "forward", forward)
    monkeypatch.setattr(da_layers.ReLU, "backward", backward)
    number = next(n for n in range(30_000) if draw(Random(n)).layers[:2] == ("Dense", "ReLU"))
    told = []
    found = exhaustive(1, number, lambda: told.append(1))
    assert (found["trainings"], found["first_seed"], found["differ"], len(told)) == (1, number, 1, 1)
    assert found["parts"]["ReLU"] == 1
    assert found["drawn"] == [f"{number}: {draw(Random(number))}"] == [found["differing"][0]["training"]]
    assert "['values']['layers.0.weight']" in found["differing"][0]["found"]
