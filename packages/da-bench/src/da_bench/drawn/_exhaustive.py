"""Many drawn trainings, and what came of them."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random
from typing import Any, NamedTuple

from ._draw import SWITCHES, draw


class _Result(NamedTuple):
    training: str
    parts: frozenset[str]
    found: Any


def exhaustive(count: int, seed: int, tell: Callable[[], object], jobs: int = 1) -> dict[str, Any]:
    """Draws `count` trainings from `seed` on and compares the two executors on each.

    Args:
        count: how many.
        seed: the first one's; each has its own, so that one alone can be drawn again.
        tell: called after each.
        jobs: how many processes share the work; 1 works in this one.

    Returns:
        Counts, each part's number of trainings, what each training was made of, and which differ in what.
    """
    if jobs > 1:
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
            results = _told(pool.map(_compare, range(seed, seed + count)), tell)
    else:
        results = _told(map(_compare, range(seed, seed + count)), tell)
    differing = [{"training": result.training, "found": result.found} for result in results if result.found]
    parts = Counter(part for result in results for part in sorted(result.parts))
    return {
        "trainings": count,
        "first_seed": seed,
        "differ": len(differing),
        "differing": differing,
        "parts": dict(parts.most_common()),
        "drawn": [result.training for result in results],
    }


def _told(results: Any, tell: Callable[[], object]) -> list[_Result]:
    kept = []
    for result in results:
        kept.append(result)
        tell()
    return kept


def _compare(number: int) -> _Result:
    training = draw(Random(number))  # noqa: S311 - nothing secret
    parts = {*training.layers, training.loss, training.optimizer, training.schedule, training.decay, training.inputs}
    parts |= {name for name in SWITCHES if getattr(training, name)}
    try:
        found: Any = training.compare().differences
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    return _Result(f"{number}: {training}", frozenset(parts), found)
