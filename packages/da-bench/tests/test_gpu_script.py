import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks"


@pytest.mark.skipif(not (FOLDER / "gpu.py").exists(), reason="the scripts are in the repository only")
@pytest.mark.parametrize("platforms", ["cpu", "cuda"])
def test_without_a_gpu_the_script_says_so_and_writes_nothing(platforms):
    before = sorted(FOLDER.glob("*.json"))
    environment = {**os.environ, "JAX_PLATFORMS": platforms, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(FOLDER / "gpu.py")]
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert outcome.returncode == 1
    assert "This script must run on a GPU" in outcome.stderr
    assert "Nothing was measured or written." in outcome.stderr
    assert sorted(FOLDER.glob("*.json")) == before
