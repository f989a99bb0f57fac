"""The trainer."""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self, get_args

import jax
import jax.numpy as jnp
from da_layers import Layer, Loss, Param
from da_optim import Schedule, check_optimizer, check_schedule

from ._batches import Batches
from ._callbacks import Callback, is_callback
from ._compilation_cache import use_compilation_cache
from ._compiled import Compiled
from ._data import Data, check_inputs, check_key, check_loss, check_pairs, naming_shapes
from ._early_stopping import EarlyStopping
from ._fit import Plan, fit
from ._groups import check_groups
from ._loop import Loop
from ._numbers import check_count, is_finite, is_number
from ._rates import StepRates
from ._step import Decay, Options, decays
from ._values import Parts
from .verify import Report, verify

Mode = bool | Literal["exact", "fused"]
OnNonFinite = Literal["raise", "skip"]
Recompile = Literal["allow", "raise"]


class Trainer:
    """Trains a model: by a plain loop, or with the whole step in one compiled call; the bits are the same.

    A step zeroes the gradients, runs forward, loss and backward, checks that loss and gradients are finite, clips,
    decays, and updates each Param. Weight decay acts on Params of role "weight": "l2" adds lambda * theta to the
    gradient; "decoupled" subtracts eta_t * lambda * theta from the weights, with eta_t the schedule's multiplier
    (Loshchilov & Hutter 2019, Algorithm 1 line 9 and Algorithm 2 line 12). Clipping multiplies every gradient by
    clip_norm / norm where the norm of all of them together is larger than clip_norm (Pascanu et al. 2013).

    Args:
        model: the layer to train; what it holds is found under any attribute name.
        loss: the loss.
        optimizer: an object with `lr`, `init`, `update` and `step`; kept as `optimizer_prototype`.
        schedule: multiplier of the learning rate by epoch, None for 1.
        weight_decay: lambda, 0 or more.
        decay: "l2" or "decoupled".
        clip_norm: largest norm of all gradients together, 0 or more; None for no clipping.
        compile: False for the loop; True or "exact" for one compiled call with the loop's bits; "fused" leaves XLA
            free to round otherwise.
        on_nonfinite: "raise" stops at a loss or gradient that is NaN or infinite, "skip" leaves that step out.
        recompile: "raise" stops, with the cause, where training needs a further compiled step (another shape or dtype,
            another attribute of a layer); "allow" logs the cause at level INFO of the logger "da_trainer". The short
            last batch of an epoch has a program of its own in any case.
        steps_per_call: how many steps one compiled call takes, in a loop inside the program, with the bits of single
            steps. "auto" lets a call take about a quarter of a second, so that the bar moves and Ctrl-C is answered.
            A callback that wants every step gets every step. On a CPU a model with convolutions runs step by step:
            inside a loop XLA runs them there by a slower kernel with other bits.
        groups: a learning rate or weight decay of their own for Params whose path matches a pattern, as in
            {"layers.0.*": {"lr_scale": 0.1, "weight_decay": 0}}: lr_scale multiplies the learning rate, and
            weight_decay stands in the place of lambda, for the Params that decay acts on. The first pattern counts.
        cache_dir: a folder where compiled programs are kept for the next process, all that JAX compiles in this one;
            None leaves JAX's own setting as it is.

    Attributes:
        history_: "train_loss" (mean over samples), "val_loss" (where validated) and "lr" (of the epoch's first step),
            one entry an epoch, continued by the next fit.
        epoch_: epochs trained so far.
        skipped_steps_: steps left out by on_nonfinite="skip".

    Raises:
        ValueError: an argument is out of its range, or the optimiser lacks part of its protocol.

    Example:
        >>> import jax
        >>> from da_layers import MSE, mlp
        >>> from da_optim import SGD
        >>> from da_trainer import Trainer
        >>> X = jax.random.normal(jax.random.PRNGKey(1), (256, 512))
        >>> y = jax.random.normal(jax.random.PRNGKey(2), (256, 512))
        >>> for compile in (False, True):
        ...     model = mlp([512] * 5, jax.random.PRNGKey(0))
        ...     trainer = Trainer(model, MSE(), SGD(0.01), compile=compile)
        ...     trainer.fit(X, y, epochs=1, batch_size=256).history_["train_loss"]
        [2.840958833694458]
        [2.840958833694458]
    """

    def __init__(
        self,
        model: Layer,
        loss: Loss,
        optimizer: Any,
        schedule: Schedule | None = None,
        weight_decay: float = 0.0,
        decay: Decay = "l2",
        clip_norm: float | None = None,
        compile: Mode = False,  # noqa: A002 - the name users know from other libraries
        on_nonfinite: OnNonFinite = "raise",
        recompile: Recompile = "allow",
        steps_per_call: int | Literal["auto"] = "auto",
        cache_dir: str | os.PathLike[str] | None = None,
        groups: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.model, self.loss, self.optimizer_prototype = model, loss, optimizer
        self.schedule, self.weight_decay, self.decay, self.clip_norm = schedule, weight_decay, decay, clip_norm
        self.on_nonfinite, self._recompile = on_nonfinite, recompile
        self.groups = groups
        self._steps_per_call = None if steps_per_call == "auto" else check_count("steps_per_call", steps_per_call, 1)
        self.history_: dict[str, list[float]] = {"train_loss": [], "val_loss": [], "lr": []}
        self.epoch_ = 0
        self.skipped_steps_ = 0
        self.compile = compile
        self.recompile = recompile
        self._batch_size: int | None = None
        _check_decay_and_clipping(weight_decay, clip_norm)
        self.parts()
        if cache_dir is not None:
            use_compilation_cache(cache_dir)

    @property
    def compile(self) -> Mode:
        """How steps run; may be set between two fits, as the state is in the objects."""
        return self._compile

    @compile.setter  # noqa: A003 - this class's, not the builtin
    def compile(self, mode: Mode) -> None:
        _require(
            mode is False or mode is True or mode in ("exact", "fused"),
            "compile must be False, True (the same as 'exact') or 'fused'",
            compile=mode,
        )
        self._compile = mode
        compiled = partial(Compiled, mode != "fused", self._recompile == "allow", self._steps_per_call)
        self.executor: Loop | Compiled = compiled() if mode else Loop()

    @property
    def recompile(self) -> Recompile:
        """Whether training may need a further compiled step; may be set between two fits."""
        return self._recompile

    @recompile.setter
    def recompile(self, policy: Recompile) -> None:
        _require(policy in get_args(Recompile), "recompile must be 'allow' or 'raise'", recompile=policy)
        self._recompile = policy
        if isinstance(self.executor, Compiled):
            self.executor.may_recompile = policy == "allow"

    def fit(
        self,
        X: Any,
        y: Any,
        epochs: int,
        batch_size: int,
        key: jax.Array | None = None,
        X_val: Any = None,
        y_val: Any = None,
        patience: int | None = None,
        min_delta: float = 0.0,
        shuffle: bool = True,
        drop_last: bool = False,
        callbacks: Sequence[Callback] = (),
        progress: bool = False,
        sample_weight: Any = None,
    ) -> Self:
        """Trains for `epochs` more epochs.

        Args:
            X: (samples, ...) inputs: an array of floats, or of integers such as tokens, a list, a memory-mapped file,
                or a tuple or dict of arrays.
            y: (samples, ...) targets: floats, or integer labels of any integer dtype.
            epochs: passes over the data, 0 or more.
            batch_size: samples in a batch, 1 or more; the last batch may be shorter.
            key: random key for the order of the samples, which depends on it and the epoch's number alone; None
                stands for `jax.random.PRNGKey(0)`.
            X_val: inputs for the validation loss after each epoch; None for none.
            y_val: targets for it.
            patience: stop after so many epochs without a better validation loss, and in any case end with the best
                Params and Buffers; None never stops.
            min_delta: how much smaller a validation loss must be to be better, 0 or more.
            shuffle: a new order of the samples in each epoch.
            drop_last: leave out a last batch that is shorter.
            callbacks: called after steps and epochs.
            progress: show a bar.
            sample_weight: (samples,) or with further axes that the loss takes; how much each counts in the loss, 0 or
                more, where the loss takes `sample_weight`. The epoch's train loss is then the mean by weight.

        Returns:
            The trainer.

        Raises:
            ValueError: an argument is empty, of a wrong shape, dtype or range; nothing has changed then.
            FloatingPointError: a loss or gradient is NaN or infinite and on_nonfinite is "raise".
        """
        finite = self.on_nonfinite == "raise"
        data = check_pairs(X, y, self.loss, finite, sample_weight)
        epochs, batch_size = check_count("epochs", epochs, 0), check_count("batch_size", batch_size, 1)
        callbacks = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
        _require(
            all(is_callback(callback) for callback in callbacks),
            "callbacks must be objects of a da_trainer.Callback class",
            callbacks=callbacks,
        )
        if drop_last:
            _require(
                data.samples >= batch_size,
                f"batch_size must be at most the {data.samples} samples where drop_last=True",
                batch_size=batch_size,
            )
        _require(isinstance(shuffle, bool), "shuffle must be True or False", shuffle=shuffle)
        given = {name: "None" if value is None else "given" for name, value in (("X_val", X_val), ("y_val", y_val))}
        _require(len({*given.values()}) == 1, "X_val and y_val must be given together", **given)
        validation = None if X_val is None else check_pairs(X_val, y_val, self.loss, finite, names=("X_val", "y_val"))
        stopping = None
        if patience is not None:
            check_count("patience", patience, 1)
            _require(is_number(min_delta), "min_delta must be a finite number of 0 or more", min_delta=min_delta)
            _require(validation is not None, "patience must come with X_val and y_val", patience=patience)
            stopping = EarlyStopping(patience, min_delta)
        self._batch_size = batch_size
        plan = Plan(
            data,
            epochs,
            batch_size,
            jax.random.PRNGKey(0) if key is None else check_key(key),
            validation,
            stopping,
            shuffle,
            drop_last,
            callbacks,
            progress,
        )
        fit(self, plan)
        return self

    def evaluate(self, X: Any, y: Any, batch_size: int | None = None, sample_weight: Any = None) -> float:
        """The loss on (X, y), the mean over the samples.

        Args:
            X: (samples, ...) inputs, as for `fit`.
            y: (samples, ...) targets.
            batch_size: samples in a batch; None for that of the last fit, or all at once before the first.
            sample_weight: as for `fit`.

        Raises:
            ValueError: as `fit` raises.
        """
        data = check_pairs(X, y, self.loss, sample_weight=sample_weight)
        with naming_shapes(data):
            return self.loss_on(self.parts(), data, self._or_last(batch_size, data))

    def predict(self, X: Any, batch_size: int | None = None) -> jax.Array:
        """The model's output for X, in evaluation mode.

        Args:
            X: (samples, ...) inputs, as for `fit`.
            batch_size: as for `evaluate`.

        Returns:
            (samples, ...) outputs, on the device.

        Raises:
            ValueError: as `fit` raises.
        """
        data = check_inputs(X)
        with naming_shapes(data):
            batches = Batches(data, self._or_last(batch_size, data))
            outputs = self.executor.predict(self.parts(), batches)
            shapes = [leaf.shape for leaf in jax.tree.leaves(outputs[0])]
            wanted = "X must have samples along its first axis, and the model an output for each"
            _require(all(shape[:1] == (batches.sizes[0],) for shape in shapes), wanted, outputs=shapes)
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *outputs)

    def verify(
        self,
        X: Any,
        y: Any,
        batch_size: int,
        steps: int = 200,
        key: jax.Array | None = None,
        shuffle: bool = True,
        sample_weight: Any = None,
    ) -> Report:
        """Proves on your own model that both executors give the same bits, or names the place where they part.

        Takes the steps that `fit` would take next with both, on copies, and compares every loss and, after every step,
        every Param, Buffer, Key and slot. Where they part it runs that step again with both, and compares what each
        layer, each phase of the step and, inside the first that differs, each operation gave. The trainer, its objects
        and the random streams are as before, also after an exception.

        Args:
            X: (samples, ...) inputs, as for `fit`.
            y: (samples, ...) targets.
            batch_size: samples in a batch.
            steps: how many steps, over as many epochs as that takes.
            key: as for `fit`.
            shuffle: as for `fit`.
            sample_weight: as for `fit`.

        Returns:
            A report: `.ok`, `.first_divergence`; it prints as a table. With compile="fused" it compares that mode,
            where differences are expected, and tells how fast they grow; else "exact".

        Raises:
            ValueError: as `fit` raises.
            FloatingPointError: as `fit` raises, where both executors find the step not finite.

        Example:
            >>> import jax
            >>> from da_layers import MSE, mlp
            >>> from da_optim import SGD
            >>> from da_trainer import Trainer
            >>> X = jax.random.normal(jax.random.PRNGKey(1), (64, 4))
            >>> trainer = Trainer(mlp([4, 8, 4], jax.random.PRNGKey(0)), MSE(), SGD(0.1))
            >>> print(trainer.verify(X, X, batch_size=32, steps=10).verdict)
            the same bits in all 10 steps
        """
        data = check_pairs(X, y, self.loss, self.on_nonfinite == "raise", sample_weight)
        counts = check_count("batch_size", batch_size, 1), check_count("steps", steps, 1)
        return verify(self, data, *counts, jax.random.PRNGKey(0) if key is None else check_key(key), shuffle)

    def decayed(self) -> list[str]:
        """The paths of the Params that weight decay acts on; not those where weight_decay is 0."""
        parts = self.parts()
        groups = {path: parts.group(path).weight_decay for path in parts.trained}
        own = {path: self.weight_decay if decay is None else decay for path, decay in groups.items()}
        return [path for path, param in parts.trained.items() if own[path] and decays(param)]

    def multiplier(self, epoch: float) -> float:
        """The schedule's eta_t at a fractional epoch."""
        if self.schedule is None:
            return 1.0
        eta = self.schedule.multiplier(epoch)
        _require(is_finite(eta), f"schedule.multiplier({epoch:.4g}) must be a finite number", multiplier=eta)
        return float(eta)

    def learning_rate(self, epoch: float) -> float:
        """The learning rate at a fractional epoch: the optimiser's lr times the schedule's multiplier."""
        return self._lr() * self.multiplier(epoch)

    def _lr(self) -> float:
        lr = self.optimizer_prototype.lr
        _require(is_finite(lr), "optimizer.lr must be a finite number", lr=lr)
        return float(lr)

    def rates(self, epochs: range, steps: int, at: int | None = None) -> StepRates:
        """What the steps of one epoch or more take as arguments.

        Args:
            epochs: the number of each, from 0.
            steps: how many each has.
            at: the one step whose rates are wanted, all others then being the same; None for each step its own.

        Raises:
            ValueError: the learning rate, the schedule, weight_decay or clip_norm has been set to what is out of range.
        """
        _check_decay_and_clipping(self.weight_decay, self.clip_norm)
        # Without a schedule they are all alike.
        alike = at is not None or self.schedule is None
        times = (
            [epochs.start + (at or 0) / steps]
            if alike
            else [epoch + step / steps for epoch in epochs for step in range(steps)]
        )
        eta = tuple(self.multiplier(time) for time in times)
        base = self._lr()
        lr = tuple(base * multiplier for multiplier in eta)
        if alike:
            eta, lr = eta * steps * len(epochs), lr * steps * len(epochs)
        return StepRates(lr, eta, float(self.weight_decay), None if self.clip_norm is None else float(self.clip_norm))

    @property
    def options(self) -> Options:
        """What each step does."""
        return Options(self.decay, self.on_nonfinite == "skip")

    @property
    def compile_seconds(self) -> float:
        """What tracing and compiling have taken so far; 0 for the loop."""
        return self.executor.compile_seconds if isinstance(self.executor, Compiled) else 0.0

    @property
    def temporary_bytes(self) -> int:
        """Most memory that a compiled program takes on the device beside its arguments and results; 0 for the loop."""
        return self.executor.programs.temporary_bytes if isinstance(self.executor, Compiled) else 0

    def parts(self) -> Parts:
        """Model, loss and optimiser with the Variables that they hold now.

        Raises:
            ValueError: one of them, or another setting of the trainer, is not what it must be.
        """
        _require(isinstance(self.model, Layer), "model must be a da_layers.Layer", model=self.model)
        check_loss(self.loss)
        check_optimizer(self.optimizer_prototype)
        if self.schedule is not None:
            check_schedule("schedule", self.schedule)
        _require(self.decay in get_args(Decay), "decay must be 'l2' or 'decoupled'", decay=self.decay)
        _require(
            self.on_nonfinite in get_args(OnNonFinite),
            "on_nonfinite must be 'raise' or 'skip'",
            on_nonfinite=self.on_nonfinite,
        )
        parts = Parts.of(self.model, self.loss, self.optimizer_prototype)
        if self.groups is None:
            return parts
        params = {path: variable for path, variable in parts.variables.items() if isinstance(variable, Param)}
        return parts.grouped(check_groups(self.groups, params))

    def loss_on(self, parts: Parts, data: Data, batch_size: int) -> float:
        """The loss on checked data, the mean over the samples."""
        batches = Batches(data, batch_size)
        return batches.mean_over_samples(jax.device_get(self.executor.evaluate(parts, batches)))

    def _or_last(self, batch_size: int | None, data: Data) -> int:
        if batch_size is None:
            return self._batch_size or data.samples
        return check_count("batch_size", batch_size, 1)


def _require(condition: bool, requirement: str, **received: Any) -> None:
    if not condition:
        came = ", ".join(f"{name}={value!r}" for name, value in received.items())
        raise ValueError(f"{requirement}. Received: {came}")


def _check_decay_and_clipping(weight_decay: Any, clip_norm: Any) -> None:
    _require(is_number(weight_decay), "weight_decay must be a finite number of 0 or more", weight_decay=weight_decay)
    _require(
        clip_norm is None or is_number(clip_norm),
        "clip_norm must be None or a finite number of 0 or more",
        clip_norm=clip_norm,
    )
