"""fit-speed: `Trainer.fit`, the path a user takes, by the loop and compiled."""

from typing import Any

import jax.numpy as jnp
from da_trainer import Trainer

from ._steps import wait
from ._timing import in_turn, ratios
from ._workloads import Workload


def fit_speed(workload: Workload, sessions: int = 3, epochs: int = 2, repeat: int = 1) -> dict[str, Any]:
    """Times epochs of fit after one warm-up epoch; the clock stops when the parameters are ready.

    Args:
        workload: what to train.
        sessions: rounds of both executors in turn.
        epochs: epochs a session.
        repeat: how often an epoch goes over the data, for data of one batch.

    Returns:
        What goes into the JSON file, see the README.
    """
    X, y = (jnp.concatenate([jnp.asarray(array)] * repeat) for array in workload.data())
    loop, compiled = workload.trainer(False), workload.trainer(True)
    for trainer in (loop, compiled):
        _epochs(trainer, X, y, workload.batch_size, 1)
    rates = in_turn(
        {
            "loop": lambda: _epochs(loop, X, y, workload.batch_size, epochs),
            "compiled": lambda: _epochs(compiled, X, y, workload.batch_size, epochs),
        },
        sessions,
    )
    return {
        "model": workload.name,
        "sessions": sessions,
        "epochs_a_session": epochs,
        "steps_an_epoch": -(-len(X) // workload.batch_size),
        "steps_per_second": rates,
        "ratios": ratios(rates, "compiled"),
        "compile_seconds": compiled.compile_seconds,
    }


def _epochs(trainer: Trainer, X: Any, y: Any, batch_size: int, epochs: int) -> int:
    trainer.fit(X, y, epochs, batch_size)
    wait(trainer)
    return epochs * -(-len(X) // batch_size)
