"""Times each kernel of one step of the transformer, in the loop; writes kernels_cpu.json and prints a table."""

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from da_bench import StepRunner, file_name, machine, transformer
from da_trainer._fence import recording

STEPS = 7


class Clock:
    """The time of each kernel, from the end of the one before to the moment its results are ready."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._last = time.perf_counter()

    def __call__(self, name: str, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Takes in that a kernel was called."""
        jax.block_until_ready(results)
        now = time.perf_counter()
        self.milliseconds[name] += 1000 * (now - self._last)
        self.calls[name] += 1
        self._last = now


def main() -> None:
    """Medians over the steps after a first one that compiles."""
    workload = transformer()
    runner = StepRunner(workload.trainer(False), *workload.data())
    runner.run(1)
    clocks = []
    for _ in range(STEPS):
        runner.load()
        clocks.append(Clock())
        with recording(clocks[-1]):
            runner.step()
        runner.store()
    names = clocks[0].milliseconds
    median = {name: statistics.median(clock.milliseconds[name] for clock in clocks) for name in names}
    total = sum(median.values())
    rows = [
        {"kernel": name, "calls": clocks[0].calls[name], "milliseconds": round(median[name], 2)}
        for name in sorted(names, key=lambda name: -median[name])
    ]
    content = {"measurement": "kernels", "machine": machine(), "steps": STEPS, "model": workload.name, "kernels": rows}
    Path(__file__).with_name(file_name("kernels")).write_text(json.dumps(content, indent=1) + "\n")
    print("| kernel | calls | ms a step | share |\n| --- | --- | --- | --- |")
    for row in rows:
        share = 100 * row["milliseconds"] / total
        print(f"| `{row['kernel']}` | {row['calls']} | {row['milliseconds']:.1f} | {share:.1f}% |")
    print(f"| all | {sum(row['calls'] for row in rows)} | {total:.1f} | 100% |")


if __name__ == "__main__":
    main()
