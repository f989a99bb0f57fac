"""One step of each executor on three sizes, and what the fence costs in trace time."""

import jax
import pytest
from da_bench import digits, machine, normal_mlp, transformer
from da_trainer._fence import fence

WORKLOADS = {
    "digits": digits,
    "mlp": normal_mlp,
    "transformer": lambda: transformer(d_model=64, d_ff=256, blocks=4, time=32, batch=8),
}


@pytest.mark.parametrize("mode", [False, "exact", "fused"], ids=["loop", "exact", "fused"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_step(benchmark, name, mode):
    workload = WORKLOADS[name]()
    X, y = (array[: workload.batch_size] for array in workload.data())
    trainer = workload.trainer(mode)

    def step():
        trainer.fit(X, y, 1, workload.batch_size, shuffle=False)
        jax.block_until_ready([param.value for param in trainer.model.params()])

    step()
    benchmark.extra_info.update(machine())
    benchmark(step)


@pytest.mark.parametrize("fenced", [False, True], ids=["plain", "fenced"])
def test_trace(benchmark, fenced):
    workload = WORKLOADS["transformer"]()
    model, loss, _ = workload.make()
    X, y = workload.data()

    def forward_and_backward(x, target):
        value = loss.forward(model.forward(x, training=True), target)
        model.backward(loss.backward())
        gradients = [param.grad for param in model.params()]
        for param in model.params():
            param.zero_grad()
        return value, gradients

    def trace():
        # A new function each time: JAX remembers the trace of one it has seen.
        function = fence(forward_and_backward) if fenced else lambda *args: forward_and_backward(*args)
        return jax.jit(function).trace(X, y)

    trace()
    benchmark.extra_info.update(machine())
    benchmark(trace)
