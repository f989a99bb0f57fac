"""Peers: the same task in processes of their own, in turn, with the same first losses."""

import json
import re
import sys
from pathlib import Path

import da_bench.peers._measure as measure
import numpy as np
import pytest
from click.testing import CliRunner
from da_bench import main
from da_bench.peers import PEERS, TASKS, Peer, Task, measure_peers
from da_layers import mlp
from da_trainer import bits_equal

SCRIPTS = Path(measure.__file__).parent


def data():
    rng = np.random.default_rng(0)
    return rng.standard_normal((30, 4)).astype(np.float32), rng.integers(0, 3, 30)


TINY = Task("tiny", "mlp", lambda: mlp([4, 5, 3], 0), "cross_entropy", "adam", 0.01, 8, data, 1)


def run(peers, monkeypatch, scripts=None, **options):
    """Measures with more scripts beside the real ones."""
    for name, (path, text) in (scripts or {}).items():
        path.write_text(text)
        monkeypatch.setitem(PEERS, name, Peer(str(path), "", ()))
    arguments = {"sessions": 2, "epochs": 2, "pythons": {}, "tell": lambda line: None} | options
    return measure_peers(TINY, peers, **arguments)


def test_ours_and_the_loop_in_turn(monkeypatch):
    lines = []
    result = run(["da-trainer loop"], monkeypatch, tell=lines.append)
    assert lines == ["tiny: da-trainer compiled", "tiny: da-trainer loop"]
    assert (result["model"], result["sessions"], result["steps_a_session"]) == ("tiny", 2, 6)
    rates = result["steps_per_second"]
    assert list(rates) == ["da-trainer compiled", "da-trainer loop"]
    assert all(len(rate["sessions"]) == 2 and rate["lowest"] > 0 for rate in rates.values())
    compiled, loop = result["first_losses"].values()
    assert compiled == loop
    assert len(set(loop)) == 3
    ratio = rates["da-trainer compiled"]["median"] / rates["da-trainer loop"]["median"]
    assert result["ratios"] == {"da-trainer compiled / da-trainer loop": pytest.approx(ratio)}
    assert result["not_measured"] == {}
    facts = result["facts"]["da-trainer compiled"]
    assert facts["compile seconds"] > 0
    assert facts["temporary bytes"] > 0
    assert result["facts"]["da-trainer loop"] == {"compile seconds": 0, "temporary bytes": 0}


def test_what_cannot_be_measured_is_listed_with_its_reason(monkeypatch, tmp_path):
    other = "import sys; sys.path.insert(0, SCRIPTS)\nfrom serve import serve\n"
    other = other.replace("SCRIPTS", repr(str(SCRIPTS)))
    scripts = {
        "breaks": (tmp_path / "breaks.py", "raise RuntimeError('on purpose')"),
        "other": (tmp_path / "other.py", other + "serve(lambda task: lambda epochs: [1.0] * epochs)"),
    }
    monkeypatch.setitem(PEERS, "absent", Peer("peer_torch.py", "eager", ("no_such_module_1", "no_such_module_2")))
    result = run(["absent", "breaks", "other"], monkeypatch, scripts)
    missing = result["not_measured"]
    assert missing["absent"] == "no_such_module_1, no_such_module_2 not installed"
    assert missing["breaks"] == "RuntimeError: on purpose"
    assert missing["other"].startswith("other first losses than ours: [1.0, 1.0, 1.0], ours [")
    assert list(result["steps_per_second"]) == ["da-trainer compiled"]


def test_interpreter_of_a_module(monkeypatch, tmp_path):
    """The peer that needs NumPy runs by the interpreter given for it, which here says where it is."""
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    program = f"import sys; sys.path.insert(0, {str(SCRIPTS)!r})\nraise RuntimeError('by ' + sys.orig_argv[0])"
    (tmp_path / "says.py").write_text(program)
    monkeypatch.setitem(PEERS, "says", Peer(str(tmp_path / "says.py"), "", ("numpy",)))
    monkeypatch.setattr(measure, "_missing", lambda peer, python: [])
    assert (
        run(["says"], monkeypatch, pythons={"numpy": str(link)})["not_measured"]["says"] == f"RuntimeError: by {link}"
    )


def test_every_script_is_a_peer():
    assert {path.name for path in SCRIPTS.glob("peer_*.py")} == {peer.script for peer in PEERS.values()}


@pytest.mark.parametrize("name", TASKS)
def test_task_file_needs_numpy_alone(name, tmp_path):
    task = TASKS[name]
    task.write(tmp_path / "task.npz")
    with np.load(tmp_path / "task.npz", allow_pickle=False) as file:
        weights = {name.removeprefix("weights."): file[name] for name in file.files if name.startswith("weights.")}
        assert bits_equal(weights, task.model().state_dict())
        assert len(file["X"]) == len(file["y"])
        assert file["X"].dtype == np.float32


def test_command_writes_a_file_that_report_shows(monkeypatch, tmp_path):
    monkeypatch.setitem(TASKS, "digits", TINY)
    path = tmp_path / "peers.json"
    arguments = ["peers", "--task", "digits", "--peer", "da-trainer loop", "--sessions", "1", "--epochs", "1"]
    outcome = CliRunner().invoke(main, [*arguments, "--output", str(path)])
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(path.read_text())["measurement"] == "peers"
    assert re.search(r"\| tiny \| backend \| steps/s \| da-trainer compiled / this \| compile s \|", outcome.output)
    outcome = CliRunner().invoke(main, ["report", str(path), "--picture", str(tmp_path / "peers.png")])
    assert outcome.exit_code == 0, outcome.output
    assert (tmp_path / "peers.png").read_bytes().startswith(b"\x89PNG")


def test_bad_interpreter():
    outcome = CliRunner().invoke(main, ["peers", "--python", "torch"])
    assert outcome.exit_code == 1
    assert "--python must be MODULE=PATH, each module once. Received: torch" in outcome.output
