"""verify: it proves the same bits, and names the step, layer, direction and operation where they are not the same."""

import copy
import json
import random
import sys
import threading
import time

import da_trainer._step as step
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import (
    BatchNorm,
    Buffer,
    Dense,
    Dropout,
    GroupNorm,
    Key,
    Layer,
    Sequential,
    SoftmaxCrossEntropy,
    label_of,
)
from da_optim import SGD, Adam, CosineLR, RMSProp, Schedule
from da_trainer import Callback, Trainer, bits_equal
from da_trainer.verify._ulps import largest_ulps

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((24, 8)).astype(np.float32), RNG.integers(0, 3, 24)


def is_traced(value):
    return isinstance(value, jax.core.Tracer)


def off(value, on=True):
    """1e-3 off, only under tracing."""
    return value * 1.001 if on and is_traced(value) else value


class Faulty(Layer):
    """The identity, with a fault in one direction."""

    direction = ""

    def __init__(self, direction=""):
        self.direction = direction

    def forward(self, x, training=False):
        return off(x, self.direction == "forward")

    def backward(self, g):
        return off(g, self.direction == "backward")


class FaultyNorm(BatchNorm):
    def forward(self, x, training=False):
        y = super().forward(x, training)
        self.running_mean.value = off(self.running_mean.value)
        return y


class FaultyStream(Layer):
    """Moves its stream once more under tracing, and uses it only the time after."""

    def __init__(self):
        self.stream = Key(0)

    def forward(self, x, training=False):
        y = x + jax.random.normal(self.stream.next(), x.shape)
        if is_traced(x):
            self.stream.next()
        return y

    def backward(self, g):
        return g


class FaultyWeights(Dense):
    def backward(self, g):
        gx = super().backward(g)
        self.weight.set_grad(off(self.weight.grad))
        return gx


class FaultyLoss(SoftmaxCrossEntropy):
    def backward(self):
        return off(super().backward())


class FaultySlot(Adam):
    def update(self, weights, gradient, slots, lr):
        weights, slots = super().update(weights, gradient, slots, lr)
        return weights, slots | {"square": off(slots["square"])}


class FaultyUpdate(SGD):
    def update(self, weights, gradient, slots, lr):
        return super().update(weights, gradient, slots, off(lr))


def net(*middle):
    return Sequential(Dense(8, 6, 0), BatchNorm(6), Dropout(0.2, 1), *middle, Dense(6, 3, 2))


def trainer_of(*middle, optimizer=None, loss=None, **options):
    return Trainer(net(*middle), loss or SoftmaxCrossEntropy(), optimizer or Adam(0.01), **options)


def verify(trainer, steps=5):
    return trainer.verify(X, Y, 8, steps)


# What is right


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (Adam(0.01), {"clip_norm": 0.5, "weight_decay": 0.1, "schedule": CosineLR(3)}),
        (RMSProp(0.01), {"weight_decay": 0.01, "decay": "decoupled", "on_nonfinite": "skip"}),
    ],
)
def test_the_same_bits(optimizer, options):
    trainer = trainer_of(GroupNorm(2, 6), optimizer=optimizer, **options)
    report = verify(trainer, steps=8)
    assert report.ok
    assert report.first_divergence is report.referee is report.steps_to_tenfold is None
    assert report.loop_losses == report.compiled_losses
    assert len(set(report.loop_losses)) == 8
    assert report.relative_differences == [0.0] * 8
    kinds = {value.path: value.kind for value in report.values}
    slot = "mean" if isinstance(optimizer, Adam) else "square"
    wanted = {"layers.0.weight": "Param", "layers.1.running_mean": "Buffer", "layers.2.key": "Key"}
    assert kinds.items() >= (wanted | {f"layers.4.bias:{slot}": "slot"}).items()
    assert all(value.same_bits and value.ulps == 0 for value in report.values)
    assert str(report).splitlines()[0] == "loop and compile='exact': the same bits in all 8 steps"


@pytest.mark.parametrize("mode", [False, True])
def test_the_losses_are_those_that_fit_would_have(mode):
    """Two epochs of three steps, the last of them short, after an epoch that is over."""

    class Losses(Callback):
        def __init__(self):
            self.losses = []

        def on_step_end(self, trainer, epoch, step, loss):
            self.losses.append(loss)

    trainer, losses = trainer_of(schedule=CosineLR(4), compile=mode), Losses()
    trainer.fit(X, Y, 1, 8)
    report = trainer.verify(X, Y, 8, 6)
    trainer.fit(X, Y, 2, 8, callbacks=[losses])
    assert report.loop_losses == report.compiled_losses == losses.losses


