"""Flax NNX: `nnx.jit` over the step, or with `nnx.cached_partial`, its documented way to less overhead."""

import sys

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from serve import HEADS, blocks, ends, positions, serve

RNGS = nnx.Rngs(0)


def filled(layer, weight, bias):
    layer.kernel[...] = jnp.asarray(weight).reshape(layer.kernel.shape)
    layer.bias[...] = jnp.asarray(bias).reshape(layer.bias.shape)
    return layer


def linear(weight, bias):
    return filled(nnx.Linear(*weight.shape, rngs=RNGS), weight, bias)


def norm(scale, bias):
    layer = nnx.LayerNorm(len(scale), epsilon=1e-5, rngs=RNGS)
    layer.scale[...], layer.bias[...] = jnp.asarray(scale), jnp.asarray(bias)
    return layer


def convolution(weight, bias):
    size, _, n_in, n_out = weight.shape
    return filled(nnx.Conv(n_in, n_out, (size, size), padding="VALID", rngs=RNGS), weight, bias)


class Chain(nnx.Module):
    """An mlp, or with convolutions a cnn."""

    def __init__(self, maps):
        self.layers = nnx.List([(linear if pair[0].ndim == 2 else convolution)(*pair) for pair in maps])

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = nnx.relu(layer(x))
        return self.layers[-1](x.reshape(len(x), -1))


class Block(nnx.Module):
    def __init__(self, block):
        size = len(block["ln1.scale"])
        self.norm1, self.norm2 = (norm(block[f"{name}.scale"], block[f"{name}.bias"]) for name in ("ln1", "ln2"))
        self.attention = nnx.MultiHeadAttention(HEADS, size, decode=False, rngs=RNGS)
        for ours, theirs in (("query", "query"), ("key", "key"), ("value", "value"), ("output", "out")):
            filled(getattr(self.attention, theirs), block[f"attn.{ours}.weight"], block[f"attn.{ours}.bias"])
        self.map1, self.map2 = (linear(block[f"{name}.weight"], block[f"{name}.bias"]) for name in ("ffn1", "ffn2"))

    def __call__(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.map2(nnx.gelu(self.map1(self.norm2(x)), approximate=False))


class Transformer(nnx.Module):
    def __init__(self, weights):
        first, last_norm, last = ends(weights)
        self.first, self.last = (linear(part["weight"], part["bias"]) for part in (first, last))
        self.norm = norm(last_norm["scale"], last_norm["bias"])
        self.blocks = nnx.List([Block(block) for block in blocks(weights)])

    def __call__(self, x):
        x = self.first(x)
        x = x + positions(*x.shape[1:])
        for block in self.blocks:
            x = block(x)
        return self.last(self.norm(x).mean(1))


def make(task):
    model = Transformer(task.weights) if task.kind == "transformer" else Chain(task.maps)
    optimizer = nnx.Optimizer(
        model, optax.sgd(task.lr) if task.optimizer == "sgd" else optax.adam(task.lr), wrt=nnx.Param
    )

    def loss_of(model, x, y):
        output = model(x)
        if task.loss == "mse":
            return ((output - y) ** 2).mean()
        return optax.softmax_cross_entropy_with_integer_labels(output, y).mean()

    @nnx.jit
    def step(model, optimizer, x, y):
        loss, gradients = nnx.value_and_grad(loss_of)(model, x, y)
        optimizer.update(model, gradients)
        return loss

    if sys.argv[2] == "cached":
        one = nnx.cached_partial(step, model, optimizer)
    else:

        def one(x, y):
            return step(model, optimizer, x, y)

    batches = [tuple(map(jnp.asarray, batch)) for batch in task.batches]

    def train(epochs):
        losses = []
        for _ in range(epochs):
            losses.append(sum(jax.device_get([one(x, y) for x, y in batches])) / task.steps)
        jax.block_until_ready(nnx.state(model))
        return losses

    return train


serve(make)
