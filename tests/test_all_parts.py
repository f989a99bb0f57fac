"""Compilations, forms, leaks and interruptions, with every layer of the library and every optimiser."""

import gc
import logging

import jax
import numpy as np
import pytest
from da_bench.drawn import MIDDLE, OPTIMIZERS
from da_bench.drawn._parts import INPUTS
from da_layers import Dense, GlobalAveragePool, Sequential, SoftmaxCrossEntropy
from da_trainer import Callback, Trainer, bits_equal

FEW = ("Dense", "BatchNorm", "Dropout")
# Every layer with one optimiser, every optimiser with few layers.
CASES = [*((inputs, "Adam") for inputs in INPUTS), *(("rows", name) for name in OPTIMIZERS if name != "Adam")]
each_case = pytest.mark.parametrize(("inputs", "optimizer"), CASES, ids=["-".join(case) for case in CASES])


def make(inputs, optimizer, mode=True):
    """A model with every part that takes such inputs and keeps the axes of a sample."""
    shape, layers = INPUTS[inputs], []
    for index, (name, part) in enumerate(MIDDLE.items()):
        if optimizer != "Adam" and name not in FEW:
            continue
        if inputs in part.inputs and len(part.shape(shape)) == len(shape):
            layers.append(part.make(shape, jax.random.PRNGKey(index)))
            shape = part.shape(shape)
    if len(shape) > 1:
        layers.append(GlobalAveragePool())
    model = Sequential(*layers, Dense(shape[-1], 3, 0))
    return Trainer(
        model, SoftmaxCrossEntropy(), OPTIMIZERS[optimizer](), compile=mode, clip_norm=1.0, weight_decay=0.01
    )


def data(inputs, samples):
    rng = np.random.default_rng(0)
    return rng.standard_normal((samples, *INPUTS[inputs])).astype(np.float32), rng.integers(0, 3, samples)


def state(trainer):
    slots = {p.name: p.slots(trainer.optimizer_prototype) for p in trainer.model.params() if p.trainable}
    return trainer.model.state_dict(), slots


def forms(trainer):
    return [(a.shape, a.dtype, a.aval.weak_type) for a in jax.tree.leaves(state(trainer))]


@each_case
def test_two_programs_to_train_one_form_of_state_and_no_tracer(inputs, optimizer, caplog, tracers):
    trainer, (X, y) = make(inputs, optimizer), data(inputs, 13)
    before = forms(trainer)
    with caplog.at_level(logging.INFO, "da_trainer"):
        trainer.fit(X, y, 1, 8)
        assert forms(trainer) == before
        trainer.fit(X, y, 2, 8)
        for _ in range(2):
            trainer.evaluate(X, y)
            trainer.predict(X)
            trainer.fit(X, y, 1, 8)
    kinds = [
        next(kind for kind in ("training", "evaluation", "prediction") if kind in line)
        for line in caplog.messages
        if line.startswith("Compiling")
    ]
    assert {kind: kinds.count(kind) for kind in kinds} == {"training": 2, "evaluation": 2, "prediction": 2}
    assert forms(trainer) == before
    assert not any(weak for _, _, weak in before)
    assert tracers(trainer) == []


class Break(Callback):
    def on_step_end(self, trainer, epoch, step, loss):
        if step == 7:
            raise KeyboardInterrupt


@each_case
def test_interrupt_in_step_7_leaves_the_values_of_7_steps(inputs, optimizer, tracers):
    X, y = data(inputs, 32)
    broken, whole = make(inputs, optimizer), make(inputs, optimizer)
    with pytest.raises(KeyboardInterrupt):
        broken.fit(X, y, 1, 4, shuffle=False, callbacks=[Break()])
    assert tracers(broken) == []
    whole.fit(X[:28], y[:28], 1, 4, shuffle=False)
    assert bits_equal(state(broken), state(whole)).differences == {}
    assert broken.predict(X).shape == (32, 3)
    broken.model.load_state_dict(broken.model.state_dict())
    assert np.isfinite(broken.fit(X, y, 1, 4).history_["train_loss"]).all()


@each_case
def test_two_hundred_fits_leave_memory_flat(inputs, optimizer, memory):
    trainer, (X, y) = make(inputs, optimizer), data(inputs, 8)
    counts, sizes = [], []
    for fits in range(200):
        trainer.fit(X, y, 1, 8)
        if fits % 50 == 49:
            gc.collect()
            counts.append(len(jax.live_arrays()))
            sizes.append(memory())
    assert len({*counts[1:]}) == 1
    assert sizes[-1] - sizes[1] < 5


def test_new_models_leave_memory_flat():
    """Three rounds of each case: 24 models."""
    counts = []
    for _ in range(3):
        for inputs, optimizer in CASES:
            X, y = data(inputs, 8)
            make(inputs, optimizer).fit(X, y, 1, 8)
        gc.collect()
        counts.append(len(jax.live_arrays()))
    assert counts[0] == counts[1] == counts[2]
