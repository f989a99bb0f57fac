"""report: Markdown tables from the JSON files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._compiled_step import LOSS_STEPS
from ._fit_speed import BAR, CALLS, COMPILED, LOOP

STEP, FIT, PEERS = "compiled step", "fit", "peers"
OPERATIONS = "loop, operation by operation"

Content = Mapping[str, Any]


def read(path: Path) -> Content:
    """The contents of a results file.

    Raises:
        ValueError: the file is not one that da-bench wrote.
    """
    try:
        content = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"A results file must be JSON. Received: {path}, {error}") from None
    if not isinstance(content, dict) or not {"measurement", "machine", "results"} <= content.keys():
        raise ValueError(f"A results file must hold measurement, machine and results. Received: {path}")
    return content


def markdown(contents: Sequence[Content]) -> str:
    """Tables of the steps, the losses and the fits, as far as there are any, the machines and the claims.

    Args:
        contents: what `read` gave, in the order the rows shall have.
    """
    steps = [content for content in contents if content["measurement"] == STEP]
    fits = [content for content in contents if content["measurement"] == FIT]
    parts = []
    if steps:
        parts += [_steps_table(steps), _losses_table(steps)]
    if fits:
        parts.append(_fits_table(fits))
    for content, result in _results([content for content in contents if content["measurement"] == PEERS]):
        parts.append(_peers_table(content, result))
    parts.append("\n".join(dict.fromkeys(f"* {content['measurement']}: {_machine(content)}" for content in contents)))
    for content in steps:
        claims = [f"{number}. {claim['line']}" for number, claim in enumerate(content["claims"], 1)]
        parts.append(f"Claims, {_backend(content)}:\n\n" + "\n".join(claims))
    return "\n\n".join(parts)


def _steps_table(contents: Sequence[Content]) -> str:
    return _table(
        [
            "model",
            "backend",
            "op by op, steps/s",
            "loop, steps/s",
            "compiled, steps/s",
            "compiled / op by op",
            "compiled / loop",
            "compile s",
        ],
        [
            [result["model"], _backend(content)]
            + [_rate(result["steps_per_second"][column]) for column in (OPERATIONS, "loop", "compiled")]
            + [f"{result['ratios'][f'compiled / {column}']:.2f}x" for column in (OPERATIONS, "loop")]
            + [f"{result['compile_seconds']:.2f}"]
            for content, result in _results(contents)
        ],
    )


def _losses_table(contents: Sequence[Content]) -> str:
    rows = []
    for content, result in _results(contents):
        comparison = result["comparison"]
        differences = comparison["relative_difference"]
        row = [f"{differences[str(step)]:.3g}" if str(step) in differences else "not run" for step in LOSS_STEPS]
        same = all(comparison["same_bits"].values())
        bits = f"{'the same' if same else 'NOT the same'} bits after {comparison['steps']} steps"
        rows.append([result["model"], _backend(content), *row, bits])
    heads = [f"loss difference, step {step}" for step in LOSS_STEPS]
    return _table(["model", "backend", *heads, "losses and parameters"], rows)


def _fits_table(contents: Sequence[Content]) -> str:
    return _table(
        [
            *("model", "backend", "fit by the loop, steps/s", "fit compiled, steps/s", "compiled / loop"),
            *("compiled / its calls alone", "with a progress bar / without", "compile s"),
        ],
        [
            [result["model"], _backend(content)]
            + [_rate(result["steps_per_second"][column]) for column in (LOOP, COMPILED)]
            + [f"{result['ratios'][f'{COMPILED} / {LOOP}']:.2f}x", f"{result['ratios'][f'{COMPILED} / {CALLS}']:.3f}"]
            + [f"{1 / result['ratios'][f'{COMPILED} / {BAR}']:.3f}", f"{result['compile_seconds']:.2f}"]
            for content, result in _results(contents)
        ],
    )


def _peers_table(content: Content, result: Mapping[str, Any]) -> str:
    rates = result["steps_per_second"]
    ours = next(iter(rates))
    rows = []
    for name, rate in rates.items():
        facts = result["facts"].get(name, {})
        ratio = f"{result['ratios'][f'{ours} / {name}']:.2f}x" if name != ours else "1"
        seconds = f"{facts['compile seconds']:.2f}" if "compile seconds" in facts else ""
        memory = f"{facts['temporary bytes'] / 2**20:.3g}" if "temporary bytes" in facts else ""
        rows.append([name, _backend(content), _rate(rate), ratio, seconds, memory])
    for name, why in result["not_measured"].items():
        rows.append([name, _backend(content), f"not measured: {why}", "", "", ""])
    return _table([result["model"], "backend", "steps/s", f"{ours} / this", "compile s", "temporary MiB"], rows)


def _results(contents: Sequence[Content]) -> Iterator[tuple[Content, Mapping[str, Any]]]:
    return ((content, result) for content in contents for result in content["results"])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rate(rate: Mapping[str, Any]) -> str:
    return f"{_number(rate['median'])} ({_number(rate['lowest'])} to {_number(rate['highest'])})"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def _backend(content: Content) -> str:
    return str(content["machine"]["platform"]).upper()


def _machine(content: Content) -> str:
    facts = content["machine"]
    device = "" if facts["platform"] == "cpu" else f"{facts['device']}, "
    return (
        f"{device}{facts['processor']}, {facts['cores']} cores, jax {facts['jax']}, Python {facts['python']}, "
        f"{facts['date']}; median of {content['results'][0]['sessions']} sessions, range in brackets"
    )
