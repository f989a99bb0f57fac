"""fit-speed: `Trainer.fit`, the path a user takes, by the loop and compiled, beside its compiled calls alone."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from da_trainer import Trainer

from ._steps import BareCalls, wait
from ._timing import in_turn, ratios
from ._workloads import Workload

LOOP, COMPILED = "loop", "compiled"
BAR, CALLS = "compiled, with a progress bar", "the compiled calls alone"


def fit_speed(workload: Workload, sessions: int = 3, epochs: int = 2, repeat: int = 1) -> dict[str, Any]:
    """Times epochs of fit after two warm-up epochs; the clock stops when the parameters are ready.

    Args:
        workload: what to train.
        sessions: rounds of all columns in turn.
        epochs: epochs a session.
        repeat: how often an epoch goes over the data, for data of one batch.

    Returns:
        What goes into the JSON file, see the README.
    """
    X, y = (jnp.concatenate([jnp.asarray(array)] * repeat) for array in workload.data())
    batch_size, steps = workload.batch_size, -(-len(X) // workload.batch_size)
    loop, compiled, watched = workload.trainer(False), workload.trainer(True), workload.trainer(True)
    calls = BareCalls(workload.trainer(True), X, y, epochs, batch_size)

    def fits(trainer: Trainer, progress: bool = False) -> Callable[[], int]:
        def run() -> int:
            trainer.fit(X, y, epochs, batch_size, progress=progress)
            wait(trainer)
            return epochs * steps

        return run

    def bare() -> int:
        calls.run()
        return epochs * steps

    for trainer in (loop, compiled, watched):
        trainer.fit(X, y, 2, batch_size)
    columns = {LOOP: fits(loop), COMPILED: fits(compiled), BAR: fits(watched, progress=True), CALLS: bare}
    rates = in_turn(columns, sessions)
    return {
        "model": workload.name,
        "sessions": sessions,
        "epochs_a_session": epochs,
        "steps_an_epoch": steps,
        "steps_per_second": rates,
        "ratios": ratios(rates, COMPILED),
        "compile_seconds": compiled.compile_seconds,
    }
