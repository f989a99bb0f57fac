"""Measures how long a deep model takes to compile, its equal blocks as a stack or one by one; writes depth_cpu.json."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import jax
from da_bench import file_name, machine
from da_layers import MSE, Dense, LayerNorm, LayerStack, ReLU, Residual, Sequential
from da_optim import Adam
from da_trainer import Trainer

BLOCKS, SESSIONS = (10, 100), 3
KINDS = {"a stack": True, "one by one": False}


def compile_seconds(blocks: int, stacked: bool) -> float:
    """Of a training step with Adam, of blocks of LayerNorm, Dense, ReLU with a residual connection."""
    keys = jax.random.split(jax.random.key(0), blocks)
    layers = [Residual(Sequential(LayerNorm(32), Dense(32, 32, key), ReLU())) for key in keys]
    trainer = Trainer(Sequential([LayerStack(layers)] if stacked else layers), MSE(), Adam(1e-4), compile=True)
    X = jax.random.normal(jax.random.key(1), (64, 32))
    trainer.fit(X, X, 1, 32)
    return trainer.compile_seconds


def measured(blocks: int, stacked: bool) -> float:
    """The same in a process of its own, where nothing is compiled yet."""
    command = [sys.executable, __file__, str(blocks), str(int(stacked))]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)  # noqa: S603 - this file


def main() -> None:
    """Each in turn, A B C D A B C D; medians, and how much longer the deep one takes."""
    cases = [(blocks, kind) for blocks in BLOCKS for kind in KINDS]
    seconds: dict[str, list[float]] = {f"{blocks} blocks, {kind}": [] for blocks, kind in cases}
    for _ in range(SESSIONS):
        for blocks, kind in cases:
            seconds[f"{blocks} blocks, {kind}"].append(measured(blocks, KINDS[kind]))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    few, many = BLOCKS
    ratios = {kind: medians[f"{many} blocks, {kind}"] / medians[f"{few} blocks, {kind}"] for kind in KINDS}
    results = {"median": medians, f"{many} blocks / {few} blocks": ratios}
    content = {
        "measurement": "depth",
        "machine": machine(),
        "sessions": SESSIONS,
        "compile_seconds": seconds,
        **results,
    }
    Path(__file__).with_name(file_name("depth")).write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(compile_seconds(int(sys.argv[1]), sys.argv[2] == "1"))
    else:
        main()
