"""Equinox and Optax: `eqx.filter_jit(donate="all-except-first")` over the step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from serve import HEADS, blocks, ends, positions, serve

KEY = jax.random.key(0)


def filled(layer, weight, bias):
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, (jnp.asarray(weight), jnp.asarray(bias)))


def linear(weight, bias):
    return filled(eqx.nn.Linear(*weight.shape, key=KEY), weight.T, bias)


def norm(scale, bias):
    return filled(eqx.nn.LayerNorm(len(scale)), scale, bias)


def convolution(weight, bias):
    size, _, n_in, n_out = weight.shape
    return filled(eqx.nn.Conv2d(n_in, n_out, size, key=KEY), weight.transpose(3, 2, 0, 1), bias[:, None, None])


def mlp(maps):
    relu = eqx.nn.Lambda(jax.nn.relu)
    layers = [linear(*pair) for pair in maps]
    return eqx.nn.Sequential([part for layer in layers[:-1] for part in (layer, relu)] + layers[-1:])


def cnn(maps):
    relu, first, flat = (
        eqx.nn.Lambda(function) for function in (jax.nn.relu, lambda x: x.transpose(2, 0, 1), lambda x: x.reshape(-1))
    )
    back = eqx.nn.Lambda(lambda x: x.transpose(1, 2, 0))
    parts = [part for pair in maps[:-1] for part in (convolution(*pair), relu)]
    return eqx.nn.Sequential([first, *parts, back, flat, linear(*maps[-1])])


class Block(eqx.Module):
    norms: tuple
    attention: eqx.nn.MultiheadAttention
    maps: tuple

    def __init__(self, block):
        self.norms = tuple(norm(block[f"{name}.scale"], block[f"{name}.bias"]) for name in ("ln1", "ln2"))
        size = len(block["ln1.scale"])
        biases = dict.fromkeys(("use_query_bias", "use_key_bias", "use_value_bias", "use_output_bias"), True)
        names = [f"{name}_proj" for name in ("query", "key", "value", "output")]
        self.attention = eqx.tree_at(
            lambda attention: [getattr(attention, name) for name in names],
            eqx.nn.MultiheadAttention(HEADS, size, **biases, key=KEY),
            [
                linear(block[f"attn.{name}.weight"], block[f"attn.{name}.bias"])
                for name in ("query", "key", "value", "output")
            ],
        )
        self.maps = tuple(linear(block[f"{name}.weight"], block[f"{name}.bias"]) for name in ("ffn1", "ffn2"))

    def __call__(self, x):
        h = jax.vmap(self.norms[0])(x)
        x = x + self.attention(h, h, h)
        h = jax.vmap(self.maps[0])(jax.vmap(self.norms[1])(x))
        return x + jax.vmap(self.maps[1])(jax.nn.gelu(h, approximate=False))


class Transformer(eqx.Module):
    first: eqx.nn.Linear
    blocks: list
    norm: eqx.nn.LayerNorm
    last: eqx.nn.Linear

    def __init__(self, weights):
        first, last_norm, last = ends(weights)
        self.first, self.last = (linear(part["weight"], part["bias"]) for part in (first, last))
        self.norm = norm(last_norm["scale"], last_norm["bias"])
        self.blocks = [Block(block) for block in blocks(weights)]

    def __call__(self, x):
        x = jax.vmap(self.first)(x)
        x = x + positions(*x.shape)
        for block in self.blocks:
            x = block(x)
        return self.last(jax.vmap(self.norm)(x).mean(0))


def make(task):
    model = Transformer(task.weights) if task.kind == "transformer" else {"mlp": mlp, "cnn": cnn}[task.kind](task.maps)
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
