"""Measures ours beside other libraries, each in its own hatch environment, and writes peers_cpu.json here."""

import subprocess
import sys
from pathlib import Path

from da_bench import main

# By the module that a peer needs.
ENVIRONMENTS = {
    "torch": "peers-torch",
    "keras": "peers-keras",
    "flax": "peers-flax",
    "equinox": "peers-equinox",
    "dense_armor": "peers-dense-armor",
}


def python_of(environment: str) -> str:
    """The interpreter of a hatch environment, which is made where it is not there yet."""
    command = ["hatch", "-e", environment, "run", "python", "-c", "import sys; print(sys.executable)"]
    outcome = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own command
    return outcome.stdout.split()[-1]


if __name__ == "__main__":
    pythons = [f"--python={module}={python_of(environment)}" for module, environment in ENVIRONMENTS.items()]
    output = [] if "--output" in sys.argv else ["--output", str(Path(__file__).with_name("peers_cpu.json"))]
    main(["peers", *pythons, *output, *sys.argv[1:]])
