"""demo: the digits network by the loop and compiled, from the same start."""

import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from da_trainer import Callback, Trainer, bits_equal

from ._digits import Split, digits_split
from ._steps import wait
from ._workloads import Workload, digits

LEAST_ACCURACY = 0.95


@dataclass(frozen=True)
class Training:
    """One of the two trainings.

    Attributes:
        losses: mean training loss of each epoch.
        accuracies: share of the test images named right, after each epoch.
        steps_per_second: of fit, median over the epochs but the first; the test after each epoch is not timed.
        compile_seconds: what tracing and compiling took, in the first epoch; 0 for the loop.
        parameters: by path, after the last epoch.
    """

    losses: list[float]
    accuracies: list[float]
    steps_per_second: float
    compile_seconds: float
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """Both trainings, and how they differ.

    Attributes:
        loss_difference: largest difference between the two loss histories.
        parameter_difference: largest difference between the two sets of final parameters.
        same_bits: losses and parameters are equal byte by byte.
    """

    loop: Training
    compiled: Training
    loss_difference: float
    parameter_difference: float
    same_bits: bool

    @property
    def passed(self) -> bool:
        """Whether the demo shows what it should: the same bits, and a network that has learned the digits."""
        return self.same_bits and self.compiled.accuracies[-1] >= LEAST_ACCURACY

    def __str__(self) -> str:
        loop, compiled = self.loop, self.compiled
        ratio = compiled.steps_per_second / loop.steps_per_second
        rows = [
            ("", "loop", "compiled"),
            ("steps per second", f"{loop.steps_per_second:.0f}", f"{compiled.steps_per_second:.0f}   {ratio:.1f}x"),
            ("seconds to compile", "-", f"{compiled.compile_seconds:.2f}"),
            ("test accuracy", f"{loop.accuracies[-1]:.4f}", f"{compiled.accuracies[-1]:.4f}"),
            ("last training loss", f"{loop.losses[-1]:.6f}", f"{compiled.losses[-1]:.6f}"),
        ]
        lines = [f"{name:<20}{left:>10}    {right}" for name, left, right in rows]
        lines += [
            "",
            f"largest difference between the two loss histories:     {self.loss_difference:g}",
            f"largest difference between the two sets of parameters: {self.parameter_difference:g}",
            "Every loss and every parameter has the same bits, by the loop and compiled."
            if self.same_bits
            else "The loop and the compiled step do NOT have the same bits.",
        ]
        if compiled.accuracies[-1] < LEAST_ACCURACY:
            lines.append(f"The test accuracy is below {LEAST_ACCURACY}.")
        return "\n".join(lines)


def run_demo(
    epochs: int = 30, progress: bool = True, workload: Workload | None = None, split: Split | None = None
) -> Comparison:
    """Trains twice from the same start and compares.

    Args:
        epochs: epochs of each training, 2 or more: the first, which compiles, is not timed.
        progress: show the trainer's bars.
        workload: what to train; None for the digits.
        split: training and test data; None for the digits.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    workload, split = workload or digits(), split or digits_split()
    loop, compiled = (_train(workload, split, mode, epochs, progress) for mode in (False, True))
    return Comparison(
        loop,
        compiled,
        loss_difference=float(np.abs(np.subtract(loop.losses, compiled.losses)).max()),
        parameter_difference=max(
            float(np.abs(np.subtract(loop.parameters[path], compiled.parameters[path])).max())
            for path in loop.parameters
        ),
        same_bits=bool(bits_equal((loop.losses, loop.parameters), (compiled.losses, compiled.parameters))),
    )


def _train(workload: Workload, split: Split, mode: bool, epochs: int, progress: bool) -> Training:
    trainer, watch = workload.trainer(mode), _Watch(split)
    trainer.fit(split.X, split.y, epochs, workload.batch_size, callbacks=[watch], progress=progress)
    steps = -(-len(split.X) // workload.batch_size)
    return Training(
        trainer.history_["train_loss"],
        watch.accuracies,
        steps / statistics.median(watch.seconds[1:]),
        watch.compile_seconds,
        {path: np.asarray(value) for path, value in trainer.model.state_dict().items()},
    )


class _Watch(Callback):
    """Takes the accuracy after each epoch, and how long the epoch took without it."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self.accuracies: list[float] = []
        self.seconds: list[float] = []
        self.compile_seconds = 0.0
        self._start = time.perf_counter()

    def on_epoch_end(self, trainer: Trainer, epoch: int) -> None:
        wait(trainer)
        self.seconds.append(time.perf_counter() - self._start)
        if epoch == 1:
            self.compile_seconds = trainer.compile_seconds
        labels = np.asarray(trainer.predict(self._split.X_test)).argmax(-1)
        self.accuracies.append(float((labels == self._split.y_test).mean()))
        self._start = time.perf_counter()
