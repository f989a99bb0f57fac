"""Fit: epochs, shuffling, the epoch's loss, validation and early stopping; the same for both executors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np

from ._batches import Batches, shuffled
from ._callbacks import Callback, wants_steps
from ._data import Data, naming_shapes
from ._early_stopping import EarlyStopping
from ._nonfinite import NonFiniteStep, nonfinite_error
from ._progress import Progress
from ._step import Outcome
from ._values import read_values, write_values

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
    steps = len(Batches(plan.data, plan.batch_size, drop_last=plan.drop_last))
    last = trainer.epoch_ + plan.epochs
    if plan.validation is not None:
        _try_validation(trainer, plan, plan.validation)
    progress = Progress(steps * plan.epochs, plan.progress)
    try:
        while trainer.epoch_ < last:
            _epoch(trainer, plan, progress)
            stop = plan.stopping is not None and plan.stopping.update(trainer.parts(), trainer.history_["val_loss"][-1])
            losses = {name: values[-1] for name, values in trainer.history_.items() if values and name != "lr"}
            progress.epoch(trainer.epoch_, last, losses)
            for callback in plan.callbacks:
                callback.on_epoch_end(trainer, trainer.epoch_)
            if stop:
                break
    finally:
        progress.close()
        if plan.stopping:
            plan.stopping.restore(trainer.parts())
        trainer.parts().zero_grads()


def _epoch(trainer: "Trainer", plan: Plan, progress: Progress) -> None:
    epoch, parts = trainer.epoch_, trainer.parts()
    order = shuffled(plan.key, epoch, plan.data.samples) if plan.shuffle else None
    batches = Batches(plan.data, plan.batch_size, order, plan.drop_last)
    watchers = [callback for callback in plan.callbacks if wants_steps(callback)]
    outcomes: list[Outcome] = []
    first_lr = trainer.learning_rate(epoch)
    trainer.executor.load(parts)
    try:
        try:
            for index in range(len(batches)):
                rates = trainer.rates(epoch + index / len(batches))
                with naming_shapes(plan.data):
                    outcome = trainer.executor.step(
                        parts, batches, index, rates, trainer.decay, trainer.skips_nonfinite
                    )
                outcomes.append(outcome)
                progress.step()
                if watchers:
                    trainer.executor.store(parts)
                    for callback in watchers:
                        callback.on_step_end(trainer, epoch + 1, index + 1, float(outcome.loss))
                    # Found anew, as a callback may have changed the model.
                    parts = trainer.parts()
                    trainer.executor.load(parts)
        finally:
            try:
                trainer.executor.store(parts)
            except KeyboardInterrupt:
                trainer.executor.store(parts)
                raise
    except NonFiniteStep as bad:
        raise nonfinite_error(parts, bad, epoch + 1, trainer.decay) from None
    losses, finite = (np.array(column) for column in zip(*jax.device_get(outcomes), strict=True))
    record = {"train_loss": batches.mean_over_samples(losses, finite), "lr": first_lr}
    if plan.validation is not None:
        record["val_loss"] = _validate(trainer, plan, plan.validation)
    # All at once: an exception in the validation leaves no half of an entry.
    for name, value in record.items():
        trainer.history_[name].append(value)
    trainer.skipped_steps_ += int((~finite).sum())
    trainer.epoch_ += 1


def _validate(trainer: "Trainer", plan: Plan, data: Data) -> float:
    with naming_shapes(data, ("X_val", "y_val")):
        return trainer.loss_on(trainer.parts(), data, plan.batch_size)


def _try_validation(trainer: "Trainer", plan: Plan, data: Data) -> None:
    """Evaluates one batch where the validation data are unlike the training data: what is wrong shows before a step."""
    lowest, highest = data.labels or (0, 0)
    least, most = plan.data.labels or (lowest, highest)
    if Batches(data, 1).form == Batches(plan.data, 1).form and least <= lowest and highest <= most:
        return
    parts = trainer.parts()
    before = read_values(parts, slots=False)
    try:
        _validate(trainer, plan, data.head(plan.batch_size))
    finally:
        write_values(parts, before)
