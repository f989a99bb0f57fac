"""Runs the peers in turn, A B C A B C, each in a process of its own, and compares their first losses."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from .._timing import ratios, summary
from ._tasks import Task

_HERE = Path(__file__).parent
# Losses of the first epochs must agree so far, relative to ours.
_TOLERANCE = 1e-4


class Peer(NamedTuple):
    """A way to train.

    Attributes:
        script: file beside this one.
        mode: its argument.
        modules: what must be installed to run it.
    """

    script: str
    mode: str
    modules: tuple[str, ...]


OURS = "da-trainer compiled"
PEERS = {
    OURS: Peer("peer_ours.py", "compiled", ("da_trainer",)),
    "da-trainer loop": Peer("peer_ours.py", "loop", ("da_trainer",)),
    "hand-written jit": Peer("peer_by_hand.py", "jit", ("jax", "optax")),
    "hand-written scan": Peer("peer_by_hand.py", "scan", ("jax", "optax")),
    "Equinox filter_jit": Peer("peer_equinox.py", "", ("equinox", "optax")),
    "Flax nnx.jit": Peer("peer_flax.py", "jit", ("flax", "optax")),
    "Flax nnx.cached_partial": Peer("peer_flax.py", "cached", ("flax", "optax")),
    "Keras fit": Peer("peer_keras.py", "1", ("keras", "jax")),
    "Keras fit, 32 steps per execution": Peer("peer_keras.py", "32", ("keras", "jax")),
    "dense-armor loop": Peer("peer_dense_armor.py", "", ("dense_armor",)),
    "PyTorch eager": Peer("peer_torch.py", "eager", ("torch",)),
    "PyTorch torch.compile": Peer("peer_torch.py", "compiled", ("torch",)),
}


class _Running:
    """A peer's process."""

    def __init__(self, peer: Peer, python: str, task_file: Path) -> None:
        command = [python, str(_HERE / peer.script), str(task_file), peer.mode]
        self._process = subprocess.Popen(  # noqa: S603 - our own script
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def ask(self, request: int | str) -> dict[str, Any]:
        """Trains for more epochs, and tells the losses of each and the seconds; or tells "facts"."""
        process = self._process
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise RuntimeError("it has no pipes")
        with suppress(BrokenPipeError):
            process.stdin.write(f"{request}\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            said = process.stderr.read().strip()
            raise RuntimeError(said.splitlines()[-1] if said else "it ended without an answer")
        return dict(json.loads(answer))

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()


def measure_peers(
    task: Task,
    peers: Sequence[str],
    sessions: int,
    epochs: int,
    pythons: Mapping[str, str],
    tell: Callable[[str], object],
) -> dict[str, Any]:
    """Measures ours and the peers on one task.

    Args:
        task: what is trained.
        peers: names out of `PEERS`; ours is always among them.
        sessions: how often each has its turn, after a first one that compiles and is not timed.
        epochs: epochs a turn.
        pythons: interpreters by the name of a module, for peers that live in an environment of their own.
        tell: called with a line before each peer's first turn.

    Returns:
        Steps per second of each, its ratio to ours, compile seconds and temporary bytes where it tells them, its first
        losses, and which were not measured, and why.
    """
    names = list(dict.fromkeys([OURS, *peers]))
    running: dict[str, _Running] = {}
    losses: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        task_file = Path(folder) / "task.npz"
        steps = epochs * task.write(task_file)
        try:
            for name in names:
                tell(f"{task.name}: {name}")
                peer = PEERS[name]
                python = next((pythons[module] for module in peer.modules if module in pythons), sys.executable)
                missing = _missing(peer, python)
                if missing:
                    failed[name] = f"{', '.join(missing)} not installed"
                    continue
                running[name] = _Running(peer, python, task_file)
                try:
                    losses[name] = running[name].ask(task.compared)["losses"]
                except RuntimeError as error:
                    failed[name] = str(error)
                    running.pop(name).close()
            for name in list(running):
                if not _agree(losses[name], losses[OURS]):
                    failed[name] = f"other first losses than ours: {losses[name]}, ours {losses[OURS]}"
                    running.pop(name).close()
            for _ in range(sessions):
                for name, process in running.items():
                    seconds.setdefault(name, []).append(process.ask(epochs)["seconds"])
            facts = {name: process.ask("facts") for name, process in running.items()}
        finally:
            for process in running.values():
                process.close()
    rates = {name: summary([steps / each for each in times]) for name, times in seconds.items()}
    return {
        "model": task.name,
        "sessions": sessions,
        "steps_a_session": steps,
        "steps_per_second": rates,
        "ratios": ratios(rates, OURS),
        "facts": {name: found for name, found in facts.items() if found},
        "first_losses": losses,
        "not_measured": failed,
    }


def _agree(losses: Sequence[float], ours: Sequence[float]) -> bool:
    return all(abs(a - b) <= _TOLERANCE * abs(b) for a, b in zip(losses, ours, strict=True))


def _missing(peer: Peer, python: str) -> list[str]:
    find = "import importlib.util, sys; print(*[m for m in sys.argv[1:] if importlib.util.find_spec(m) is None])"
    outcome = subprocess.run([python, "-c", find, *peer.modules], capture_output=True, text=True, check=True)  # noqa: S603
    return outcome.stdout.split()
