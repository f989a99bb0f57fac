"""Who may import whom."""

import ast
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[1] / "packages"
MAY_IMPORT = {
    "da_layers": set(),
    "da_optim": set(),
    "da_trainer": {"da_layers", "da_optim"},
    "da_bench": {"da_layers", "da_optim", "da_trainer"},
}


def imported(package: str) -> set[str]:
    names: set[str] = set()
    for path in (PACKAGES / package.replace("_", "-") / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add((node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_from_those_above_it(package):
    siblings = imported(package) & MAY_IMPORT.keys() - {package}
    assert siblings <= MAY_IMPORT[package]


def test_only_the_fence_touches_jax_internals():
    guilty = [
        path.name
        for path in PACKAGES.glob("*/src/**/*.py")
        if "jax._src" in path.read_text() and path.name != "_fence.py"
    ]
    assert guilty == []
