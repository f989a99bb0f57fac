"""The maintainers' scripts."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path):
    source = tmp_path / "da-thing" / "src" / "da_thing"
    source.mkdir(parents=True)
    (source / "__about__.py").write_text('__version__ = "0.1.2"\n')
    (tmp_path / "da-thing" / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n\n## [0.1.2] - 2026-01-01\n"
    )
    return tmp_path / "da-thing"


@pytest.mark.parametrize(("part", "version"), [("major", "1.0.0"), ("minor", "0.2.0"), ("patch", "0.1.3")])
def test_bump_and_check(package, part, version):
    assert script("bump").bump(package, part) == version
    assert f'"{version}"' in (package / "src" / "da_thing" / "__about__.py").read_text()
    assert f"## [Unreleased]\n\n## [{version}] - " in (package / "CHANGELOG.md").read_text()
    problem = script("check_changelog").problem
    assert problem(f"da-thing-v{version}", package.parent) is None
    assert "version in __about__.py must be the tag's" in problem("da-thing-v0.1.2", package.parent)
    assert "A tag must be PACKAGE-vX.Y.Z" in problem("da-other-v0.1.2", package.parent)


@pytest.mark.parametrize("name", ["da-layers", "da-optim", "da-trainer", "da-bench"])
def test_the_versions_of_today_could_be_released(name):
    about = next((ROOT / "packages" / name).glob("src/*/__about__.py")).read_text()
    version = about.split('"')[1]
    assert script("check_changelog").problem(f"{name}-v{version}") is None


def test_comparison_marks_only_what_is_clearly_slower():
    table = script("bench_compare").table
    rows = table({"a": [1.0, 1.1], "b": [1.0, 1.1]}, {"a": [1.5, 1.4], "b": [1.2, 1.0], "c": [1.0]}).splitlines()
    assert rows[2].endswith("| 1.40 | slower |")
    assert rows[3].endswith("| 1.00 |  |")
    assert rows[4] == "| c | | new | | |"


def test_gpu_script_fails_without_a_gpu_and_writes_nothing():
    before = sorted((ROOT / "benchmarks").iterdir())
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "gpu.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "A GPU is required; jax found cpu" in done.stderr
    assert sorted((ROOT / "benchmarks").iterdir()) == before
