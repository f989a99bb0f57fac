"""A training drawn at random, and its two runs."""

import math
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import da_layers as dl
import jax
import numpy as np
from da_trainer import BitsComparison, Callback, Trainer, bits_equal

from ._parts import INPUTS, KINDS, LOSSES, MIDDLE, OPTIMIZERS, SCHEDULES, TOKENS, WIDTH

SAMPLES = 13
SWITCHES = ("tokens", "shuffle", "watched", "grouped", "weighted")


@dataclass(frozen=True)
class Training:
    """What is trained, and how; all of it drawn.

    Attributes:
        inputs: "rows", "sequences" or "images".
        tokens: whether the sequences are of tokens, and the network starts with an Embedding.
        layers: names of the layers, in order, before the head: pooling where the sample is no row, and a Dense.
        loss: name of the loss.
        optimizer: name of the optimiser.
        schedule: name of the schedule.
        decay: "no decay", "l2" or "decoupled".
        clip_norm: largest norm of all gradients together, or None.
        on_nonfinite: "raise" or "skip".
        batch_size: samples in a batch; 13 samples make the last one short.
        epochs: passes over the 13 samples: 5 to 30 steps.
        shuffle: whether the samples are in another order each epoch.
        watched: whether a callback looks at each step.
        grouped: whether weights have rates of their own.
        weighted: whether each sample has a weight, 0 for some.
        seed: of parameters and data.
    """

    inputs: str
    tokens: bool
    layers: tuple[str, ...]
    loss: str
    optimizer: str
    schedule: str
    decay: str
    clip_norm: float | None
    on_nonfinite: str
    batch_size: int
    epochs: int
    shuffle: bool
    watched: bool
    grouped: bool
    weighted: bool
    seed: int

    def __str__(self) -> str:
        return " | ".join(
            f"{name} {value}" if name in ("clip_norm", "batch_size", "epochs", "seed") else str(value)
            for name, value in (asdict(self) | {"layers": ", ".join(self.layers)}).items()
            if not isinstance(value, bool)
        ) + "".join(f" | {name}" for name in SWITCHES if getattr(self, name))

    def model(self) -> dl.Layer:
        """The network, the same each time."""
        shape = INPUTS[self.inputs]
        layers: list[dl.Layer] = [dl.Embedding(TOKENS, WIDTH, self.seed, scale=1.0)] if self.tokens else []
        for index, name in enumerate(self.layers):
            layers.append(MIDDLE[name].make(shape, jax.random.PRNGKey(100 * self.seed + index)))
            shape = MIDDLE[name].shape(shape)
        if len(shape) > 1:
            layers.append(dl.GlobalAveragePool())
        outputs = LOSSES[self.loss].outputs
        layers.append(dl.Dense(shape[-1], math.prod(outputs), jax.random.PRNGKey(self.seed)))
        return dl.Sequential(*layers, *([dl.Reshape(*outputs)] if len(outputs) > 1 else []))

    def data(self) -> tuple[Any, Any, Any]:
        """13 samples, their targets, and their weights or None."""
        rng = np.random.default_rng(self.seed)
        shape = (SAMPLES, *INPUTS[self.inputs])
        X = rng.integers(0, TOKENS, shape[:2]) if self.tokens else rng.standard_normal(shape).astype(np.float32)
        y = LOSSES[self.loss].target(rng, (SAMPLES, *LOSSES[self.loss].outputs))
        return X, y, rng.integers(0, 4, SAMPLES).astype(np.float32) if self.weighted else None

    def run(self, compile: bool) -> dict[str, Any]:  # noqa: A002 - as in Trainer
        """Trains, by the loop or compiled; every loss, Param, Buffer, Key and slot."""
        options: dict[str, Any] = {"clip_norm": self.clip_norm, "on_nonfinite": self.on_nonfinite}
        if self.decay != "no decay":
            options |= {"weight_decay": 0.01, "decay": self.decay}
        if self.grouped:
            options["groups"] = {"*.weight": {"lr_scale": 0.5, "weight_decay": 0.1}}
        optimizer, schedule = OPTIMIZERS[self.optimizer](), SCHEDULES[self.schedule]()
        trainer = Trainer(self.model(), LOSSES[self.loss].make(), optimizer, schedule, compile=compile, **options)
        losses = _Losses()
        X, y, weights = self.data()
        watchers = [losses] if self.watched else []
        trainer.fit(X, y, self.epochs, self.batch_size, shuffle=self.shuffle, callbacks=watchers, sample_weight=weights)
        slots = {param.name: param.slots(optimizer) for param in trainer.model.params() if param.trainable}
        return {
            "values": trainer.model.state_dict(),
            "slots": slots,
            "history": trainer.history_,
            "losses": losses.losses,
        }

    def compare(self) -> BitsComparison:
        """Both runs, byte by byte; a training that ends in NaN must do so in both, at the same place."""
        loop, compiled = (self._run_or_error(mode) for mode in (False, True))
        if isinstance(loop, str) or isinstance(compiled, str):
            return BitsComparison({} if loop == compiled else {"error": f"loop: {loop}; compiled: {compiled}"})
        return bits_equal(loop, compiled)

    def _run_or_error(self, compile: bool) -> dict[str, Any] | str:  # noqa: A002 - as in Trainer
        try:
            return self.run(compile)
        except FloatingPointError as error:
            return str(error)


def draw(random: Random) -> Training:
    """Draws a training."""
    inputs = random.choice(sorted(INPUTS))
    tokens = inputs == "sequences" and random.choice([False, True])
    layers: list[str] = []
    shape = INPUTS[inputs]
    for _ in range(random.randint(1, 5)):
        kind = KINDS[len(shape)]
        name = random.choice([name for name, part in MIDDLE.items() if kind in part.inputs])
        layers.append(name)
        shape = MIDDLE[name].shape(shape)
    loss = random.choice(sorted(LOSSES))
    batch_size = random.choice([5, 8])
    steps = -(-SAMPLES // batch_size)
    return Training(
        inputs,
        tokens,
        tuple(layers),
        loss,
        random.choice(sorted(OPTIMIZERS)),
        random.choice(sorted(SCHEDULES)),
        random.choice(["no decay", "l2", "decoupled"]),
        random.choice([None, 0.3, 30.0]),
        random.choice(["raise", "skip"]),
        batch_size,
        random.randint(-(-5 // steps), 30 // steps),
        random.choice([False, True]),
        random.choice([False, True]),
        random.choice([False, True]),
        # A user's loss need not know of weights.
        isinstance(LOSSES[loss].make(), dl.MeanLoss) and random.choice([False, True]),
        random.randint(0, 5),
    )


class _Losses(Callback):
    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_step_end(self, trainer: Trainer, epoch: int, step: int, loss: float) -> None:
        self.losses.append(loss)
