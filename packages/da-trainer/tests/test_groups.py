"""Params with a learning rate or a weight decay of their own, in both executors."""

import copy

import numpy as np
import pytest
from da_layers import MSE, Checkpoint, Dense, LayerStack, ReLU, Residual, Sequential, mlp
from da_optim import SGD
from da_trainer import Trainer, bits_equal
from da_trainer._values import scalar

X, Y = (np.random.default_rng(seed).normal(size=(12, 4)).astype(np.float32) for seed in (0, 1))
GROUPS = {"layers.0.*": {"lr_scale": 0.5, "weight_decay": 0}, "*.weight": {"weight_decay": 0.2}}


def make(mode, model=None, **options):
    options = {"groups": GROUPS, "weight_decay": 0.1, "compile": mode} | options
    return Trainer(model or mlp([4, 6, 4], 0), MSE(), SGD(0.1), **options)


def state(trainer):
    return trainer.model.state_dict(), trainer.history_


@pytest.mark.parametrize("decay", ["l2", "decoupled"])
def test_a_step_by_hand(mode, decay):
    trainer = make(mode, decay=decay)
    before = trainer.model.state_dict()
    trainer.fit(X, Y, 1, 12)
    model = mlp([4, 6, 4], 0)
    loss = MSE()
    loss.forward(model.forward(X, training=True), Y)
    model.backward(loss.backward())
    for path, param in model.variables().items():
        lr = 0.05 if path.startswith("layers.0") else 0.1
        decayed = 0.2 if path == "layers.2.weight" else 0
        factor = lr if decay == "l2" else 1
        expected = before[path] - lr * param.grad - factor * decayed * before[path]
        np.testing.assert_allclose(trainer.model.variables()[path].value, expected, rtol=1e-5, atol=1e-7)


def test_both_executors_give_the_same_bits():
    loop, compiled = (make(mode).fit(X, Y, 4, 5) for mode in (False, True))
    assert bits_equal(state(loop), state(compiled))
    assert make(True).verify(X, Y, 5, steps=6).ok


def test_a_group_may_be_compiled_first():
    scalar.cache_clear()
    groups = {"layers.0.*": {"lr_scale": 0.37, "weight_decay": 0.23}}
    compiled, loop = (make(mode, groups=groups).fit(X, Y, 2, 6) for mode in (True, False))
    assert bits_equal(state(loop), state(compiled))
    make(False, groups=None, weight_decay=0.37).fit(X, Y, 1, 6)


def test_a_group_holds_inside_a_checkpoint(mode):
    def model(wrap):
        return Sequential(wrap(Dense(4, 6, 0)), ReLU(), Dense(6, 4, 1))

    plain, checked = (make(mode, model(wrap)).fit(X, Y, 3, 6) for wrap in (Sequential, Checkpoint))
    assert bits_equal(*([param.value for param in trainer.model.params()] for trainer in (plain, checked)))


@pytest.mark.parametrize("pattern", ["layers.0.*", "layers.0.layers.1.*"])
def test_groups_of_a_stack_of_checkpoints(pattern):
    def model():
        stack = LayerStack([Checkpoint(Sequential(Dense(4, 4, seed), ReLU())) for seed in range(3)])
        return Sequential(stack, Dense(4, 4, 9))

    loop, compiled = (
        make(mode, model(), groups={pattern: {"lr_scale": 0.1}}).fit(X, Y, 2, 6) for mode in (False, True)
    )
    assert bits_equal(state(loop), state(compiled))


def test_verify_finds_where_a_step_with_groups_parts():
    report = make("fused", groups={"*.weight": {"lr_scale": 0.3}}).verify(X, Y, 5, steps=6)
    assert len(report.loop_losses) == 6
    copied = copy.deepcopy(make(True).parts())
    assert [copied.group(path).lr_scale for path in copied.trained] == [0.5, 0.5, 1, 1]


def test_the_first_pattern_counts_and_decayed_tells():
    assert make(False).decayed() == ["layers.2.weight"]
    assert make(False, weight_decay=0.0).decayed() == ["layers.2.weight"]
    assert make(False, groups=None).decayed() == ["layers.0.weight", "layers.2.weight"]


def test_groups_set_between_two_fits_count(mode):
    trainer, other = make(mode, groups=None), make(mode, groups=None)
    for each in (trainer, other):
        each.fit(X, Y, 1, 6)
    trainer.groups = {"*": {"lr_scale": 0}}
    before = trainer.model.state_dict()
    trainer.weight_decay = 0.0
    trainer.fit(X, Y, 1, 6)
    assert bits_equal(before, trainer.model.state_dict())


def stack():
    return Sequential(
        LayerStack([Residual(Sequential(Dense(4, 4, seed), ReLU())) for seed in range(3)]), Dense(4, 4, 9)
    )


@pytest.mark.parametrize("pattern", ["layers.0.*", "layers.0.layers.1.*", "*.bias"])
def test_stacked_layers_have_groups_too(pattern):
    groups = {pattern: {"lr_scale": 0.1}}
    loop, compiled = (make(mode, stack(), groups=groups).fit(X, Y, 2, 6) for mode in (False, True))
    assert bits_equal(state(loop), state(compiled))
    assert not bits_equal(state(loop), state(make(False, stack(), groups=None).fit(X, Y, 2, 6)))


def test_frozen_params_keep_their_bits(mode):
    model = mlp([4, 6, 4], 0)
    model.layers[0].weight.trainable = False
    before = model.layers[0].weight.value
    trainer = make(mode, model, groups={"layers.0.weight": {"weight_decay": 0.5}}).fit(X, Y, 2, 6)
    assert bits_equal(before, trainer.model.layers[0].weight.value)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"layer.0": {}}, r"must match the path of a Param, such as layers\.0\.weight.*Received: groups\['layer\.0'\]"),
        (
            {"*": {"lr": 1}},
            r"groups must give lr_scale or weight_decay, or both\. Received: groups\['\*'\]=\{'lr': 1\}",
        ),
        ([("*", {})], r"groups must be a dict of settings by pattern\. Received: groups=\[\('\*', \{\}\)\]"),
        ({0: {}}, r"groups must be a dict of settings by pattern\. Received: groups=\{0: \{\}\}"),
        (
            {"*": {}, "layers.0.*": {"lr_scale": 0}},
            r"must come before those that match all it matches\. Received: groups\['layers\.0\.\*'\] after '\*'",
        ),
        (
            {"*bias": {"weight_decay": 1}},
            r"weight_decay must be for Params of role 'weight'.*which matches layers\.0\.bias, layers\.2\.bias",
        ),
        ({"*": {"lr_scale": -1}}, r"lr_scale must be a finite number of 0 or more\. Received: groups\['\*'\]"),
        ({"*": {"weight_decay": "x"}}, r"weight_decay must be a finite number of 0 or more"),
    ],
)
def test_what_is_no_group_is_named(groups, message):
    with pytest.raises(ValueError, match=message):
        make(False, groups=groups)
