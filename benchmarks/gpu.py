"""Both measurements on one GPU, within ten minutes; without a GPU it says so, fails, and writes nothing."""

import sys
from pathlib import Path

import jax
from da_bench._cli import main

if __name__ == "__main__":
    if jax.devices()[0].platform != "gpu":
        sys.exit(f"A GPU is required; jax found {jax.devices()[0].device_kind}. Nothing was measured or written.")
    folder = Path(__file__).parent
    steps = ["--operation-steps", "5", "--output", str(folder / "compiled_step_gpu.json")]
    main(["compiled-step", *steps], standalone_mode=False)
    main(["fit-speed", "--output", str(folder / "compiled_fit_speed_gpu.json")], standalone_mode=False)
