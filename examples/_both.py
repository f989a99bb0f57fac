"""Runs an example by the loop and compiled, and compares every bit of what came of it."""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from da_trainer import Trainer, bits_equal

# Trains, with the given `compile`, and tells the result in a line and as a number.
Train = Callable[[bool], tuple[Trainer, str, float]]


def main(name: str, train: Train) -> None:
    """Trains once with each executor asked for, and prints results, seconds and whether all bits are the same.

    Args:
        name: of the example, in the file of results.
        train: what the example does.
    """
    parser = argparse.ArgumentParser(description=f"{name}: by default both executors, one after the other.")
    parser.add_argument("--executor", choices=["both", "compiled", "loop"], default="both")
    parser.add_argument("--output", type=Path, help="a JSON file that gets the result under the example's name")
    options = parser.parse_args()
    modes = {"both": [True, False], "compiled": [True], "loop": [False]}[options.executor]
    states: list[Any] = []
    entry: dict[str, Any] = {}
    for mode in modes:
        start = time.perf_counter()
        trainer, line, entry["result"] = train(mode)
        entry[f"{'compiled' if mode else 'loop'} seconds"] = round(time.perf_counter() - start, 1)
        print(f"{'compiled' if mode else 'the loop'}: {line}, in {time.perf_counter() - start:.0f} s")
        states.append((trainer.model.state_dict(), trainer.history_))
    if len(states) == 2:
        entry["same bits"] = bool(bits_equal(*states))
        print("every loss and parameter has the same bits:", entry["same bits"])
    if options.output:
        results = json.loads(options.output.read_text()) if options.output.exists() else {}
        options.output.write_text(json.dumps(results | {name: entry}, indent=1) + "\n")
