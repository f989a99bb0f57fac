"""Fit: epochs, shuffling, the epoch's loss, validation and early stopping; the same for both executors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np

from ._batches import Batches, shuffled
from ._callbacks import Callback, wants_steps
from ._data import Data
from ._early_stopping import EarlyStopping
from ._nonfinite import NonFiniteStep, first_nonfinite
from ._progress import Progress
from ._step import Outcome, Rates
from ._values import Parts, scalar

if TYPE_CHECKING:
    from ._trainer import Trainer


@dataclass(frozen=True)
class Plan:
    """What a fit is to do, checked."""

    data: Data
    epochs: int
    batch_size: int
    key: jax.Array
    validation: Data | None
    stopping: EarlyStopping | None
    shuffle: bool
    drop_last: bool
    callbacks: Sequence[Callback]
    progress: bool


def fit(trainer: "Trainer", plan: Plan) -> None:
    """Trains for the plan's epochs; epochs go on counting from the fit before."""
    parts = trainer.parts()
    steps = len(Batches(plan.data, plan.batch_size, drop_last=plan.drop_last))
    progress = Progress(steps * plan.epochs, plan.progress)
    last = trainer.epoch_ + plan.epochs
    try:
        while trainer.epoch_ < last:
            _epoch(trainer, parts, plan, progress)
            losses = {name: values[-1] for name, values in trainer.history_.items() if values and name != "lr"}
            progress.epoch(trainer.epoch_, last, losses)
            for callback in plan.callbacks:
                callback.on_epoch_end(trainer, trainer.epoch_)
            if plan.stopping and plan.stopping.update(parts, trainer.history_["val_loss"][-1]):
                break
    finally:
        progress.close()
        if plan.stopping:
            plan.stopping.restore(parts)
        for param in parts.trained.values():
            param.zero_grad()


def _epoch(trainer: "Trainer", parts: Parts, plan: Plan, progress: Progress) -> None:
    epoch = trainer.epoch_
    order = shuffled(plan.key, epoch, plan.data.samples) if plan.shuffle else None
    batches = Batches(plan.data, plan.batch_size, order, plan.drop_last)
    watchers = [callback for callback in plan.callbacks if wants_steps(callback)]
    outcomes: list[Outcome] = []
    first_lr = trainer.learning_rate(epoch)
    trainer.executor.load(parts)
    try:
        try:
            for index in range(len(batches)):
                rates = _rates(trainer, epoch + index / len(batches))
                outcomes.append(
                    trainer.executor.step(parts, batches, index, rates, trainer.decay, trainer.skips_nonfinite)
                )
                progress.step()
                if watchers:
                    trainer.executor.store(parts)
                    for callback in watchers:
                        callback.on_step_end(trainer, epoch + 1, index + 1, float(outcomes[-1].loss))
                    trainer.executor.load(parts)
        finally:
            trainer.executor.store(parts)
    except NonFiniteStep as bad:
        where = first_nonfinite(parts, bad.batch, bad.rates, trainer.decay)
        raise FloatingPointError(
            f"The loss and every gradient must be finite. Received: NaN or infinity in epoch {epoch + 1}, step "
            f"{bad.index + 1}, first in {where}. The model holds the values from before that step; "
            f"on_nonfinite='skip' would leave such steps out."
        ) from None
    _record(trainer, parts, plan, batches, outcomes, first_lr)


def _record(trainer: "Trainer", parts: Parts, plan: Plan, batches: Batches, outcomes: list[Outcome], lr: float) -> None:
    losses, finite = (np.array(column) for column in zip(*jax.device_get(outcomes), strict=True))
    trainer.skipped_steps_ += int((~finite).sum())
    trainer.history_["train_loss"].append(batches.mean_over_samples(losses, finite))
    trainer.history_["lr"].append(lr)
    if plan.validation is not None:
        trainer.history_["val_loss"].append(trainer.loss_on(parts, plan.validation, plan.batch_size))
    trainer.epoch_ += 1


def _rates(trainer: "Trainer", epoch: float) -> Rates:
    return Rates(
        lr=scalar(trainer.learning_rate(epoch)),
        eta=scalar(trainer.multiplier(epoch)),
        weight_decay=scalar(trainer.weight_decay) if trainer.weight_decay else None,
        clip_norm=None if trainer.clip_norm is None else scalar(trainer.clip_norm),
    )
