"""JAX and Optax by hand: a `jax.jit` step with donation, or a `lax.scan` over the steps of an epoch."""

import sys
import time

import jax
import jax.numpy as jnp
import optax
from serve import HEADS, blocks, ends, positions, serve


def mlp(maps, x):
    for weight, bias in maps[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = maps[-1]
    return x @ weight + bias


def cnn(maps, x):
    for weight, bias in maps[:-1]:
        x = jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + bias)
    weight, bias = maps[-1]
    return x.reshape(len(x), -1) @ weight + bias


def norm(scale, bias, x):
    centred = x - x.mean(-1, keepdims=True)
    return scale * centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) + bias


def attention(block, x):
    def heads(name):
        y = x @ block[f"attn.{name}.weight"] + block[f"attn.{name}.bias"]
        return y.reshape(*y.shape[:-1], HEADS, -1)

    mixed = jax.nn.dot_product_attention(heads("query"), heads("key"), heads("value"))
    return mixed.reshape(x.shape) @ block["attn.output.weight"] + block["attn.output.bias"]


def feed_forward(block, x):
    x = jax.nn.gelu(x @ block["ffn1.weight"] + block["ffn1.bias"], approximate=False)
    return x @ block["ffn2.weight"] + block["ffn2.bias"]


def transformer(params, x):
    (first, last_norm, last), layers = params
    x = x @ first["weight"] + first["bias"]
    x = x + positions(*x.shape[1:])
    for block in layers:
        x = x + attention(block, norm(block["ln1.scale"], block["ln1.bias"], x))
        x = x + feed_forward(block, norm(block["ln2.scale"], block["ln2.bias"], x))
    x = norm(last_norm["scale"], last_norm["bias"], x).mean(1)
    return x @ last["weight"] + last["bias"]


def make(task):
    model = {"mlp": mlp, "cnn": cnn, "transformer": transformer}[task.kind]
    arrays = (ends(task.weights), blocks(task.weights)) if task.kind == "transformer" else task.maps
    params = jax.tree.map(jnp.asarray, arrays)
    optimizer = optax.sgd(task.lr) if task.optimizer == "sgd" else optax.adam(task.lr)
    state = params, optimizer.init(params)

    def loss_of(params, x, y):
        output = model(params, x)
        if task.loss == "mse":
            return ((output - y) ** 2).mean()
        return optax.softmax_cross_entropy_with_integer_labels(output, y).mean()

    def step(state, batch):
        params, slots = state
        loss, gradients = jax.value_and_grad(loss_of)(params, *batch)
        updates, slots = optimizer.update(gradients, slots, params)
        return (optax.apply_updates(params, updates), slots), loss

    if sys.argv[2] == "scan":
        batches = tuple(jnp.stack(arrays) for arrays in zip(*task.batches, strict=True))
        epoch = jax.jit(lambda state: jax.lax.scan(step, state, batches), donate_argnums=0)
        start = time.perf_counter()
        compiled = epoch.lower(state).compile()
    else:
        batches = [tuple(map(jnp.asarray, batch)) for batch in task.batches]
        one = jax.jit(step, donate_argnums=0)
        start = time.perf_counter()
        compiled = one.lower(state, batches[0]).compile()

        def epoch(state):
            losses = []
            for batch in batches:
                state, loss = one(state, batch)
                losses.append(loss)
            return state, losses

    seconds, memory = time.perf_counter() - start, compiled.memory_analysis()

    def train(epochs):
        nonlocal state
        losses = []
        for _ in range(epochs):
            state, of_epoch = epoch(state)
            losses.append(sum(jax.device_get(of_epoch)) / task.steps)
        jax.block_until_ready(state)
        return losses

    train.facts = lambda: {"compile seconds": seconds, "temporary bytes": memory.temp_size_in_bytes}
    return train


serve(make)
