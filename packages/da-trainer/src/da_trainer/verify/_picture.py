"""The picture of a report."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._report import Report


def draw(report: "Report", path: Path) -> Path:
    """Draws both losses, and their relative difference by step, into `path`.

    Raises:
        ImportError: matplotlib is not installed; names the pip line.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError('Pictures need matplotlib: pip install "da-trainer[plot]"') from None
    steps = range(1, len(report.loop_losses) + 1)
    figure = Figure(figsize=(10, 4), layout="constrained")
    losses, differences = figure.subplots(1, 2)
    losses.plot(steps, report.loop_losses, linewidth=4, alpha=0.4, label="loop")
    losses.plot(steps, report.compiled_losses, linewidth=1.2, linestyle="--", color="black", label="compiled")
    losses.set(title="Loss", xlabel="step", ylabel="loss")
    losses.legend()
    differences.plot(steps, report.relative_differences, marker=".", linewidth=1)
    differences.set(title="Relative difference of the loss", xlabel="step")
    if any(report.relative_differences):
        differences.set_yscale("log")
    else:
        differences.set_ylim(-1, 1)
        differences.text(0.5, 0.6, "0 at every step", ha="center", transform=differences.transAxes)
    if report.first_divergence is not None:
        differences.axvline(report.first_divergence.step, color="tab:red", linewidth=1)
    figure.suptitle(report.verdict, fontsize=10)
    figure.savefig(path, dpi=120)
    return path
