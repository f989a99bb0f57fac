"""Fit: epochs, shuffling, the epoch's loss, validation and early stopping; the same for both executors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np

from ._batches import Batches, Orders
from ._callbacks import Callback, wants_steps
from ._data import Data, naming_shapes
from ._early_stopping import EarlyStopping
from ._forms import form_of
from ._nonfinite import NonFiniteStep, nonfinite_error
from ._progress import Progress
from ._rates import StepRates
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
    orders = Orders(plan.key, plan.data.samples) if plan.shuffle else None
    an_epoch = Batches(plan.data, plan.batch_size, drop_last=plan.drop_last)
    last = trainer.epoch_ + plan.epochs
    if plan.validation is not None:
        _try_validation(trainer, plan, plan.validation)
    progress = Progress(len(an_epoch) * plan.epochs, plan.progress)
    trainer.executor.look_again()
    try:
        while trainer.epoch_ < last:
            # Someone looks after each epoch, or many may go by in one call.
            observe = getattr(trainer.schedule, "observe", None)
            looked_at = plan.callbacks or plan.validation is not None or observe is not None
            stop_at = trainer.epoch_ + (1 if looked_at else trainer.executor.epochs_at_once(an_epoch))
            epochs = range(trainer.epoch_, min(stop_at, last))
            _epochs(trainer, plan, Batches(plan.data, plan.batch_size, orders, plan.drop_last, epochs), progress)
            stop = plan.stopping is not None and plan.stopping.update(trainer.parts(), trainer.history_["val_loss"][-1])
            losses = {name: values[-1] for name, values in trainer.history_.items() if values and name != "lr"}
            progress.epoch(trainer.epoch_, last, losses)
            if observe is not None:
                observe(trainer.epoch_, losses["train_loss" if plan.validation is None else "val_loss"])
            for callback in plan.callbacks:
                callback.on_epoch_end(trainer, trainer.epoch_)
            if plan.callbacks:
                trainer.executor.look_again()
            if stop:
                break
    finally:
        progress.close()
        if plan.stopping:
            plan.stopping.restore(trainer.parts())
        trainer.parts().zero_grads()


def _epochs(trainer: "Trainer", plan: Plan, batches: Batches, progress: Progress) -> None:
    """Trains on all `batches`, and writes each epoch's entry into the history."""
    rates = trainer.rates(batches.epochs, len(batches.sizes))
    outcomes: list[Outcome] = []
    try:
        _steps(trainer, plan, batches, rates, outcomes, progress)
    except BaseException as error:
        if isinstance(error, NonFiniteStep) and error.before is not None:
            outcomes.append(error.before)
        if plan.validation is None:
            _record(trainer, batches, rates, outcomes, {})
        if isinstance(error, NonFiniteStep):
            raise nonfinite_error(trainer.parts(), error, trainer.options) from None
        raise
    validation = {} if plan.validation is None else {"val_loss": _validate(trainer, plan, plan.validation)}
    _record(trainer, batches, rates, outcomes, validation)


def _steps(
    trainer: "Trainer", plan: Plan, batches: Batches, rates: StepRates, outcomes: list[Outcome], progress: Progress
) -> None:
    """Takes the steps; `outcomes` get those whose values are in the objects in the end."""
    parts, executor = trainer.parts(), trainer.executor
    watchers = [callback for callback in plan.callbacks if wants_steps(callback)]
    executor.load(parts)
    try:
        for steps in executor.calls(batches, bool(watchers)):
            if watchers and steps.start:
                rates = trainer.rates(batches.epochs, len(batches.sizes), steps.start)
            with naming_shapes(plan.data):
                executor.run(parts, batches, steps, rates, trainer.options)
            progress.step(len(steps))
            if watchers:
                outcomes.append(executor.store(parts))
                for callback in watchers:
                    callback.on_step_end(trainer, batches.epochs.start + 1, steps.stop, float(outcomes[-1].loss[0]))
                # Found anew, as a callback may have changed the model.
                parts = trainer.parts()
                executor.look_again()
                executor.load(parts)
    finally:
        try:
            outcomes.append(executor.store(parts))
        except KeyboardInterrupt:
            outcomes.append(executor.store(parts))
            raise


def _record(
    trainer: "Trainer",
    batches: Batches,
    rates: StepRates,
    outcomes: list[Outcome],
    validation: Mapping[str, float],
) -> None:
    """Writes the entries of the epochs that are complete, each all at once."""
    if not outcomes:
        return
    losses, finite = (np.concatenate(arrays) for arrays in zip(*outcomes, strict=True))
    steps = len(batches.sizes)
    for start in range(0, len(losses) - steps + 1, steps):
        counted = finite[start : start + steps]
        epoch, _ = batches.place(start)
        train_loss = batches.mean_over_samples(losses[start : start + steps], counted, epoch)
        for name, value in {"lr": rates.lr[start], "train_loss": train_loss, **validation}.items():
            trainer.history_[name].append(value)
        trainer.skipped_steps_ += int((~counted).sum())
        trainer.epoch_ += 1


def _validate(trainer: "Trainer", plan: Plan, data: Data) -> float:
    with naming_shapes(data, ("X_val", "y_val")):
        return trainer.loss_on(trainer.parts(), data, plan.batch_size)


def _try_validation(trainer: "Trainer", plan: Plan, data: Data) -> None:
    """Evaluates one batch where the validation data are unlike the training data: what is wrong shows before a step."""
    lowest, highest = data.labels or (0, 0)
    least, most = plan.data.labels or (lowest, highest)
    if form_of(data.shapes(1)) == form_of(plan.data.shapes(1)[:2]) and least <= lowest and highest <= most:
        return
    parts = trainer.parts()
    before = read_values(parts, slots=False)
    try:
        _validate(trainer, plan, data.head(plan.batch_size))
    finally:
        write_values(parts, before)
