import sys

import pytest
from click.testing import CliRunner
from da_bench import digits_split, main


@pytest.mark.parametrize(
    ("module", "line"),
    [("sklearn.datasets", 'pip install "da-bench[digits]"'), ("matplotlib", 'pip install "da-bench[plot]"')],
)
def test_the_demo_names_the_line_that_installs_what_is_missing(module, line, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)
    outcome = CliRunner().invoke(main, ["demo", "--no-progress", "--picture", str(tmp_path / "p.png")])
    assert outcome.exit_code == 1
    assert line in outcome.output
    assert "Traceback" not in outcome.output


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"scikit-learn must be installed.*da-bench\[digits\]"):
        digits_split()
