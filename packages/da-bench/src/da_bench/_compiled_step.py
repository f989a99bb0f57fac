"""compiled-step: the step by the loop and compiled, how fast, and whether the losses are the same."""

from typing import Any

import jax
from da_trainer import bits_equal

from ._steps import StepRunner, steps_by_hand
from ._timing import in_turn, ratios
from ._workloads import Workload

LOSS_STEPS = (1, 10, 50, 200)
COLUMNS = {
    "loop, operation by operation": "the loop over the objects, by hand, inside jax.disable_jit(); for its time only: "
    "it rounds differently, for the units under jax.jit are what the same bits are promised for",
    "loop": "the loop over the objects, by hand, as it is",
    "compiled": "Trainer(compile=True): the executor's load, its steps on one batch, and its store, as fit calls them",
}


def compiled_step(
    workload: Workload, sessions: int = 3, steps: int = 20, operation_steps: int = 20, loss_steps: int = 200
) -> dict[str, Any]:
    """Measures one workload in the three columns of `COLUMNS`, in turn; the clock stops when the parameters are ready.

    Args:
        workload: data of one batch.
        sessions: rounds of the three columns.
        steps: steps a session of the loop and of the compiled step.
        operation_steps: steps a session operation by operation.
        loss_steps: steps of the comparison of losses and parameters.

    Returns:
        What goes into the JSON file, see the README.
    """
    X, y = workload.data()
    loop, single, compiled = (workload.trainer(mode) for mode in (False, False, True))
    runner = StepRunner(compiled, X, y)  # first, so that the loop's kernels do not help it to compile
    steps_by_hand(loop, X, y, 1)
    with jax.disable_jit():
        steps_by_hand(single, X, y, 1)

    def operations() -> int:
        with jax.disable_jit():
            return len(steps_by_hand(single, X, y, operation_steps))

    columns = {
        "loop, operation by operation": operations,
        "loop": lambda: len(steps_by_hand(loop, X, y, steps)),
        "compiled": lambda: runner.run(steps),
    }
    rates = in_turn(columns, sessions)
    return {
        "model": workload.name,
        "sessions": sessions,
        "steps_a_session": {"loop, operation by operation": operation_steps, "loop": steps, "compiled": steps},
        "steps_per_second": rates,
        "ratios": ratios(rates, "compiled"),
        "compile_seconds": compiled.compile_seconds,
        "comparison": compare(workload, loss_steps),
    }


def compare(workload: Workload, steps: int) -> dict[str, Any]:
    """The loop by hand and the compiled fit from the same start: every loss, and the parameters after the last."""
    X, y = workload.data()
    loop, compiled = workload.trainer(False), workload.trainer(True)
    a = [float(loss) for loss in jax.device_get(steps_by_hand(loop, X, y, steps))]
    b = compiled.fit(X, y, steps, workload.batch_size, shuffle=False).history_["train_loss"]
    differences = [_relative(p, q) for p, q in zip(a, b, strict=True)]
    shown = [step for step in LOSS_STEPS if step <= steps]
    parameters = bits_equal(loop.model.state_dict(), compiled.model.state_dict())
    return {
        "steps": steps,
        "loss_loop": {str(step): a[step - 1] for step in shown},
        "loss_compiled": {str(step): b[step - 1] for step in shown},
        "relative_difference": {str(step): differences[step - 1] for step in shown},
        "largest_relative_difference": max(differences),
        "same_bits": {"losses": a == b, "parameters": bool(parameters)},
        "parameters_that_differ": parameters.differences,
    }


def _relative(a: float, b: float) -> float:
    return 0.0 if a == b else abs(a - b) / max(abs(a), 1e-30)
