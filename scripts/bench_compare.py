"""Compares the benchmarks of the working tree with a base commit, in turn in one run, and prints a Markdown table.

    python scripts/bench_compare.py BASE [--rounds 3] [--output table.md] [--only "digits or trace"]

Both sides run the working tree's benchmarks; only the sources of the packages are swapped. The base's are taken out of
git into a folder of their own that Python looks into first, so the working tree is never touched and may hold changes.
A row is marked where the change's fastest median is more than a quarter slower than the base's slowest: a tripwire, not
an instrument. No figure makes it fail.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRIPWIRE = 1.25

Medians = dict[str, list[float]]


def main(base: str, rounds: int, only: str) -> str:
    """Runs base and change in turn and returns the table."""
    medians: dict[str, Medians] = {"base": {}, "change": {}}
    with tempfile.TemporaryDirectory() as folder:
        trees = {"base": extract(base, Path(folder) / "base"), "change": ROOT}
        for number in range(rounds):
            for side, tree in trees.items():
                print(f"round {number + 1} of {rounds}: {side}", file=sys.stderr)
                for name, median in run(tree, Path(folder) / "result.json", only).items():
                    medians[side].setdefault(name, []).append(median)
    if not medians["change"]:
        sys.exit("The benchmarks of the working tree must run. Received: no result")
    return f"Base `{base[:12]}`, {rounds} rounds in turn on one machine.\n\n{table(**medians)}"


def extract(commit: str, into: Path) -> Path:
    """The sources of the packages at `commit`."""
    command = ["git", "-C", str(ROOT), "archive", commit, "packages"]
    archive = into.with_suffix(".tar")
    archive.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
    return into


def run(tree: Path, result: Path, only: str) -> dict[str, float]:
    """Median seconds of each case with the sources of `tree`; none where it lacks what the benchmarks need."""
    result.unlink(missing_ok=True)
    sources = [str(path) for path in sorted(tree.glob("packages/*/src"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sources), "PYTHONHASHSEED": "0"}
    origin = [sys.executable, "-c", "import da_trainer; print(da_trainer.__file__)"]
    found = subprocess.run(origin, cwd=ROOT, env=environment, capture_output=True, text=True, check=False).stdout
    if found and not Path(found.strip()).is_relative_to(tree):
        sys.exit(f"da_trainer must come from {tree}. Received: {found.strip()}")
    command = [sys.executable, "-m", "pytest", "benchmarks", "--benchmark-only", "-q", f"--benchmark-json={result}"]
    # What pytest prints goes to standard error: standard output is the table.
    subprocess.run([*command, "-k", only], cwd=ROOT, env=environment, stdout=sys.stderr, check=False)
    if not result.exists() or not result.stat().st_size:
        return {}
    return {case["name"]: case["stats"]["median"] for case in json.loads(result.read_text())["benchmarks"]}


def table(base: Medians, change: Medians) -> str:
    """One row a case: the range of its medians on both sides, and the ratio of their middles."""
    lines = ["| case | base, ms | change, ms | change / base | |", "|---|---|---|---|---|"]
    for name, after in sorted(change.items()):
        before = base.get(name)
        if before is None:
            lines.append(f"| {name} | | {milliseconds(after)} | | new |")
            continue
        ratio = statistics.median(after) / statistics.median(before)
        lines.append(
            f"| {name} | {milliseconds(before)} | {milliseconds(after)} | {ratio:.2f} | {mark(before, after)} |"
        )
    lines += [f"| {name} | {milliseconds(base[name])} | | | gone |" for name in sorted(base.keys() - change.keys())]
    return "\n".join(lines)


def mark(base: list[float], change: list[float]) -> str:
    """Slower or faster where even the nearest medians of the two sides are a quarter apart, else nothing."""
    if min(change) > TRIPWIRE * max(base):
        return "**slower**"
    return "faster" if max(change) * TRIPWIRE < min(base) else ""


def milliseconds(medians: list[float]) -> str:
    """The range of medians in seconds, in milliseconds."""
    return f"{min(medians) * 1e3:.3g} to {max(medians) * 1e3:.3g}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("base", help="commit to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="file for the table, besides standard output")
    parser.add_argument("--only", default="", help="cases to run, as for pytest -k; all by default")
    options = parser.parse_args()
    result = main(options.base, options.rounds, options.only)
    print(result)
    if options.output:
        options.output.write_text(result + "\n")
