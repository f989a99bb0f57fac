import importlib.util
from pathlib import Path

import pytest


def load(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "packages" / "da-thing"
    (folder / "src" / "da_thing").mkdir(parents=True)
    (folder / "pyproject.toml").touch()
    (folder / "src" / "da_thing" / "__about__.py").write_text('__version__ = "0.1.9"\n')
    (folder / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- New.\n\n## [0.1.9] - 2026-12-02\n\n- Old.\n"
    )
    return folder


@pytest.mark.parametrize(("part", "version"), [("major", "1.0.0"), ("minor", "0.2.0"), ("patch", "0.1.10")])
def test_bump(package, part, version):
    assert load("bump").bump(package, part, "2027-01-01") == version
    assert (package / "src" / "da_thing" / "__about__.py").read_text() == f'__version__ = "{version}"\n'
    assert (package / "CHANGELOG.md").read_text() == (
        f"# Changelog\n\n## [Unreleased]\n\n## [{version}] - 2027-01-01\n\n### Added\n\n- New.\n\n"
        "## [0.1.9] - 2026-12-02\n\n- Old.\n"
    )


def test_bump_of_nothing_changes_nothing(package):
    bump = load("bump").bump
    bump(package, "minor", "2027-01-01")
    before = (package / "CHANGELOG.md").read_text()
    with pytest.raises(SystemExit, match="must say what is new under"):
        bump(package, "minor", "2027-01-01")
    assert (package / "CHANGELOG.md").read_text() == before


def test_check_changelog(package):
    problem, packages = load("check_changelog").problem, package.parent
    assert "top heading must be '## [0.1.9] - " in problem("da-thing", "da-thing-v0.1.9", packages)
    (package / "CHANGELOG.md").write_text("# Changelog\n\n## [0.1.9] - 2026-12-02\n")
    assert problem("da-thing", "da-thing-v0.1.9", packages) is None
    assert "must be da-thing-v0.1.9" in problem("da-thing", "da-thing-v0.2.0", packages)
    assert "Received: da-other" in problem("da-other", "da-other-v0.1.9", packages)


def test_a_row_is_marked_only_where_the_nearest_medians_are_a_quarter_apart():
    compare = load("bench_compare")
    base = {"same": [1.0, 1.1], "slow": [1.0, 1.1], "fast": [1.0, 1.1], "gone": [1.0]}
    change = {"same": [1.37, 1.5], "slow": [1.38, 1.5], "fast": [0.7, 0.79], "new": [2.0]}
    rows = {line.split(" | ")[0].strip("| "): line for line in compare.table(base, change).splitlines()[2:]}
    assert rows["same"] == "| same | 1e+03 to 1.1e+03 | 1.37e+03 to 1.5e+03 | 1.37 |  |"
    assert rows["slow"].endswith("| **slower** |")
    assert rows["fast"].endswith("| faster |")
    assert rows["new"].endswith("| new |")
    assert rows["gone"].endswith("| gone |")
