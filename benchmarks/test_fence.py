"""What the fence costs while a step is traced: the time of `trace` alone, with no compilation."""

import jax
import pytest
from da_bench import machine, transformer
from da_trainer import exact_jit


@pytest.mark.parametrize("jit", [jax.jit, exact_jit], ids=["plain", "fenced"])
def test_trace(benchmark, jit):
    workload = transformer(blocks=4, d_model=64, time=32, batch=8)
    model, loss, optimizer = workload.make()
    params, traces = model.params(), []

    def train_step(values, X, y):
        traces.append(1)
        for param, value in zip(params, values, strict=True):
            param.value = value
            param.zero_grad()
        result = loss.forward(model.forward(X, training=True), y)
        model.backward(loss.backward())
        for param in params:
            param.update(optimizer)
        return result, [param.value for param in params]

    args = ([param.value for param in params], *workload.data())

    def forget():
        # JAX remembers traces, of this function and of the kernels in it: without this only the first round traces.
        jax.clear_caches()
        return (jit(lambda *args: train_step(*args)),), {}

    rounds = 7
    benchmark.extra_info.update(machine())
    benchmark.pedantic(lambda jitted: jitted.trace(*args), setup=forget, rounds=rounds, warmup_rounds=1)
    if len(traces) != rounds + 1:
        pytest.fail(f"each of the {rounds} rounds and the warm-up must trace once. Received: traces={len(traces)}")
