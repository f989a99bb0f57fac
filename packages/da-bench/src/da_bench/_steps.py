"""Steps: the loop a person writes, and one executor's step as `fit` calls it."""

from typing import Any

import jax
import jax.numpy as jnp
from da_trainer import Trainer
from da_trainer._values import read_values


def steps_by_hand(trainer: Trainer, X: Any, y: Any, steps: int) -> list[jax.Array]:
    """The training loop over the objects, written out; returns the losses when the parameters are ready."""
    params, losses = trainer.model.params(), []
    for _ in range(steps):
        for param in params:
            param.zero_grad()
        prediction = trainer.model.forward(X, training=True)
        losses.append(trainer.loss.forward(prediction, y))
        trainer.model.backward(trainer.loss.backward())
        for param in params:
            param.update(trainer.optimizer_prototype)
    wait(trainer)
    return losses


def wait(trainer: Trainer) -> None:
    """Returns when the parameters are ready."""
    jax.block_until_ready([param.value for param in trainer.model.params()])


class StepRunner:
    """Calls a trainer's executor on one batch as `fit` calls it: `load`, a `run` for each step, `store`.

    It trains for one step to learn what `fit` hands to the executor; that step compiles.

    Args:
        trainer: in any mode.
        X: the inputs of one batch.
        y: its targets.

    Example:
        >>> from da_bench import StepRunner, normal_mlp
        >>> workload = normal_mlp(layers=2, width=4, batch=8)
        >>> runner = StepRunner(workload.trainer(True), *workload.data())
        >>> runner.run(3)
        3
    """

    def __init__(self, trainer: Trainer, X: Any, y: Any) -> None:
        self._trainer, self._executor = trainer, trainer.executor
        recorder = _Recorder(self._executor)
        executor_of: Any = trainer
        executor_of.executor = recorder
        try:
            trainer.fit(X, y, epochs=1, batch_size=len(X), shuffle=False)
        finally:
            executor_of.executor = self._executor
        self._args = recorder.args

    def load(self) -> None:
        """What `fit` does before an epoch's first step."""
        self._executor.load(self._args[0])

    def step(self) -> None:
        """One step; returns when its loss, and where the objects hold them the parameters, are ready."""
        jax.block_until_ready(self._executor.run(*self._args))
        wait(self._trainer)

    def store(self) -> None:
        """What `fit` does after an epoch's last step."""
        self._executor.store(self._args[0])

    def run(self, steps: int) -> int:
        """An epoch of `steps` steps; returns their number when the parameters are ready."""
        self.load()
        for _ in range(steps):
            self._executor.run(*self._args)
        self.store()
        wait(self._trainer)
        return steps


class BareCalls:
    """The compiled calls of a fit without the fit: the same programs on the same batches, on a state of their own.

    Args:
        trainer: compiled; it is trained twice, so that the second fit's calls are those that the pace settles on.
        X: inputs.
        y: targets.
        epochs: epochs of the fit.
        batch_size: samples in a batch.
    """

    def __init__(self, trainer: Trainer, X: Any, y: Any, epochs: int, batch_size: int) -> None:
        self._calls: list[tuple[Any, tuple[Any, ...]]] = []
        programs = trainer.executor.programs  # type: ignore[union-attr]
        get = programs.get

        def recorded(key: Any, steps: Any, around: Any, args: tuple[Any, ...]) -> Any:
            program = get(key, steps, around, args)
            self._calls.append((program, args[1:]))
            return program

        trainer.fit(X, y, epochs, batch_size)
        programs.get = recorded  # type: ignore[method-assign]
        try:
            trainer.fit(X, y, epochs, batch_size)
        finally:
            del programs.get
        self._state = jax.tree.map(jnp.copy, read_values(trainer.parts()))

    def run(self) -> None:
        """Calls them all; returns when the parameters are ready."""
        for program, args in self._calls:
            self._state, _ = program(self._state, *args)
        jax.block_until_ready(self._state)


class _Recorder:
    """An executor that remembers what `run` was called with."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self.args: Any = ()

    def run(self, *args: Any) -> Any:
        self.args = args
        return self._executor.run(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)
