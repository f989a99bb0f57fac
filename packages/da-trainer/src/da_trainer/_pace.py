"""How many steps one compiled call takes."""

# Steps of all epochs that one call may go through: programs have room for the rates of so many.
_MOST_STEPS = 4096

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

    def epochs(self, steps: int) -> int:
        """Epochs of so many steps that the next call may take; 1 where it may not take a whole one."""
        return min(max(1, self.steps // steps), room(steps) // steps)

    @property
    def steps(self) -> int:
        """Steps that the next call may take."""
        return self.fixed or self._steps

    def took(self, steps: int, seconds: float) -> None:
        """Takes in that a call of so many steps took so long; a first call compiles, and teaches little."""
        self._steps = max(1, int(_SECONDS * steps / max(seconds, 1e-9)))


def room(steps: int) -> int:
    """Steps, in whole epochs of so many, that a program has room for."""
    return max(1, _MOST_STEPS // steps) * steps
