"""Models, data and counters that the tests share."""

import jax
import numpy as np
import pytest
from da_layers import (
    GELU,
    BatchNorm,
    Conv2D,
    Dense,
    Dropout,
    Flatten,
    GroupNorm,
    InstanceNorm,
    ReLU,
    Sequential,
    SoftmaxCrossEntropy,
    Tanh,
    cnn,
    mlp,
    transformer_encoder,
)
from da_optim import SGD
from da_trainer import Trainer


def key(seed):
    return jax.random.PRNGKey(seed)


def noisy():
    return Sequential(Dense(8, 6, key(0)), BatchNorm(6), ReLU(), Dropout(0.3, key(1)), Dense(6, 3, key(2)))


def norms():
    return Sequential(
        Conv2D(1, 4, 3, key(0)),
        GroupNorm(2, 4),
        GELU(),
        Conv2D(4, 6, 3, key(1), stride=2, padding="valid"),
        InstanceNorm(6),
        Tanh(),
        Flatten(),
        Dense(54, 3, key(2)),
    )


# name: (model, shape of one sample)
MODELS = {
    "mlp": (lambda: mlp([8, 6, 3], key(0)), (8,)),
    "noisy": (noisy, (8,)),
    "transformer": (lambda: transformer_encoder(4, 8, 2, 16, 1, 3, key(0), dropout=0.1), (5, 4)),
    "cnn": (lambda: cnn(1, [4, 8], 3, key(0), dropout=0.2), (8, 8, 1)),
    "norms": (norms, (8, 8, 1)),
}


@pytest.fixture(params=[False, True], ids=["loop", "compiled"])
def mode(request):
    return request.param


@pytest.fixture
def data():
    """Inputs and labels for a model by name: two batches of 8; with 22 samples the last of three is a short one."""

    def make(model="noisy", samples=16):
        rng = np.random.default_rng(0)
        shape = MODELS[model][1]
        return rng.standard_normal((samples, *shape)).astype(np.float32), rng.integers(0, 3, samples)

    return make


@pytest.fixture
def trainer():
    """A trainer for a model by name."""

    def make(mode, model="noisy", optimizer=None, loss=None, **options):
        return Trainer(
            MODELS[model][0](), loss or SoftmaxCrossEntropy(), optimizer or SGD(0.1), compile=mode, **options
        )

    return make


@pytest.fixture
def everything():
    """All that training moves, as one pytree for bits_equal."""

    def collect(trainer):
        slots = {
            param.name: param.slots(trainer.optimizer_prototype) for param in trainer.model.params() if param.trainable
        }
        return {"values": trainer.model.state_dict(), "slots": slots, "history": trainer.history_}

    return collect


class Compilations:
    """Counts the programs that XLA compiles."""

    def __init__(self):
        self.count = 0

    def __call__(self, event, seconds, **_):
        self.count += "backend_compile" in event


@pytest.fixture
def compilations():
    counter = Compilations()
    jax.monitoring.register_event_duration_secs_listener(counter)
    yield counter
    jax.monitoring.unregister_event_duration_listener(counter)
