"""Fails unless tag, version and top changelog heading agree: python scripts/check_changelog.py da-trainer-v0.2.0."""

import re
import sys
from pathlib import Path

PACKAGES = Path(__file__).parents[1] / "packages"


def problem(tag: str, packages: Path = PACKAGES) -> str | None:
    """What is wrong with releasing `tag`, or None."""
    match = re.fullmatch(r"(da-\w+)-v(\d+\.\d+\.\d+)", tag)
    if match is None or not (packages / match[1]).is_dir():
        return f"A tag must be PACKAGE-vX.Y.Z. Received: {tag}"
    package, version = packages / match[1], match[2]
    written = re.search(r'"(.+)"', next(package.glob("src/*/__about__.py")).read_text())[1]
    headings = re.findall(r"^## \[(\d[^\]]*)\]", (package / "CHANGELOG.md").read_text(), re.MULTILINE)
    if written != version:
        return f"The version in __about__.py must be the tag's. Received: {written} for {tag}"
    if headings[:1] != [version]:
        return f"The changelog's top heading must be the tag's. Received: {headings[:1]} for {tag}"
    return None


if __name__ == "__main__":
    raise SystemExit(problem(sys.argv[1]))
