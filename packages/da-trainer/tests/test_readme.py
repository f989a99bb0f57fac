"""Every Python block of the README runs as it stands."""

import re
from pathlib import Path

import pytest

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs(block):
    exec(compile(block, "README.md", "exec"), {})


def test_there_are_blocks():
    assert len(BLOCKS) >= 2
