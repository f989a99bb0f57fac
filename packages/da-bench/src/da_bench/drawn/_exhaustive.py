"""Many drawn trainings, and what came of them."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from ._draw import draw


def exhaustive(count: int, seed: int, tell: Callable[[], object]) -> dict[str, Any]:
    """Draws `count` trainings from `seed` on and compares the two executors on each.

    Args:
        count: how many.
        seed: the first one's; each has its own, so that one alone can be drawn again.
        tell: called after each.

    Returns:
        Counts, each part's number of trainings, what each training was made of, and which differ in what.
    """
    trainings, differing = [], []
    parts: Counter[str] = Counter()
    for number in range(seed, seed + count):
        training = draw(Random(number))  # noqa: S311 - nothing secret
        trainings.append(f"{number}: {training}")
        parts.update(
            {*training.layers, training.loss, training.optimizer, training.schedule, training.decay, training.inputs}
        )
        try:
            found: Any = training.compare().differences
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found:
            differing.append({"training": trainings[-1], "found": found})
        tell()
    return {
        "trainings": count,
        "first_seed": seed,
        "differ": len(differing),
        "differing": differing,
        "parts": dict(parts.most_common()),
        "drawn": trainings,
    }
