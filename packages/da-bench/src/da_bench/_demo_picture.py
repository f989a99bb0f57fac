"""demo's picture: losses, accuracy and speed of both trainings."""

from pathlib import Path
from typing import Any

from ._demo import LEAST_ACCURACY, Comparison
from ._extras import need

LOOP, COMPILED = "#9ecae1", "#08519c"


def draw_demo(comparison: Comparison, path: Path) -> Path:
    """Draws three panels: training loss and test accuracy by epoch, and steps per second.

    Args:
        comparison: both trainings.
        path: where the picture goes, its ending says the format.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure = need("matplotlib.figure", "matplotlib", "plot").Figure(figsize=(13, 4.4), layout="constrained")
    losses, accuracies, speed = figure.subplots(1, 3)
    loop, compiled = comparison.loop, comparison.compiled
    _curves(losses, loop.losses, compiled.losses)
    losses.set(title=f"Training loss: largest difference {comparison.loss_difference:g}", ylabel="cross-entropy")
    losses.set_yscale("log")
    _curves(accuracies, loop.accuracies, compiled.accuracies)
    accuracies.axhline(LEAST_ACCURACY, color="grey", linewidth=0.8, linestyle=":")
    accuracies.set(title=f"Test accuracy: {compiled.accuracies[-1]:.1%} at the end", ylabel="share named right")
    rates = [loop.steps_per_second, compiled.steps_per_second]
    bars = speed.bar(["loop", "compiled"], rates, width=0.6, color=[LOOP, COMPILED])
    speed.bar_label(bars, fmt="%.0f", padding=2)
    speed.margins(y=0.1)
    speed.set(title=f"Speed: compiled is {rates[1] / rates[0]:.1f}x the loop", ylabel="steps per second")
    for axes in (losses, accuracies, speed):
        axes.spines[["top", "right"]].set_visible(False)
    bits = "the same bits" if comparison.same_bits else "NOT the same bits"
    figure.suptitle(f"Handwritten digits, by the loop and in one compiled step: {bits}", fontsize=14)
    figure.savefig(path, dpi=120)
    return path


def _curves(axes: Any, loop: list[float], compiled: list[float]) -> None:
    """The loop's curve thick, the compiled one's thin and dashed on top: both show where they coincide."""
    epochs = range(1, len(loop) + 1)
    axes.plot(epochs, loop, linewidth=7, color=LOOP, solid_capstyle="round", label="loop")
    axes.plot(epochs, compiled, linewidth=1.6, linestyle=(0, (4, 2)), color=COMPILED, label="compiled")
    axes.set_xlabel("epoch")
    axes.legend()
