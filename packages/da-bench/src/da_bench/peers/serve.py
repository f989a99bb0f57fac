"""What a peer's script shares with the others: it reads the task, and trains when it is told. Needs NumPy alone."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np


def read_task(path: str) -> Any:
    """The task of a file, with `weights` as (weight, bias) of each layer, and `batches` as (x, y) of each step."""
    with np.load(path) as file:
        task = SimpleNamespace(**{name: file[name] for name in file.files})
    layers = len(task.widths) - 1
    task.weights = [
        (getattr(task, f"parameter_{2 * i}"), getattr(task, f"parameter_{2 * i + 1}")) for i in range(layers)
    ]
    task.loss, task.optimizer = str(task.loss), str(task.optimizer)
    task.lr, task.batch_size = float(task.lr), int(task.batch_size)
    task.steps = len(task.X) // task.batch_size
    used = task.steps * task.batch_size
    task.X, task.y = task.X[:used], task.y[:used]
    size = task.batch_size
    task.batches = [(task.X[i : i + size], task.y[i : i + size]) for i in range(0, used, size)]
    return task


def serve(make: Callable[[Any], Callable[[int], Sequence[float]]]) -> None:
    """Reads numbers of epochs, a line each, and answers each with the mean loss of every epoch, and the seconds.

    Args:
        make: from the task to a function that trains for so many more epochs and returns the mean loss of each, when
            the parameters are ready.
    """
    train = make(read_task(sys.argv[1]))
    for line in sys.stdin:
        start = time.perf_counter()
        losses = train(int(line))
        seconds = time.perf_counter() - start
        sys.stdout.write(json.dumps({"losses": [float(loss) for loss in losses], "seconds": seconds}) + "\n")
        sys.stdout.flush()
