"""Measures Trainer.fit by the loop and compiled; writes compiled_fit_speed_cpu.json, on a GPU ..._gpu.json."""

import sys
from pathlib import Path

from da_bench import file_name, main

if __name__ == "__main__":
    main(["fit-speed", "--output", str(Path(__file__).with_name(file_name("compiled_fit_speed"))), *sys.argv[1:]])
