"""JAX and Optax by hand: a `jax.jit` step with donation, or a `lax.scan` over the steps of an epoch."""

import sys

import jax
import jax.numpy as jnp
import optax
from serve import serve


def make(task):
    params = [(jnp.asarray(weight), jnp.asarray(bias)) for weight, bias in task.weights]
    optimizer = optax.sgd(task.lr) if task.optimizer == "sgd" else optax.adam(task.lr)
    state = params, optimizer.init(params)

    def loss_of(params, x, y):
        for weight, bias in params[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        weight, bias = params[-1]
        output = x @ weight + bias
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
    else:
        batches = [tuple(map(jnp.asarray, batch)) for batch in task.batches]
        one = jax.jit(step, donate_argnums=0)

        def epoch(state):
            losses = []
            for batch in batches:
                state, loss = one(state, batch)
                losses.append(loss)
            return state, losses

    def train(epochs):
        nonlocal state
        losses = []
        for _ in range(epochs):
            state, of_epoch = epoch(state)
            losses.append(sum(jax.device_get(of_epoch)) / task.steps)
        jax.block_until_ready(state)
        return losses

    return train


serve(make)
