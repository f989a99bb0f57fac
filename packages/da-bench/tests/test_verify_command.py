"""da-bench verify: the report of a user's own function, and the exit code."""

import json
import textwrap

import pytest
from click.testing import CliRunner
from da_bench import main

SOURCE = """
    import jax
    from da_layers import MSE, Dense, Sequential, mlp
    from da_optim import SGD
    from da_trainer import Trainer

    class Faulty(Dense):
        def backward(self, g):
            return super().backward(g * 1.001 if isinstance(g, jax.core.Tracer) else g)

    X = jax.random.normal(jax.random.key(1), (12, 4))

    def right():
        return Trainer(mlp([4, 4], jax.random.key(0)), MSE(), SGD(0.1)), X, X

    def wrong():
        return Trainer(Sequential(Dense(4, 4, 0), Faulty(4, 4, 1)), MSE(), SGD(0.1)), X, X
"""


@pytest.fixture
def verify(tmp_path, monkeypatch, request):
    # A name of its own for each test: Python keeps imported modules.
    module = f"users_{request.node.name.partition('[')[0]}"
    (tmp_path / f"{module}.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.chdir(tmp_path)

    def run(function, *options, module=module):
        return CliRunner().invoke(
            main, ["verify", f"{module}:{function}", "--steps", "3", "--batch-size", "4", *options]
        )

    return run


def test_same_bits_exit_with_0_and_leave_files(verify, tmp_path):
    outcome = verify("right", "--output", "report.json", "--picture", "report.png")
    assert outcome.exit_code == 0, outcome.output
    assert "the same bits in all 3 steps" in outcome.output
    assert json.loads((tmp_path / "report.json").read_text())["ok"]
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


def test_folder_that_is_not_there_is_said_first(verify):
    outcome = verify("right", "--output", "nowhere/report.json")
    assert outcome.exit_code == 1
    assert "must go into a folder that is there. Received: nowhere" in outcome.output
    assert "steps" not in outcome.output


def test_other_bits_exit_with_1_and_name_the_layer(verify):
    outcome = verify("wrong")
    assert outcome.exit_code == 1
    assert "layers.1 (Faulty), backward" in outcome.output


@pytest.mark.parametrize(
    ("function", "module", "message"),
    [
        ("right", "no_such_module", "must be in a module that Python finds"),
        ("missing", "math", "must name a function of math"),
        ("", "math", "must be module:function"),
        ("getpid", "os", "must return (trainer, X, y), the first a da_trainer.Trainer. Received: "),
    ],
)
def test_bad_name(verify, function, module, message):
    outcome = verify(function, module=module)
    assert outcome.exit_code == 1
    assert message in outcome.output
