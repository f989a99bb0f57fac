"""Measures Trainer.fit in both executors and writes compiled_fit_speed_cpu.json (on a GPU: ..._gpu.json)."""

import sys
from pathlib import Path

import jax
from da_bench._cli import main

if __name__ == "__main__":
    output = Path(__file__).with_name(f"compiled_fit_speed_{jax.devices()[0].platform}.json")
    main(["fit-speed", "--output", str(output), *sys.argv[1:]])
