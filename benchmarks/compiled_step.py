"""Measures the compiled step against the loop and writes compiled_step_cpu.json (on a GPU: compiled_step_gpu.json)."""

import sys
from pathlib import Path

import jax
from da_bench._cli import main

if __name__ == "__main__":
    output = Path(__file__).with_name(f"compiled_step_{jax.devices()[0].platform}.json")
    main(["compiled-step", "--output", str(output), *sys.argv[1:]])
