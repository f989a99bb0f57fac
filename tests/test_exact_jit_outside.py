"""exact_jit on training steps written with other libraries: eager against compiled, the same bits for 50 steps."""

import os
import subprocess
import sys
import textwrap

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from da_trainer import bits_equal, exact_jit
from flax import nnx
from jax import lax

STEPS = 50
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((16, 8)), RNG.standard_normal((16, 2))


def with_optax(loss, params, optimizer):
    """The usual step: gradient, update, and the loss."""

    def step(state, x, y):
        params, slots = state
        value, gradients = jax.value_and_grad(loss)(params, x, y)
        updates, slots = optimizer.update(gradients, slots, params)
        return (optax.apply_updates(params, updates), slots), value

    return step, (params, optimizer.init(params))


def equinox_adamw(dtype):
    """Equinox + Optax."""
    model = eqx.nn.MLP(8, 2, 16, 2, activation=jax.nn.gelu, key=jax.random.key(0), dtype=dtype)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))
    arrays, rest = eqx.partition(model, eqx.is_array)

    def loss(arrays, x, y):
        return ((jax.vmap(eqx.combine(arrays, rest))(x) - y) ** 2).mean()

    return with_optax(loss, arrays, optimizer)


def flax_nnx(dtype):
    """Flax NNX's functional API, with layer norm and dropout."""

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(8, 16, rngs=rngs, param_dtype=dtype)
            self.norm = nnx.LayerNorm(16, rngs=rngs, param_dtype=dtype)
            self.dropout = nnx.Dropout(0.2, rngs=rngs)
            self.last = nnx.Linear(16, 2, rngs=rngs, param_dtype=dtype)

        def __call__(self, x):
            return self.last(self.dropout(nnx.relu(self.norm(self.first(x)))))

    graph, params, rest = nnx.split(Net(nnx.Rngs(0)), nnx.Param, ...)
    optimizer = optax.sgd(1e-2, momentum=0.9)

    def loss(params, rest, x, y):
        model = nnx.merge(graph, params, rest, copy=True)
        value = ((model(x) - y) ** 2).mean()
        return value, nnx.split(model, nnx.Param, ...)[2]

    def step(state, x, y):
        params, rest, slots = state
        (value, rest), gradients = jax.value_and_grad(loss, has_aux=True)(params, rest, x, y)
        updates, slots = optimizer.update(gradients, slots, params)
        return (optax.apply_updates(params, updates), rest, slots), value

    return step, (params, rest, optimizer.init(params))


def pure_scan(dtype):
    """A pure function as Haiku's transform gives one: a recurrent network by `lax.scan`, plain gradient descent."""
    keys = jax.random.split(jax.random.key(0), 3)
    params = {
        "in": jax.random.normal(keys[0], (2, 6), dtype) * 0.4,
        "state": jax.random.normal(keys[1], (6, 6), dtype) * 0.3,
        "out": jax.random.normal(keys[2], (6, 2), dtype) * 0.4,
    }

    def cell(carry, token):
        params, state = carry
        state = jnp.tanh(token @ params["in"] + state @ params["state"])
        return (params, state), state.mean()

    def loss(params, x, y):
        tokens = x.reshape(-1, 4, 2).swapaxes(0, 1)
        (_, last), means = lax.scan(cell, (params, jnp.zeros((len(x), 6), x.dtype)), tokens)
        return ((last @ params["out"] - y) ** 2).mean() + 0.1 * means.var()

    def step(params, x, y):
        value, gradients = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.05 * g, params, gradients), value

    return step, params


def checkpointed(dtype):
    """Blocks under `jax.checkpoint`."""
    keys = jax.random.split(jax.random.key(0), 3)
    params = [
        jax.random.normal(key, shape, dtype) * 0.3 for key, shape in zip(keys, [(8, 8), (8, 8), (8, 2)], strict=True)
    ]

    @jax.checkpoint
    def block(weights, x):
        return jax.nn.silu(x @ weights / 3) + x * 0.1

    def loss(params, x, y):
        for weights in params[:-1]:
            x = block(weights, x)
        return ((x @ params[-1] - y) ** 2).mean()

    return with_optax(loss, params, optax.adam(1e-2))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64, jnp.bfloat16], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("make", [equinox_adamw, flax_nnx, pure_scan, checkpointed], ids=lambda make: make.__name__)
def test_fifty_steps_have_the_same_bits(make, dtype):
    with jax.enable_x64(dtype == jnp.float64):
        step, start = make(dtype)
        x, y = jnp.asarray(X, dtype), jnp.asarray(Y, dtype)
        compiled, eager_state, compiled_state = exact_jit(step), start, start
        for number in range(STEPS):
            eager_state, eager_loss = step(eager_state, x, y)
            compiled_state, compiled_loss = compiled(compiled_state, x, y)
            assert bits_equal(eager_loss, compiled_loss), number
        assert bits_equal(eager_state, compiled_state).differences == {}
        assert eager_loss.dtype == dtype
        assert not bits_equal(jax.tree.leaves(start)[0], jax.tree.leaves(eager_state)[0])


SHARDED = """
    import jax, jax.numpy as jnp, numpy as np
    from da_trainer import bits_equal, exact_jit
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    jax.config.update("jax_enable_x64", "DTYPE" == "float64")
    assert jax.device_count() == 4
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    rows, whole = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    rng = np.random.default_rng(0)
    x, y = (jax.device_put(jnp.asarray(rng.standard_normal((32, n)), "DTYPE"), rows) for n in (8, 2))
    start = [jax.device_put(jnp.asarray(rng.standard_normal(s) * 0.3, "DTYPE"), whole) for s in ((8, 16), (16, 2))]

    def loss(params, x, y):
        return ((jax.nn.gelu(x @ params[0]) @ params[1] - y) ** 2).mean()

    def step(params, x, y):
        value, gradients = jax.value_and_grad(loss)(params, x, y)
        norm = jnp.sqrt(sum((g * g).sum() for g in gradients))
        return [p - 0.05 * g / (1 + norm) for p, g in zip(params, gradients)], value

    a = b = start
    compiled = exact_jit(step)
    for number in range(50):
        (a, loss_a), (b, loss_b) = step(a, x, y), compiled(b, x, y)
        assert bits_equal(loss_a, loss_b), (number, bits_equal(loss_a, loss_b))
    assert bits_equal(a, b), bits_equal(a, b)
"""


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_fifty_steps_on_four_devices_have_the_same_bits(dtype):
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    program = textwrap.dedent(SHARDED).replace("DTYPE", dtype)
    outcome = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
