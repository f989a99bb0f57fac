"""Timing: things in turn inside one run, median and range."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

Rate = dict[str, Any]


def in_turn(runs: Mapping[str, Callable[[], int]], sessions: int) -> dict[str, Rate]:
    """Times each of `runs` once a session, in turn and back (A B C C B A ...): a drift of the machine meets all alike.

    Args:
        runs: by name, what to time; it returns the number of steps it did, with their results ready.
        sessions: rounds, 1 or more.

    Returns:
        By name: steps per second as median, lowest, highest and the list by session.
    """
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for session in range(sessions):
        # What ran before leaves its mark on caches and the allocator.
        for name, run in list(runs.items())[:: -1 if session % 2 else 1]:
            start = time.perf_counter()
            steps = run()
            rates[name].append(steps / (time.perf_counter() - start))
    return {name: summary(values) for name, values in rates.items()}


def summary(rates: list[float]) -> Rate:
    """Median, range, and the figures themselves."""
    return {"median": statistics.median(rates), "lowest": min(rates), "highest": max(rates), "sessions": rates}


def ratios(rates: Mapping[str, Rate], of: str) -> dict[str, float]:
    """The median of `of` over the median of each other."""
    return {f"{of} / {name}": rates[of]["median"] / rate["median"] for name, rate in rates.items() if name != of}
