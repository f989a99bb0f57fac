"""How many blocks a model may have."""

from typing import Any


def check_blocks(blocks: Any) -> None:
    """Raises a ValueError unless `blocks` is an integer of 1 or more."""
    if not isinstance(blocks, int) or blocks < 1:
        raise ValueError(f"blocks must be an integer of 1 or more. Received: blocks={blocks!r}")
