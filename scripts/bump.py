"""Raises a package's version, and puts a dated heading over what its changelog has under Unreleased.

python scripts/bump.py da-trainer minor
"""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

PACKAGES = Path(__file__).parents[1] / "packages"
PARTS = ("major", "minor", "patch")
UNRELEASED = "## [Unreleased]"


def bumped(version: str, part: str) -> str:
    """The next version: `part` raised by one, what follows it 0."""
    numbers = [int(number) for number in version.split(".")]
    place = PARTS.index(part)
    return ".".join(str(n) for n in [*numbers[:place], numbers[place] + 1, *[0] * (len(PARTS) - place - 1)])


def bump(package: Path, part: str, today: str) -> str:
    """Edits __about__.py and CHANGELOG.md, both or neither; returns the new version."""
    about, changelog = next(package.glob("src/*/__about__.py")), package / "CHANGELOG.md"
    old = re.search(r'__version__ = "(.+)"', about.read_text())[1]
    new = bumped(old, part)
    before, heading, after = changelog.read_text().partition(f"{UNRELEASED}\n")
    if not heading or not after.partition("\n## [")[0].strip():
        sys.exit(f"{changelog} must say what is new under '{UNRELEASED}'.")
    changelog.write_text(f"{before}{heading}\n## [{new}] - {today}\n{after}")
    about.write_text(about.read_text().replace(f'"{old}"', f'"{new}"'))
    return new


if __name__ == "__main__":
    names = sorted(path.name for path in PACKAGES.glob("da-*"))
    if len(sys.argv) != 3 or sys.argv[1] not in names or sys.argv[2] not in PARTS:
        sys.exit(f"usage: python scripts/bump.py {'|'.join(names)} {'|'.join(PARTS)}")
    print(f"{sys.argv[1]} {bump(PACKAGES / sys.argv[1], sys.argv[2], datetime.now(UTC).date().isoformat())}")
