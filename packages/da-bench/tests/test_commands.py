import json
import re

import jax
import pytest
from click.testing import CliRunner
from da_bench import main

MACHINE = {"jax", "jaxlib", "python", "processor", "cores", "platform", "device", "date"}


def run(*arguments, code=0):
    outcome = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert outcome.exit_code == code, outcome.output
    return outcome.output


@pytest.fixture
def step_file(tiny_plans, tmp_path):
    path = tmp_path / "compiled_step_cpu.json"
    run("compiled-step", "--sessions", 2, "--steps", 3, "--operation-steps", 1, "--loss-steps", 10, "--output", path)
    return path


def check_rate(rate, sessions):
    assert rate.keys() == {"median", "lowest", "highest", "sessions"}
    assert len(rate["sessions"]) == sessions
    assert 0 < rate["lowest"] <= rate["median"] <= rate["highest"]


def test_compiled_step_file(step_file):
    content = json.loads(step_file.read_text())
    assert content.keys() == {"measurement", "machine", "columns", "results", "claims"}
    assert content["machine"].keys() == MACHINE
    assert content["machine"]["jax"] == jax.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", content["machine"]["date"])
    assert [claim["verdict"] for claim in content["claims"]][:2] == ["not measured", "not measured"]
    for result in content["results"]:
        assert result["steps_a_session"] == {"loop, operation by operation": 1, "loop": 3, "compiled": 3}
        assert list(result["steps_per_second"]) == list(content["columns"])
        for rate in result["steps_per_second"].values():
            check_rate(rate, 2)
        rates = result["steps_per_second"]
        ratio = rates["compiled"]["median"] / rates["loop"]["median"]
        assert result["ratios"]["compiled / loop"] == pytest.approx(ratio)
        assert result["compile_seconds"] > 0
        comparison = result["comparison"]
        assert comparison["relative_difference"] == {"1": 0, "10": 0}
        assert comparison["loss_loop"] == comparison["loss_compiled"]
        assert comparison["loss_loop"]["10"] < comparison["loss_loop"]["1"]
        assert comparison["same_bits"] == {"losses": True, "parameters": True}
        assert comparison["parameters_that_differ"] == {}


def test_compiled_step_does_fewer_steps_of_the_transformer_operation_by_operation(tiny_plans, tmp_path):
    path = tmp_path / "out.json"
    output = run("compiled-step", "--model", "transformer", "--steps", 5, "--loss-steps", 200, "--output", path)
    content = json.loads(path.read_text())
    assert content["results"][0]["steps_a_session"]["loop, operation by operation"] == 3
    assert content["claims"][0]["verdict"] == "holds"
    assert "1. The loss of the compiled step is within 0.0001" in output
    assert "at steps 1, 10, 50 and 200: holds (transformer 1x8, seq 4, batch 4:" in output


def test_fit_speed_file(tiny_plans, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = run("fit-speed", "--sessions", 1)
    content = json.loads((tmp_path / f"compiled_fit_speed_{jax.devices()[0].platform}.json").read_text())
    assert content.keys() == {"measurement", "machine", "results"}
    assert [result["steps_an_epoch"] for result in content["results"]] == [20, 1, 5]
    for result in content["results"]:
        columns = ["loop", "compiled", "compiled, with a progress bar", "the compiled calls alone"]
        assert list(result["steps_per_second"]) == columns
        check_rate(result["steps_per_second"]["compiled"], 1)
        assert result["model"] in output


@pytest.mark.skipif(jax.devices()[0].platform != "cpu", reason="a GPU may write this file")
def test_a_gpu_file_is_refused_on_a_cpu(tiny_plans, tmp_path):
    path = tmp_path / "compiled_step_gpu.json"
    output = run("compiled-step", "--output", path, code=1)
    assert "A file for gpu figures must be written on a gpu; this is a cpu." in output
    assert not path.exists()


def test_report_of_measured_files(step_file, tiny_plans, tmp_path):
    fits = tmp_path / "fits.json"
    run("fit-speed", "--model", "mlp", "--sessions", 1, "--output", fits)
    output = run("report", step_file, fits, "--picture", tmp_path / "report.png")
    assert (tmp_path / "report.png").stat().st_size > 1000
    assert "| mlp 2x8, batch 4 | CPU | 0 | 0 | not run | not run | the same bits after 10 steps |" in output
    assert "fit compiled, steps/s" in output
    assert "3. On a CPU the compiled step is at least 1.5x the loop operation by operation:" in output


def test_report_refuses_other_files(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.json").write_text("no json")
    assert "must hold measurement, machine and results. Received:" in run("report", tmp_path / "a.json", code=1)
    assert "must be JSON. Received:" in run("report", tmp_path / "b.json", code=1)
    assert "does not exist" in run("report", tmp_path / "c.json", code=2)
