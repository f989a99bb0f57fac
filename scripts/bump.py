"""Raises a package's version and dates its changelog: python scripts/bump.py da-trainer minor."""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

PARTS = ("major", "minor", "patch")


def bumped(version: str, part: str) -> str:
    """The next version: `part` raised by one, what follows it 0."""
    numbers = [int(number) for number in version.split(".")]
    place = PARTS.index(part)
    return ".".join(str(n) for n in [*numbers[:place], numbers[place] + 1, *[0] * (len(PARTS) - place - 1)])


def bump(package: Path, part: str) -> str:
    """Writes the new version into __about__.py, and its dated heading under Unreleased; returns the version."""
    about = next(package.glob("src/*/__about__.py"))
    old = re.search(r'"(.+)"', about.read_text()).group(1)
    new = bumped(old, part)
    changelog = package / "CHANGELOG.md"
    text = changelog.read_text()
    if "## [Unreleased]" not in text:
        raise SystemExit(f"{changelog} must have a heading '## [Unreleased]' with what is new.")
    heading = f"## [Unreleased]\n\n## [{new}] - {datetime.now(UTC).date().isoformat()}"
    changelog.write_text(text.replace("## [Unreleased]", heading, 1))
    about.write_text(about.read_text().replace(old, new))
    return new


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in PARTS:
        raise SystemExit(f"usage: python scripts/bump.py PACKAGE {'|'.join(PARTS)}")
    name = sys.argv[1]
    print(f"{name} is now {bump(Path(__file__).parents[1] / 'packages' / name, sys.argv[2])}")
