"""The three claims of compiled-step: what they say, and whether the figures bear them out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ._compiled_step import LOSS_STEPS

Verdict = Literal["holds", "does not hold", "not measured"]
TOLERANCE, ON_GPU, ON_CPU = 1e-4, 3.0, 1.5


@dataclass(frozen=True)
class Claim:
    """A claim about all models.

    Attributes:
        text: what is claimed.
        verdicts: by model.
        figures: by model, what was measured.
    """

    text: str
    verdicts: Mapping[str, Verdict]
    figures: Mapping[str, str]

    @property
    def verdict(self) -> Verdict:
        """The worst of the models': one that does not hold, then one not measured."""
        for verdict in ("does not hold", "not measured"):
            if verdict in self.verdicts.values():
                return verdict
        return "holds" if self.verdicts else "not measured"

    def __str__(self) -> str:
        if not self.figures:
            return f"{self.text}: {self.verdict}"
        mixed = len(set(self.verdicts.values())) > 1
        details = [
            f"{model}: {figure}{f', {self.verdicts[model]}' if mixed else ''}" for model, figure in self.figures.items()
        ]
        return f"{self.text}: {self.verdict} ({'; '.join(details)})"


def claims(results: Sequence[Mapping[str, Any]], platform: str) -> list[Claim]:
    """Judges the results of `compiled_step` on one platform.

    Args:
        results: one for each model.
        platform: "cpu", "gpu" or other; what belongs to another platform is not measured.

    Example:
        >>> from da_bench import claims
        >>> print(claims([], "cpu")[1])
        On a GPU the compiled step is at least 3.0x the loop: not measured
    """
    return [
        Claim(
            f"The loss of the compiled step is within {TOLERANCE:g} of the loop at steps {_listed(LOSS_STEPS)}",
            {result["model"]: _loss_verdict(result["comparison"]) for result in results},
            {result["model"]: _loss_figure(result["comparison"]) for result in results},
        ),
        _faster(
            f"On a GPU the compiled step is at least {ON_GPU}x the loop", results, platform == "gpu", "loop", ON_GPU
        ),
        _faster(
            f"On a CPU the compiled step is at least {ON_CPU}x the loop operation by operation",
            results,
            platform == "cpu",
            "loop, operation by operation",
            ON_CPU,
        ),
    ]


def _loss_verdict(comparison: Mapping[str, Any]) -> Verdict:
    differences = comparison["relative_difference"]
    if not all(difference <= TOLERANCE for difference in differences.values()):
        return "does not hold"
    return "holds" if {str(step) for step in LOSS_STEPS} <= differences.keys() else "not measured"


def _loss_figure(comparison: Mapping[str, Any]) -> str:
    differences = comparison["relative_difference"]
    figures = _listed([f"{difference:.3g}" for difference in differences.values()])
    same = all(comparison["same_bits"].values())
    bits = (
        f"all {comparison['steps']} losses and the final parameters have {'the same' if same else 'NOT the same'} bits"
    )
    return f"difference {figures} at steps {_listed([*differences])}; {bits}"


def _faster(text: str, results: Sequence[Mapping[str, Any]], here: bool, than: str, least: float) -> Claim:
    if not here:
        return Claim(text, {}, {})
    verdicts: dict[str, Verdict] = {}
    figures = {}
    for result in results:
        ratio = result["ratios"][f"compiled / {than}"]
        verdicts[result["model"]] = "holds" if ratio >= least else "does not hold"
        figures[result["model"]] = f"{ratio:.2f}x"
        if than != "loop":
            figures[result["model"]] += f", and {result['ratios']['compiled / loop']:.2f}x the loop as it is"
    return Claim(text, verdicts, figures)


def _listed(items: Sequence[Any]) -> str:
    *most, last = [str(item) for item in items] or ["none"]
    return f"{', '.join(most)} and {last}" if most else last
