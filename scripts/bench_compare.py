"""Compares the benchmarks of the working tree with a base commit, in turn in one job, and prints a Markdown table.

    python scripts/bench_compare.py BASE [ROUNDS]

Only packages/*/src is swapped. A row is marked where the change's fastest median is slower than the base's slowest by
more than a quarter: a tripwire, not an instrument. It fails for no figure.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SLOWER = 1.25

Medians = dict[str, list[float]]


def medians(path: Path) -> dict[str, float]:
    """Median seconds of each case in a pytest-benchmark file."""
    return {case["fullname"]: case["stats"]["median"] for case in json.loads(path.read_text())["benchmarks"]}


def table(base: Medians, change: Medians) -> str:
    """One row a case that both sides have."""
    lines = ["| case | base, ms | change, ms | change / base | |", "|---|---|---|---|---|"]
    for name in sorted(base.keys() & change.keys()):
        a, b = base[name], change[name]
        mark = "slower" if min(b) > SLOWER * max(a) else "faster" if max(b) * SLOWER < min(a) else ""
        lines.append(
            f"| {name} | {min(a) * 1e3:.3g} to {max(a) * 1e3:.3g} | {min(b) * 1e3:.3g} to {max(b) * 1e3:.3g} "
            f"| {min(b) / min(a):.2f} | {mark} |"
        )
    new = sorted(change.keys() - base.keys())
    return "\n".join([*lines, *(f"| {name} | | new | | |" for name in new)])


def run(into: Medians) -> None:
    """Runs the cases once and adds their medians; a base that lacks what they need adds nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        command = [sys.executable, "-m", "pytest", "benchmarks", "--benchmark-only", f"--benchmark-json={path}", "-q"]
        subprocess.run(command, cwd=ROOT, check=False)
        for name, median in (medians(path) if path.exists() and path.stat().st_size else {}).items():
            into.setdefault(name, []).append(median)


def main(base_commit: str, rounds: int) -> str:
    """Base and change in turn; the working tree is as before afterwards."""
    git = ["git", "-C", str(ROOT)]
    if subprocess.run([*git, "status", "--porcelain", "packages"], capture_output=True, check=True).stdout:
        raise SystemExit("packages/ must hold no uncommitted change: its sources are swapped.")
    base: Medians = {}
    change: Medians = {}
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    try:
        for _ in range(rounds):
            for commit, into in ((base_commit, base), (head, change)):
                subprocess.run([*git, "checkout", commit, "--", "packages/*/src"], check=True)
                run(into)
    finally:
        subprocess.run([*git, "checkout", head, "--", "packages/*/src"], check=True)
    return table(base, change)


if __name__ == "__main__":
    print(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3))
