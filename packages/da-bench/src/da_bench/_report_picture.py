"""report's picture: bars of steps per second."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._extras import need

COLOURS = {"loop, operation by operation": "#d9d9d9", "loop": "#9ecae1", "compiled": "#1f77b4"}


def draw_report(contents: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Draws one panel for each measurement of a model: a bar a column, its range as a line.

    Args:
        contents: what `read` gave.
        path: where the picture goes, its ending says the format.

    Raises:
        ImportError: matplotlib is not installed.
    """
    panels = [(content, result) for content in contents for result in content["results"]]
    heights = [len(result["steps_per_second"]) + 1.2 for _, result in panels]
    figure = need("matplotlib.figure", "matplotlib", "plot").Figure(
        figsize=(9, 0.5 + 0.42 * sum(heights)), layout="constrained"
    )
    rows = figure.subplots(len(panels), squeeze=False, height_ratios=heights)
    for (axes,), (content, result) in zip(rows, panels, strict=True):
        _draw_panel(axes, result)
        backend = str(content["machine"]["platform"]).upper()
        axes.set_title(f"{result['model']}: {content['measurement']}, {backend}", loc="left", fontsize=10)
    figure.suptitle("Steps per second: median and range over the sessions", fontsize=11)
    figure.savefig(path, dpi=120)
    return path


def _draw_panel(axes: Any, result: Mapping[str, Any]) -> None:
    rates = result["steps_per_second"]
    for place, (column, rate) in enumerate(rates.items()):
        text = f"{rate['median']:.3g}"
        for names, ratio in result["ratios"].items():
            ours, _, other = names.partition(" / ")
            if other == column:
                text += f"   ({ours} is {ratio:.2f}x)"
        axes.barh(place, rate["median"], color=COLOURS.get(column.removeprefix("da-trainer "), "#d9d9d9"), height=0.7)
        axes.plot([rate["lowest"], rate["highest"]], [place, place], color="black", linewidth=1.5)
        axes.annotate(text, (rate["highest"], place), (6, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(rates)), list(rates), fontsize=9)
    axes.set_xlim(0, 1.3 * max(rate["highest"] for rate in rates.values()))
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
