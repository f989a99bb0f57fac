"""Both measurements on one CUDA GPU, within ten minutes; without a GPU it says so, fails, and writes nothing.

    python benchmarks/gpu.py

It runs from a clone: nothing need be installed but jax with CUDA, numpy, click and tqdm, and for the digits
scikit-learn. Each file is written as soon as its measurement is done.
"""

import importlib.util
import sys
from pathlib import Path

import jax

FOLDER = Path(__file__).parent
sys.path[:0] = [str(source) for source in sorted(FOLDER.parent.glob("packages/*/src"))]


def require_gpu() -> None:
    """Ends the script where jax has no GPU."""
    try:
        found = jax.devices()[0]
    except (RuntimeError, AssertionError):  # JAX_PLATFORMS asks for one that is not there
        sys.exit("This script must run on a GPU, and jax found no device. Nothing was measured or written.")
    if found.platform != "gpu":
        sys.exit(f"This script must run on a GPU, and jax found: {found.device_kind}. Nothing was measured or written.")


def measure() -> None:
    """Writes compiled_step_gpu.json and compiled_fit_speed_gpu.json beside this script."""
    from da_bench import main

    with_digits = ["--model", "digits"] if importlib.util.find_spec("sklearn") else []
    for command, name, options in (
        ("compiled-step", "compiled_step_gpu.json", ["--operation-steps", "5"]),
        ("fit-speed", "compiled_fit_speed_gpu.json", ["--model", "mlp", *with_digits, "--model", "transformer"]),
    ):
        main([command, *options, "--output", str(FOLDER / name)], standalone_mode=False)


if __name__ == "__main__":
    require_gpu()
    measure()
