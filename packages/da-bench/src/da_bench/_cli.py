"""The da-bench command."""

import json
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
from da_trainer import Trainer
from tqdm.auto import tqdm

from ._claims import claims
from ._compiled_step import COLUMNS, compiled_step
from ._demo import run_demo
from ._demo_picture import draw_demo
from ._extras import need
from ._fit_speed import fit_speed
from ._load_function import load_function
from ._machine import check_file_name, file_name, machine
from ._report import FIT, STEP, markdown, read
from ._report import PEERS as PEERS_MEASUREMENT
from ._report_picture import draw_report
from ._workloads import Workload, digits, normal_mlp, transformer
from .drawn import exhaustive
from .peers import PEERS, TASKS, measure_peers


class Plan(NamedTuple):
    """How a model is measured where no option says otherwise.

    Attributes:
        make: makes the workload.
        operation_steps: steps a session operation by operation, at most; on a CPU one may take seconds.
        epochs: epochs of fit a session.
        repeat: how often one of them goes over the data.
    """

    make: Callable[[], Workload]
    operation_steps: int
    epochs: int
    repeat: int


PLANS = {
    "mlp": Plan(normal_mlp, operation_steps=20, epochs=2, repeat=20),
    "digits": Plan(digits, operation_steps=20, epochs=200, repeat=1),
    "transformer": Plan(transformer, operation_steps=3, epochs=1, repeat=5),
}
COUNT = click.IntRange(min=1)
FILE = click.Path(dir_okay=False, path_type=Path)


def _models[F: Callable[..., Any]](*names: str) -> Callable[[F], F]:
    """The option --model, which may be given more than once."""
    choice = click.Choice([*names, "all"])
    return click.option("--model", type=choice, multiple=True, default=["all"], help="What to train; may be repeated.")


