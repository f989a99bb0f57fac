"""The progress bar."""

from collections.abc import Mapping

from tqdm.auto import tqdm


class Progress:
    """One bar for a fit, moved by steps, with the newest losses behind it.

    Args:
        steps: steps of the whole fit.
        shown: False shows nothing.
    """

    def __init__(self, steps: int, shown: bool) -> None:
        self._bar = tqdm(total=steps, unit="step", disable=not shown, dynamic_ncols=True)

    def step(self, steps: int) -> None:
        """Moves the bar by so many steps."""
        self._bar.update(steps)

    def epoch(self, epoch: int, epochs: int, losses: Mapping[str, float]) -> None:
        """Shows the epoch's number and losses."""
        self._bar.set_description(f"epoch {epoch}/{epochs}", refresh=False)
        self._bar.set_postfix({name: f"{loss:.4g}" for name, loss in losses.items()}, refresh=False)

    def close(self) -> None:
        """Leaves the bar as it stands."""
        self._bar.close()
