"""How many steps one compiled call takes."""

# So long a call may take: the progress bar moves and Ctrl-C is answered between two calls.
_SECONDS = 0.25


class Pace:
    """Chooses the number of steps of the next call from how long the last took.

    Args:
        fixed: steps of each call, or None to choose.
    """

    def __init__(self, fixed: int | None) -> None:
        self.fixed = fixed
        self._steps = 1

    @property
    def steps(self) -> int:
        """Steps that the next call may take."""
        return self.fixed or self._steps

    def took(self, steps: int, seconds: float) -> None:
        """Takes in that a call of so many steps took so long; a first call compiles, and teaches little."""
        self._steps = max(1, int(_SECONDS * steps / max(seconds, 1e-9)))
