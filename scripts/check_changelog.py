"""Fails unless tag, version and top changelog heading agree.

python scripts/check_changelog.py da-trainer da-trainer-v0.2.0
"""

import re
import sys
from pathlib import Path

PACKAGES = Path(__file__).parents[1] / "packages"


def problem(name: str, tag: str, packages: Path = PACKAGES) -> str | None:
    """What is wrong with releasing the package `name` under `tag`, or None."""
    package = packages / name
    if not (package / "pyproject.toml").is_file():
        return f"The package must be one of {sorted(path.name for path in packages.glob('da-*'))}. Received: {name}"
    version = re.search(r'__version__ = "(.+)"', next(package.glob("src/*/__about__.py")).read_text())[1]
    if tag != f"{name}-v{version}":
        return f"The tag must be {name}-v{version}, the version in __about__.py. Received: {tag}"
    headings = re.findall(r"^## (.+)$", (package / "CHANGELOG.md").read_text(), re.MULTILINE)
    if not headings or not re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", headings[0]):
        return f"The changelog's top heading must be '## [{version}] - YYYY-MM-DD'. Received: {headings[:1]}"
    return None


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python scripts/check_changelog.py PACKAGE TAG")
    sys.exit(problem(*sys.argv[1:]))