def _several(name: str, choices: Collection[str], text: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", type=click.Choice(list(choices)), multiple=True, default=list(choices), help=text)


class _Group(click.Group):
    """Shows what a user can mend, such as a missing extra, as one line."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (ImportError, ValueError) as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Group, context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="da-bench")
def main() -> None:
    """Measures da-trainer: the loop against the compiled step."""


@main.command("compiled-step")
@_models("mlp", "transformer")
@click.option("--sessions", type=COUNT, default=3, help="Rounds of the three columns in turn.")
@click.option("--steps", type=COUNT, default=20, help="Steps a session.")
@click.option(
    "--operation-steps", type=COUNT, help="Steps a session operation by operation.  [default: --steps, transformer 3]"
)
@click.option("--loss-steps", type=COUNT, default=200, help="Steps of the comparison of losses.")
@click.option("--output", type=FILE, help="JSON file.  [default: compiled_step_cpu.json, on a GPU _gpu]")
def compiled_step_command(
    model: tuple[str, ...], sessions: int, steps: int, operation_steps: int | None, loss_steps: int, output: Path | None
) -> None:
    """Times the loop operation by operation, the loop, and the compiled step; compares their losses."""
    output = _checked(output, "compiled_step")
    results = []
    for name in ("mlp", "transformer") if "all" in model else model:
        plan = PLANS[name]
        workload = plan.make()
        click.echo(f"{workload.name} ...", err=True)
        single = operation_steps or min(steps, plan.operation_steps)
        results.append(compiled_step(workload, sessions, steps, single, loss_steps))
    facts = machine()
    judged = [
        {"claim": claim.text, "verdict": claim.verdict, "line": str(claim)}
        for claim in claims(results, facts["platform"])
    ]
    _finish({"measurement": STEP, "machine": facts, "columns": COLUMNS, "results": results, "claims": judged}, output)


@main.command("fit-speed")
@_models(*PLANS)
@click.option("--sessions", type=COUNT, default=3, help="Rounds of both executors in turn.")
@click.option("--epochs", type=COUNT, help="Epochs a session.  [default: mlp 2, digits 200, transformer 1]")
@click.option("--output", type=FILE, help="JSON file.  [default: compiled_fit_speed_cpu.json, on a GPU _gpu]")
def fit_speed_command(model: tuple[str, ...], sessions: int, epochs: int | None, output: Path | None) -> None:
    """Times Trainer.fit by the loop and compiled, after one warm-up epoch."""
    output = _checked(output, "compiled_fit_speed")
    results = []
    for name in PLANS if "all" in model else model:
        plan = PLANS[name]
        workload = plan.make()
        click.echo(f"{workload.name} ...", err=True)
        results.append(fit_speed(workload, sessions, epochs or plan.epochs, plan.repeat))
    _finish({"measurement": FIT, "machine": machine(), "results": results}, output)


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--picture", type=FILE, help="Image file to draw, such as report.png.")
def report(files: tuple[Path, ...], picture: Path | None) -> None:
    """Prints Markdown tables of the JSON FILES."""
    contents = [read(path) for path in files]
    click.echo(markdown(contents))
    if picture is not None:
        click.echo(f"\npicture: {draw_report(contents, picture).resolve()}")


@main.command("peers")
@_several("task", TASKS, "What to train; may be repeated.")
@_several("peer", PEERS, "What to run beside ours; may be repeated.")
@click.option("--sessions", type=COUNT, default=5, help="Turns of each, A B C A B C ...")
@click.option("--epochs", type=COUNT, help="Epochs a turn.  [default: each task's own]")
@click.option(
    "--python", "pythons", multiple=True, metavar="MODULE=PATH", help="Interpreter of peers that need MODULE."
)
@click.option("--output", type=FILE, help="JSON file.  [default: peers_cpu.json, on a GPU _gpu]")
def peers_command(
    task: tuple[str, ...],
    peer: tuple[str, ...],
    sessions: int,
    epochs: int | None,
    pythons: tuple[str, ...],
    output: Path | None,
) -> None:
    """Trains the same task with other libraries, in turn with ours, each in a process of its own."""
    output = _checked(output, "peers")
    interpreters = dict(pair.split("=", 1) for pair in pythons if "=" in pair)
    if len(interpreters) != len(pythons):
        raise ValueError(f"--python must be MODULE=PATH, each module once. Received: {', '.join(pythons)}")
    tell = partial(click.echo, err=True)
    results = [
        measure_peers(TASKS[name], peer, sessions, epochs or TASKS[name].epochs, interpreters, tell)
        for name in dict.fromkeys(task)
    ]
    _finish({"measurement": PEERS_MEASUREMENT, "machine": machine(), "results": results}, output)


@main.command("exhaustive")
@click.argument("count", type=COUNT)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the first training; each has its own.")
@click.option("--jobs", type=COUNT, default=1, help="Processes that share the work.")
@click.option("--output", type=FILE, help="JSON file to write.")
def exhaustive_command(count: int, seed: int, jobs: int, output: Path | None) -> None:
    """Draws COUNT small trainings and compares the two executors on each; exits with 1 where one differs."""
    with tqdm(total=count, unit="training") as bar:
        found = exhaustive(count, seed, bar.update, jobs)
    click.echo(f"{count} drawn trainings, seeds {seed} to {seed + count - 1}: {found['differ']} differ")
    for differing in found["differing"]:
        click.echo(f"  {differing['training']}\n    {differing['found']}")
    if output is not None:
        click.echo(_write({"machine": machine(), **found}, output))
    if found["differ"]:
        raise SystemExit(1)


@main.command("verify")
@click.argument("function", metavar="MODULE:FUNCTION")
@click.option("--batch-size", type=COUNT, default=32, help="Samples in a batch.")
@click.option("--steps", type=COUNT, default=200, help="Steps to compare.")
@click.option("--output", type=FILE, help="JSON file to write.")
@click.option("--picture", type=FILE, help="Image file to draw, such as verify.png.")
def verify_command(function: str, batch_size: int, steps: int, output: Path | None, picture: Path | None) -> None:
    """Proves on your own model that both executors give the same bits; exits with 1 where they do not.

    FUNCTION takes nothing and returns (trainer, X, y). MODULE is looked for in the working folder first.
    """
    for path in (output, picture):
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(f"Files must go into a folder that is there. Received: {path}")
    made = load_function(function)()
    if not (isinstance(made, tuple) and len(made) == 3 and isinstance(made[0], Trainer)):
        raise ValueError(
            f"FUNCTION must return (trainer, X, y), the first a da_trainer.Trainer. Received: {made!r:.200}"
        )
    trainer, X, y = made
    report = trainer.verify(X, y, batch_size, steps)
    click.echo(report)
    if output is not None:
        click.echo(_write(report.to_dict(), output, allow_nan=True))
    if picture is not None:
        click.echo(f"picture: {report.save_picture(picture).resolve()}")
    if not report.ok:
        raise SystemExit(1)


@main.command()
@click.option("--epochs", type=click.IntRange(min=2), default=30, help="Epochs of each of the two trainings.")
@click.option("--picture", type=FILE, default="digits_demo.png", help="Image file to draw.")
@click.option("--progress/--no-progress", default=True, help="Show bars.")
def demo(epochs: int, picture: Path, progress: bool) -> None:
    """Trains on handwritten digits by the loop and compiled, and compares the two."""
    need("matplotlib", "matplotlib", "plot")
    click.echo("Handwritten digits, 64-128-10, 1437 images to train, 360 to test: by the loop, then compiled.")
    comparison = run_demo(epochs, progress)
    click.echo(f"\n{comparison}\n\npicture: {draw_demo(comparison, picture).resolve()}")
    if not comparison.passed:
        raise SystemExit(1)


def _checked(output: Path | None, stem: str) -> Path:
    output = output or Path(file_name(stem))
    check_file_name(output)
    return output


def _finish(content: dict[str, Any], output: Path) -> None:
    written = _write(content, output)
    click.echo(f"{markdown([content])}\n\n{written}")


def _write(content: dict[str, Any], output: Path, allow_nan: bool = False) -> str:
    """Writes a JSON file; returns the line that says where it is."""
    output.write_text(json.dumps(content, indent=1, allow_nan=allow_nan) + "\n")
    return f"written: {output.resolve()}"
