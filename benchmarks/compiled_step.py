"""Measures the compiled step against the loop and writes compiled_step_cpu.json, on a GPU compiled_step_gpu.json."""

import sys
from pathlib import Path

from da_bench import file_name, main

if __name__ == "__main__":
    main(["compiled-step", "--output", str(Path(__file__).with_name(file_name("compiled_step"))), *sys.argv[1:]])
