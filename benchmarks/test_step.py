"""One step of each executor on three sizes; compare figures of one run only."""

import jax.numpy as jnp
import pytest
from da_bench import StepRunner, digits, machine, normal_mlp, transformer

WORKLOADS = {
    "digits": digits,
    "mlp": normal_mlp,
    "transformer": lambda: transformer(blocks=4, d_model=64, time=32, batch=8),
}


@pytest.mark.parametrize("mode", [False, "exact", "fused"], ids=["loop", "exact", "fused"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_step(benchmark, name, mode):
    workload = WORKLOADS[name]()
    X, y = (jnp.asarray(array[: workload.batch_size]) for array in workload.data())
    runner = StepRunner(workload.trainer(mode), X, y)  # compiles
    runner.run(2)
    benchmark.extra_info.update(machine())
    runner.load()
    benchmark(runner.step)  # ends when the step's results are ready
    runner.store()