def test_layer_that_prints_passes(capsys):
    class Prints(Faulty):
        def forward(self, x, training=False):
            sys.stdout.write("forward")
            return x

    assert verify(trainer_of(Prints())).ok
    assert "forward" in capsys.readouterr().out


# Faults

FAULTS = {
    "forward": (lambda: trainer_of(Faulty("forward")), "layers.3", "Faulty", "forward", "output"),
    "backward": (lambda: trainer_of(Faulty("backward")), "layers.3", "Faulty", "backward", "output"),
    "gradient": (
        lambda: trainer_of(FaultyWeights(6, 6, 0)),
        "layers.3",
        "FaultyWeights",
        "backward",
        "gradient of layers.3.weight",
    ),
    "Buffer": (lambda: trainer_of(FaultyNorm(6)), "layers.3", "FaultyNorm", "forward", "layers.3.running_mean"),
    "Key": (lambda: trainer_of(FaultyStream()), "layers.3", "FaultyStream", "forward", "layers.3.stream"),
    "loss": (lambda: trainer_of(loss=FaultyLoss()), "loss", "FaultyLoss", "backward", "output"),
    "update": (
        lambda: trainer_of(optimizer=FaultyUpdate(0.1)),
        "layers.0.weight",
        "Param",
        "update",
        "value",
    ),
    "slot": (lambda: trainer_of(optimizer=FaultySlot(0.1)), "layers.0.weight", "Param", "update", "square"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_named(fault):
    make, path, kind, direction, value = FAULTS[fault]
    report = verify(make())
    found = report.first_divergence
    assert not report.ok
    assert (found.step, found.path, found.kind, found.direction, found.value) == (1, path, kind, direction, value)
    if fault != "Key":
        assert found.operation.startswith("mul")
        assert found.line == f"test_verify.py:{off.__code__.co_firstlineno + 2}"
        assert report.referee.nearer == "loop"
        assert report.referee.loop_error < 1e-5
        # 1e-3 of what is off; of the weights after an update, that of the learning rate times the gradient.
        assert (1e-5 if fault == "update" else 5e-4) < report.referee.compiled_error < 2e-3
        assert found.ulps > 1000
    assert f"step 1, {path} ({kind}), {direction}: {value}" in str(report)


def replaced(monkeypatch, name, change):
    kernel = getattr(step, name)
    monkeypatch.setattr(step, name, lambda *args: change(kernel(*args)))


PHASES = {
    "clip": ("scale_gradient", off, "gradient", {}),
    "l2": ("l2_decay", off, "gradient", {"decay": "l2"}),
    "decoupled": ("decoupled_decay", off, "value", {"decay": "decoupled"}),
}


@pytest.mark.parametrize("phase", PHASES)
def test_fault_in_a_phase_is_named(phase, monkeypatch):
    name, change, value, options = PHASES[phase]
    trainer = trainer_of(clip_norm=0.1, weight_decay=0.1, **options)
    assert verify(trainer, 2).ok
    replaced(monkeypatch, name, change)
    found = verify(trainer).first_divergence
    direction = "clip" if phase == "clip" else "decay"
    assert (found.step, found.path, found.direction, found.value) == (1, "layers.0.weight", direction, value)
    assert found.operation.startswith("mul")


class Late(Faulty):
    """Has its fault in the fourth step."""

    def __init__(self):
        self.count = Buffer(jnp.zeros(()))

    def forward(self, x, training=False):
        self.count.value = self.count.value + 1
        return jnp.where(self.count.value == 4, off(x), x)


def test_fault_in_a_later_step_is_found_at_that_step():
    found = verify(trainer_of(Late()), steps=6).first_divergence
    assert (found.step, found.path, found.direction) == (4, "layers.3", "forward")


def test_nonfinite_in_one_executor_only_is_a_divergence():
    class Breaks(Faulty):
        def forward(self, x, training=False):
            return x / 0 if is_traced(x) else x

    report = verify(trainer_of(Breaks()))
    found = report.first_divergence
    assert not report.ok
    assert (found.step, found.path, found.direction) == (1, "layers.3", "forward")
    assert found.operation.startswith(("div", "true_divide"))
    assert report.loop_losses == []


def test_the_first_divergence_stays_where_one_executor_breaks_later():
    class Breaks(Late):
        def forward(self, x, training=False):
            self.count.value = self.count.value + 1
            return jnp.where((self.count.value == 4) & is_traced(x), jnp.nan, off(x))

    report = verify(trainer_of(Breaks()), steps=6)
    assert (report.first_divergence.step, len(report.loop_losses)) == (1, 3)


def test_layer_of_the_loss_is_named_below_the_loss():
    class Projected(SoftmaxCrossEntropy):
        def __init__(self):
            self.before = Faulty("forward")

        def forward(self, prediction, target):
            return super().forward(self.before.forward(prediction), target)

    found = verify(trainer_of(loss=Projected()), 1).first_divergence
    assert (found.path, found.kind, found.direction) == ("loss.before", "Faulty", "forward")


def divide(x):
    return jax.nn.relu(x / 3)


BEFORE = {
    "constant": lambda x: x + jnp.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    "index": lambda x: x + x[0],
    "checkpoint": jax.checkpoint(divide),
    "kernel": jax.jit(divide),
}


@pytest.mark.parametrize("before", BEFORE)
def test_operation_is_named_whatever_runs_before_it(before):
    """jnp takes other conversions on the way in when it is traced."""

    class Odd(Faulty):
        def forward(self, x, training=False):
            y = BEFORE[before](x)
            return y * np.float32(1.001 if is_traced(x) else 1)

    found = verify(trainer_of(Odd()), 1).first_divergence
    assert found.operation == "multiply"
    assert found.line == f"test_verify.py:{Odd.forward.__wrapped__.__code__.co_firstlineno + 2}"


def test_the_layer_around_is_named_where_its_own_operation_differs():
    class Around(Layer):
        def __init__(self):
            self.inner = Dense(6, 6, 0)

        def forward(self, x, training=False):
            return self.inner.forward(off(x), training)

        def backward(self, g):
            return self.inner.backward(g)

    found = verify(trainer_of(Around()), 1).first_divergence
    assert (found.path, found.kind, found.direction) == ("layers.3", "Around", "forward")
    assert found.value == "what layers.3.inner takes"


def test_no_verdict_from_values_that_are_not_finite():
    class Breaks(Faulty):
        def forward(self, x, training=False):
            return x * jnp.nan if is_traced(x) else x

    report = trainer_of(Breaks(), on_nonfinite="skip").verify(X, Y, 8, 1)
    assert report.referee.nearer == "loop"
    assert report.referee.compiled_error == np.inf


def test_nonfinite_in_both_executors_is_an_error_and_changes_nothing(everything):
    class Breaks(Faulty):
        def backward(self, g):
            return g / 0

    trainer = trainer_of(Breaks())
    before = everything(trainer)
    with pytest.raises(FloatingPointError, match=r"epoch 1, step 1, first in layers\.3 \(Breaks\), backward"):
        verify(trainer)
    assert bits_equal(everything(trainer), before)


# What cannot be compiled


class Clock(Faulty):
    def forward(self, x, training=False):
        return x * (time.time() % 1)


class GlobalRandom(Faulty):
    def forward(self, x, training=False):
        return x * np.float32(np.random.rand() + random.random())


class Counts(Faulty):
    def __init__(self):
        self.steps = 0

    def forward(self, x, training=False):
        self.steps += 1
        return x * self.steps


@pytest.mark.parametrize(("layer", "number"), [(Clock, 1), (GlobalRandom, 1), (Counts, 2)])
def test_hidden_state_is_refused_and_found(layer, number):
    trainer = trainer_of(layer())
    states = random.getstate(), np.random.get_state()[1].tolist()
    report = verify(trainer)
    found = report.first_divergence
    assert not report.ok
    assert "in a Variable" in report.refusal
    assert (found.step, found.path, found.kind, found.direction) == (number, "layers.3", layer.__name__, "forward")
    assert found.operation.startswith("mul")
    # Where the step was refused, no executor had taken it.
    assert report.values
    assert all(value.same_bits for value in report.values)
    assert report.referee is None
    assert "cannot be compiled: " in str(report)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states


def test_layer_that_looks_at_numbers_is_refused_and_changes_nothing(everything):
    class Looks(Faulty):
        def forward(self, x, training=False):
            return x * float(x.mean())

    trainer = trainer_of(Looks())
    before = everything(trainer)
    report = verify(trainer)
    assert not report.ok
    assert report.refusal.startswith("layers.3 (Looks), forward must not look at the numbers of an array")
    assert report.first_divergence is None
    assert str(report).startswith("loop and compile='exact': the step cannot be compiled")
    assert bits_equal(everything(trainer), before)


# What it leaves behind


def test_everything_is_as_before(everything):
    trainer = trainer_of(schedule=CosineLR(4)).fit(X, Y, 1, 8)
    other = copy.deepcopy(trainer)
    before, history = everything(trainer), copy.deepcopy(trainer.history_)
    trainer.verify(X, Y, 8, 5, key=jax.random.key(3))
    assert bits_equal(everything(trainer), before)
    assert (trainer.history_, trainer.epoch_) == (history, 1)
    assert not any(layer.__dict__.get("_kept") for layer in trainer.model.layers)
    assert bits_equal(everything(trainer.fit(X, Y, 1, 8)), everything(other.fit(X, Y, 1, 8)))


def test_schedule_with_state_is_left_alone():
    class Falls(Schedule):
        def __init__(self):
            self.calls = 0

        def multiplier(self, epoch):
            self.calls += 1
            return 1 / self.calls

    trainer = trainer_of(schedule=Falls())
    assert verify(trainer, 3).ok
    assert trainer.schedule.calls == 0


def test_what_cannot_be_copied_is_said():
    trainer = trainer_of()
    trainer.model.lock = threading.Lock()
    with pytest.raises(
        ValueError, match=r"deepcopy must be able to copy model, loss and optimizer\. Received: TypeError"
    ):
        verify(trainer)


def test_an_exception_in_a_layer_changes_nothing(everything):
    class Fails(Faulty):
        def __init__(self):
            self.calls = [0]

        def forward(self, x, training=False):
            if not is_traced(x):
                self.calls[0] += 1
                if self.calls[0] == 3:
                    raise RuntimeError(f"{label_of(self)} fails")
            return x

    trainer = trainer_of(Fails())
    before = everything(trainer)
    with pytest.raises(RuntimeError, match=r"layers\.3 \(Fails\) fails"):
        verify(trainer)
    assert bits_equal(everything(trainer), before)
    assert trainer.model.layers[3].calls == [0]


# Fused


class Apart(Faulty):
    """The derivative of a sum is written so that XLA, left free, adds in another order."""

    def forward(self, x, training=False):
        return x * 0.1 + x / 3


def test_fused_mode_is_compared_and_its_growth_told():
    trainer = Trainer(
        Sequential(Dense(8, 64, 0), Apart(), Dense(64, 64, 1), Apart(), Dense(64, 3, 2)),
        SoftmaxCrossEntropy(),
        Adam(0.05),
        compile="fused",
    )
    report = trainer.verify(X, Y, 8, 40)
    assert report.mode == "fused"
    assert not report.ok
    assert report.first_divergence is not None
    assert report.referee.nearer in ("loop", "compiled", "neither")
    assert str(report).startswith("loop and compile='fused': the bits differ from step ")
    trainer.compile = True
    assert trainer.verify(X, Y, 8, 40).ok


# The report


def test_report_as_dict_and_picture(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    assert matplotlib
    for report in (verify(trainer_of()), verify(trainer_of(Faulty("backward")))):
        found = json.loads(json.dumps(report.to_dict()))
        assert found["ok"] == report.ok
        assert len(found["relative_differences"]) == 5
        assert len(found["values"]) == len(report.values)
        path = report.save_picture(tmp_path / "picture.png")
        assert path.read_bytes().startswith(b"\x89PNG")


def test_picture_without_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "da-trainer\[plot\]"'):
        verify(trainer_of(), 1).save_picture(tmp_path / "picture.png")


def test_growth_is_that_of_a_tenfold_in_twenty_steps():
    report = verify(trainer_of(), 1)
    losses = [1 + 1e-6 * 10 ** (step / 20) for step in range(60)]
    report = type(report)("fused", [1.0] * 60, losses, [])
    assert report.steps_to_tenfold == pytest.approx(20, rel=1e-3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, jnp.bfloat16])
def test_ulps(dtype):
    one = np.ones((), dtype)
    following = (one.view(f"u{one.itemsize}") + 1).view(dtype)
    assert largest_ulps(one, following) == largest_ulps(-following, -one) == 1
    assert largest_ulps(np.zeros((), dtype), -np.zeros((), dtype)) == 1
    assert largest_ulps(np.stack([one, one]), np.stack([one, following])) == 1
    assert largest_ulps(np.array([1]), np.array([2])) is None
    assert largest_ulps(np.ones(0, dtype), np.ones(0, dtype)) == 0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((X, Y[:3], 8), "X and y must have the same length"),
        ((X, Y, 0), "batch_size must be an integer of 1 or more. Received: batch_size=0"),
        ((X, Y, 8, 0), "steps must be an integer of 1 or more. Received: steps=0"),
        ((X[:, :5], Y, 8), r"layers\.0 \(Dense\): x must have shape"),
        ((X, Y + 1, 8), r"labels from 0 to 2"),
    ],
)
def test_bad_input(arguments, match):
    with pytest.raises(ValueError, match=match):
        trainer_of().verify(*arguments)
