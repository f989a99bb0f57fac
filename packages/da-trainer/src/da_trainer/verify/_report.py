"""What `Trainer.verify` found."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

SHOWN_STEPS = (1, 10, 50, 200)
SHOWN_VALUES = 10


@dataclass(frozen=True)
class ValueComparison:
    """One array after the last step.

    Attributes:
        path: path of the Variable; of an optimiser's slot behind a colon its name, as in `layers.0.weight:velocity`.
        kind: "Param", "Buffer", "Key" or "slot".
        same_bits: whether both executors have the same bytes.
        ulps: largest difference in units in the last place; None for random keys and integers that differ.
    """

    path: str
    kind: str
    same_bits: bool
    ulps: int | None


@dataclass(frozen=True)
class Divergence:
    """The first place where the two executors part.

    Attributes:
        step: number of the step, from 1.
        path: path of the layer, or of the Param for "clip", "decay" and "update"; "" for the model itself, "loss" for
            the loss.
        kind: the class of what is there.
        direction: "forward", "backward", "clip", "decay", "update" or "skip".
        value: what differs first there: "output", "gradient of layers.0.weight", or the path of a Variable or slot.
        operation: the operation that gave other bits; None where one by one they agree.
        line: file and line that called it.
        ulps: largest difference of the value in units in the last place; None where it is not of a float dtype.
    """

    step: int
    path: str
    kind: str
    direction: str
    value: str
    operation: str | None
    line: str | None
    ulps: int | None

    def __str__(self) -> str:
        where = f"{self.path} ({self.kind})" if self.path else self.kind
        operation = f", at {self.operation} in {self.line}" if self.operation else ""
        amount = "" if self.ulps is None else f", by up to {self.ulps:,} units in the last place"
        return f"step {self.step}, {where}, {self.direction}: {self.value or 'its values'}{amount}{operation}"


@dataclass(frozen=True)
class Referee:
    """What float64 says of the value at the first divergence.

    Attributes:
        nearer: "loop", "compiled" or "neither"; None where there is no verdict.
        loop_error: largest error of the loop's value, relative to the largest entry of the true one.
        compiled_error: the same of the compiled value.
        note: why there is no verdict, where there is none.
    """

    nearer: str | None
    loop_error: float | None
    compiled_error: float | None
    note: str = ""

    def __str__(self) -> str:
        if self.nearer is None:
            return self.note
        return (
            f"{self.nearer} is nearer to float64: relative error {self.loop_error:.2e} in the loop, "
            f"{self.compiled_error:.2e} compiled"
        )


@dataclass(frozen=True)
class Report:
    """Both executors side by side; prints as a table.

    Attributes:
        mode: "exact" or "fused".
        loop_losses: loss of each step in the loop.
        compiled_losses: loss of each step compiled.
        values: every Param, Buffer, Key and slot after the last step.
        first_divergence: None where there is none.
        referee: None where there is no divergence, or where the step cannot be compiled.
        refusal: why the step cannot be compiled; "" where it can. Losses and values then end before that step.
    """

    mode: str
    loop_losses: list[float]
    compiled_losses: list[float]
    values: list[ValueComparison]
    first_divergence: Divergence | None = None
    referee: Referee | None = None
    refusal: str = ""

    @property
    def ok(self) -> bool:
        """Whether the step compiles, and every loss and value has the same bits."""
        same_losses = np.array_equal(np.array(self.loop_losses), np.array(self.compiled_losses), equal_nan=True)
        same_values = same_losses and all(value.same_bits for value in self.values)
        return same_values and self.first_divergence is None and not self.refusal

    @property
    def verdict(self) -> str:
        """One line: the same bits, or what is not the same."""
        if self.ok:
            return f"the same bits in all {len(self.loop_losses)} steps"
        if self.first_divergence is None:
            return "the step cannot be compiled"
        return f"the bits differ from {self.first_divergence}"

    @property
    def relative_differences(self) -> list[float]:
        """|compiled - loop| / |loop| of the loss at each step."""
        return [
            0.0 if a == b or (a != a and b != b) else abs(b - a) / (abs(a) or 1.0)
            for a, b in zip(self.loop_losses, self.compiled_losses, strict=True)
        ]

    @property
    def steps_to_tenfold(self) -> float | None:
        """Steps in which the loss difference grows tenfold, by a line through its logarithm; None if it does not."""
        points = [
            (step, math.log10(difference))
            for step, difference in enumerate(self.relative_differences, 1)
            if 0 < difference < math.inf
        ]
        if len(points) < 2:
            return None
        steps, logarithms = np.array(points).T
        slope = float(np.polyfit(steps, logarithms, 1)[0])
        return 1 / slope if slope > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists, dicts, numbers and strings."""
        return asdict(self) | {
            "ok": self.ok,
            "verdict": self.verdict,
            "relative_differences": self.relative_differences,
            "steps_to_tenfold": self.steps_to_tenfold,
        }

    def save_picture(self, path: str | Path) -> Path:
        """Draws both losses, and their relative difference by step, into an image file.

        Args:
            path: where to; the ending decides the format.

        Returns:
            The path.

        Raises:
            ImportError: matplotlib is not installed.
        """
        from ._picture import draw

        return draw(self, Path(path))

    def __str__(self) -> str:
        return "\n".join([f"loop and compile={self.mode!r}: {self.verdict}", *self._lines()])

    def _lines(self) -> list[str]:
        steps = len(self.loop_losses)
        lines = [f"  {'step':>6}  {'loop':>14}  {'compiled':>14}  {'difference':>10}"] if steps else []
        for step in dict.fromkeys(step for step in (*SHOWN_STEPS, steps) if 0 < step <= steps):
            a, b = self.loop_losses[step - 1], self.compiled_losses[step - 1]
            lines.append(f"  {step:>6}  {a:>14.9g}  {b:>14.9g}  {self.relative_differences[step - 1]:>10.3g}")
        different = [value for value in self.values if not value.same_bits]
        lines.append(f"after step {steps}: {len(self.values) - len(different)} of {len(self.values)} arrays the same")
        lines += [
            f"  {value.path} ({value.kind}): "
            + ("differs" if value.ulps is None else f"up to {value.ulps:,} units in the last place")
            for value in different[:SHOWN_VALUES]
        ]
        if len(different) > SHOWN_VALUES:
            lines.append(f"  and {len(different) - SHOWN_VALUES} more, in .values")
        if self.first_divergence is not None:
            lines.append(f"first divergence: {self.first_divergence}")
        if self.referee is not None:
            lines.append(f"referee: {self.referee}")
        if self.steps_to_tenfold is not None:
            lines.append(f"growth: the difference of the loss grows tenfold in {self.steps_to_tenfold:.1f} steps")
        if self.refusal:
            lines.append(f"cannot be compiled: {self.refusal}")
        return lines
