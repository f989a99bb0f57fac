"""Equinox and Optax: `eqx.filter_jit(donate="all")` over the step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from serve import serve


def make(task):
    linear = [eqx.nn.Linear(*weight.shape, key=jax.random.key(0)) for weight, _ in task.weights]
    linear = [
        eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, (jnp.asarray(weight.T), jnp.asarray(bias)))
        for layer, (weight, bias) in zip(linear, task.weights, strict=True)
    ]
    relu = eqx.nn.Lambda(jax.nn.relu)
    model = eqx.nn.Sequential([part for layer in linear[:-1] for part in (layer, relu)] + linear[-1:])
    optimizer = optax.sgd(task.lr) if task.optimizer == "sgd" else optax.adam(task.lr)
    slots = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    def loss_of(model, x, y):
        output = jax.vmap(model)(x)
        if task.loss == "mse":
            return ((output - y) ** 2).mean()
        return optax.softmax_cross_entropy_with_integer_labels(output, y).mean()

    @eqx.filter_jit(donate="all-except-first")
    def step(batch, model, slots):
        loss, gradients = eqx.filter_value_and_grad(loss_of)(model, *batch)
        updates, slots = optimizer.update(gradients, slots, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), slots, loss

    batches = [tuple(map(jnp.asarray, batch)) for batch in task.batches]

    def train(epochs):
        nonlocal model, slots
        losses = []
        for _ in range(epochs):
            of_epoch = []
            for batch in batches:
                model, slots, loss = step(batch, model, slots)
                of_epoch.append(loss)
            losses.append(sum(jax.device_get(of_epoch)) / task.steps)
        jax.block_until_ready(eqx.filter(model, eqx.is_array))
        return losses

    return train


serve(make)
