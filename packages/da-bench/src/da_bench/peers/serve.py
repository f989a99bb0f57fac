"""What a peer's script shares with the others: it reads the task, and trains when it is told. Needs NumPy alone."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

# Of the transformer; no weight's shape tells.
HEADS = 4


def read_task(path: str) -> Any:
    """The task of a file, with `weights` by path, and `batches` as (x, y) of each step."""
    with np.load(path) as file:
        contents = {name: file[name] for name in file.files}
    weights = {name.partition(".")[2]: contents.pop(name) for name in list(contents) if name.startswith("weights.")}
    task = SimpleNamespace(**contents, weights=weights)
    task.kind, task.loss, task.optimizer = str(task.kind), str(task.loss), str(task.optimizer)
    task.lr, task.batch_size = float(task.lr), int(task.batch_size)
    task.steps = len(task.X) // task.batch_size
    used = task.steps * task.batch_size
    task.X, task.y = task.X[:used], task.y[:used]
    size = task.batch_size
    task.batches = [(task.X[i : i + size], task.y[i : i + size]) for i in range(0, used, size)]
    # Weight and bias of each affine map and convolution of an mlp or cnn, in order.
    maps = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
    task.maps = [(weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in maps]
    return task


def blocks(weights: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """The weights of each block of a transformer, by the name inside the block."""
    return [layer for layer in _layers(weights) if "attn.query.weight" in layer]


def ends(weights: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], ...]:
    """The weights before and after the blocks of a transformer: the first map, the last norm and the last map."""
    first, norm, last = (layer for layer in _layers(weights) if "attn.query.weight" not in layer)
    return first, norm, last


def _layers(weights: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    layers: dict[int, dict[str, np.ndarray]] = {}
    for path, array in weights.items():
        _, place, name = path.split(".", 2)
        layers.setdefault(int(place), {})[name] = array
    return [layers[place] for place in sorted(layers)]


def positions(time_steps: int, size: int) -> np.ndarray:
    """(time, size), the sinusoidal code that a transformer adds to its tokens."""
    angles = np.arange(time_steps)[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(time_steps, size).astype(np.float32)


def serve(make: Callable[[Any], Callable[[int], Sequence[float]]]) -> None:
    """Answers lines: a number of epochs with the mean loss of each and the seconds, "facts" with what else is known.

    Args:
        make: from the task to a function that trains for so many more epochs and returns the mean loss of each, when
            the parameters are ready. It may have an attribute `facts`, a function that returns numbers by name.
    """
    train = make(read_task(sys.argv[1]))
    for line in sys.stdin:
        if line.strip() == "facts":
            answer: dict[str, Any] = getattr(train, "facts", dict)()
        else:
            start = time.perf_counter()
            losses = train(int(line))
            answer = {"seconds": time.perf_counter() - start, "losses": [float(loss) for loss in losses]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
