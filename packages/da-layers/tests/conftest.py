"""The table of cases: every layer and loss, how to make it, and its formula in NumPy."""

import functools
import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import (
    ELU,
    GELU,
    GRU,
    L1,
    LSTM,
    MSE,
    RNN,
    AutoLayer,
    AveragePool1D,
    AveragePool2D,
    BatchNorm,
    BCEWithLogits,
    Checkpoint,
    Concat,
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    ConvTranspose2D,
    CosineSimilarity,
    Dense,
    DepthwiseConv2D,
    Dropout,
    Embedding,
    Flatten,
    Focal,
    GatedFeedForward,
    GlobalAveragePool,
    GroupNorm,
    Hinge,
    Huber,
    InstanceNorm,
    Key,
    KLDivergence,
    Lambda,
    Layer,
    LayerNorm,
    LayerStack,
    LeakyReLU,
    LearnedPositions,
    Loss,
    MaxPool1D,
    MaxPool2D,
    Mish,
    MultiHeadAttention,
    Parallel,
    Param,
    PReLU,
    ReLU,
    Reshape,
    Residual,
    RMSNorm,
    SeparableConv2D,
    Sequential,
    Sigmoid,
    SiLU,
    SinusoidalPositions,
    Softmax,
    SoftmaxCrossEntropy,
    Softplus,
    SpatialDropout,
    StochasticDepth,
    Tanh,
    TiedHead,
    TransformerBlock,
    Triplet,
    transformer_lm,
)


def value(variable: Any) -> np.ndarray:
    return np.asarray(variable.value)


class Swish(AutoLayer):
    def __init__(self):
        self.beta = Param(1.0, role="scale")

    def function(self, values, x):
        return x * jax.nn.sigmoid(values["beta"] * x)


class Tokens(Layer):
    """Numbers to tokens 0, 1 and 2, as the contract's inputs are floats."""

    def forward(self, x, training=False):
        if training:
            self.keep(x)
        return jnp.minimum(jnp.abs(x), 2).astype(int)

    def backward(self, g):
        (x,) = self.take()
        return jnp.zeros_like(x)


# Formulas


def dense(layer, x):
    y = np.einsum("...i,io->...o", x, value(layer.weight))
    return y if layer.bias is None else y + value(layer.bias)


def conv(layer, x):
    """y[b, p, o] = sum over offsets d and channels c of the group of x[b, p s + d l, c] W[d, c, o], + b[o]."""
    weight, window = value(layer.weight), layer.window
    size, groups = weight.shape[:-2], window.groups
    pads = []
    for length, n, stride, step in zip(x.shape[1:-1], size, window.stride, window.dilation, strict=True):
        reach = step * (n - 1) + 1
        total = max((math.ceil(length / stride) - 1) * stride + reach - length, 0)
        same, number = (total // 2, total - total // 2), window.padding
        pads.append({"same": same, "valid": (0, 0), "causal": (reach - 1, 0)}.get(number, (number, number)))
    x = np.pad(x, ((0, 0), *pads, (0, 0)))
    reaches = [step * (n - 1) + 1 for n, step in zip(size, window.dilation, strict=True)]
    counts = [(n - r) // s + 1 for n, r, s in zip(x.shape[1:-1], reaches, window.stride, strict=True)]
    y = np.zeros((x.shape[0], *counts, weight.shape[-1]))
    n_in, n_out = weight.shape[-2], weight.shape[-1] // groups
    for place in np.ndindex(*counts):
        for offset in np.ndindex(*size):
            at = [p * s + d * step for p, s, d, step in zip(place, window.stride, offset, window.dilation, strict=True)]
            for group in range(groups):
                outputs = slice(group * n_out, (group + 1) * n_out)
                entries = x[:, *at, group * n_in : (group + 1) * n_in]
                y[:, *place, outputs] += entries @ weight[*offset, :, outputs]
    return y if layer.bias is None else y + value(layer.bias)


def separable(layer, x):
    return conv(layer.pointwise, conv(layer.depthwise, x))


def conv_transpose(layer, x):
    """Each entry adds its multiple of the window to the output; what stands out at the ends is cut off."""
    weight, stride, padding = value(layer.weight), layer.window.stride, layer.window.padding
    size, places = weight.shape[:-2], x.shape[1:-1]
    full = np.zeros(
        (x.shape[0], *((p - 1) * s + max(n, s) for p, s, n in zip(places, stride, size, strict=True)), layer.n_out)
    )
    for place in np.ndindex(*places):
        for offset in np.ndindex(*size):
            at = [p * s + d for p, s, d in zip(place, stride, offset, strict=True)]
            full[:, *at] += x[:, *place] @ weight[*offset].T
    for axis, (p, s, n) in enumerate(zip(places, stride, size, strict=True), 1):
        whole = (p - 1) * s + n
        start, stop = {"valid": (0, whole), "same": (max(n - s, 0) // 2, max(n - s, 0) // 2 + p * s)}.get(
            padding, (padding, whole - padding) if isinstance(padding, int) else None
        )
        full = np.take(full, range(start, stop), axis)
    return full + value(layer.bias)


def normalized(layer, x, axes):
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + layer.epsilon)


def layer_norm(layer, x):
    return normalized(layer, x, -1) * value(layer.scale) + value(layer.bias)


def rms_norm(layer, x):
    return value(layer.scale) * x / np.sqrt((x**2).mean(-1, keepdims=True) + layer.epsilon)


def pooled(reduce):
    """The formula of a pooling layer: `reduce` of the entries of each window that are no padding."""

    def formula(layer, x):
        lengths = x.shape[1:-1]
        if layer.padding == "same":
            counts = [math.ceil(length / layer.stride) for length in lengths]
            fronts = [
                max((count - 1) * layer.stride + layer.size - length, 0) // 2
                for count, length in zip(counts, lengths, strict=True)
            ]
        else:
            counts, fronts = [(length - layer.size) // layer.stride + 1 for length in lengths], [0] * len(lengths)
        y = np.zeros((x.shape[0], *counts, x.shape[-1]))
        for place in np.ndindex(*counts):
            starts = [i * layer.stride - front for i, front in zip(place, fronts, strict=True)]
            window = x[:, *(slice(max(start, 0), start + layer.size) for start in starts)]
            y[:, *place] = reduce(window, tuple(range(1, x.ndim - 1)))
        return y

    return formula


def group_norm(layer, x):
    split = x.reshape(x.shape[0], -1, layer.groups, x.shape[-1] // layer.groups)
    return normalized(layer, split, (1, 3)).reshape(x.shape) * value(layer.scale) + value(layer.bias)


def batch_norm_in_training(layer, x):
    return normalized(layer, x, tuple(range(x.ndim - 1))) * value(layer.scale) + value(layer.bias)


def batch_norm(layer, x):
    normal = (x - value(layer.running_mean)) / np.sqrt(value(layer.running_variance) + layer.epsilon)
    return normal * value(layer.scale) + value(layer.bias)


def gelu(layer, x):
    return np.vectorize(lambda number: number * (1 + math.erf(number / math.sqrt(2))) / 2)(x)


def gelu_tanh(layer, x):
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def positions(layer, x):
    y = x.copy()
    for t in range(x.shape[1]):
        for i in range(x.shape[2]):
            angle = t / 10000 ** (i // 2 * 2 / x.shape[2])
            y[:, t, i] += math.cos(angle) if i % 2 else math.sin(angle)
    return y


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def turned(x, heads):
    """Rotary positions: pairs of the halves of a head as complex numbers, turned by angles that grow with the place."""
    batch, time, size = x.shape
    half = size // heads // 2
    parts = x.reshape(batch, time, heads, 2, half)
    angles = np.arange(time)[:, None] / 10000 ** (np.arange(half) / half)
    z = (parts[..., 0, :] + 1j * parts[..., 1, :]) * np.exp(1j * angles)[:, None]
    return np.stack([z.real, z.imag], -2).reshape(x.shape)


def attention(layer, x):
    q, k, v = dense(layer.query, x), dense(layer.key, x), dense(layer.value, x)
    d = layer.d_model // layer.heads
    if layer.rotary:
        q, k = turned(q, layer.heads), turned(k, layer.key_value_heads)
    mixed = np.zeros_like(x)
    for b in range(x.shape[0]):
        for h in range(layer.heads):
            part = slice(h * d, (h + 1) * d)
            shared = h // (layer.heads // layer.key_value_heads)
            of_shared = slice(shared * d, (shared + 1) * d)
            scores = q[b, :, part] @ k[b, :, of_shared].T / math.sqrt(d)
            if layer.causal:
                scores[np.triu_indices(len(scores), 1)] = -np.inf
            mixed[b, :, part] = softmax(scores) @ v[b, :, of_shared]
    return dense(layer.output, mixed)


def gated(layer, x):
    gate = dense(layer.gate, x)
    return dense(layer.down, gate / (1 + np.exp(-gate)) * dense(layer.up, x))


def post_norm_block(layer, x):
    h = layer_norm(layer.ln1, x + attention(layer.attn, x))
    return layer_norm(layer.ln2, h + gated(layer.gated, h))


def language_model(model, tokens):
    x = value(model.embedding.weight)[tokens]
    for block in model.blocks.layers:
        x = x + attention(block.attn, layer_norm(block.ln1, x))
        x = x + gated(block.gated, layer_norm(block.ln2, x))
    return layer_norm(model.norm, x) @ value(model.head.weight).T


def recurrent(cell_formula):
    """A recurrent layer: its cells' formula (a, r, state) -> state, step by step."""

    def formula(layer, x):
        for cells in layer.layers:
            outputs = []
            for cell in cells:
                a = x @ value(cell.weight) + value(cell.bias)
                state = [np.zeros((x.shape[0], layer.n_out)) for _ in range(cell.states)]
                y = np.zeros((*x.shape[:2], layer.n_out))
                for t in range(x.shape[1])[:: -1 if cell.reverse else 1]:
                    r = state[0] @ value(cell.recurrent)
                    r = r if cell.recurrent_bias is None else r + value(cell.recurrent_bias)
                    state = cell_formula(a[:, t], r, *state)
                    y[:, t] = state[0]
                outputs.append(y)
            x = np.concatenate(outputs, -1)
        if layer.sequences:
            return x
        return np.concatenate(
            [x[:, 0 if cell.reverse else -1, i * layer.n_out :][:, : layer.n_out] for i, cell in enumerate(cells)], -1
        )

    return formula


@recurrent
def rnn(a, r, h):
    return [np.tanh(a + r)]


@recurrent
def gru(a, r, h):
    (a_reset, a_update, a_new), (r_reset, r_update, r_new) = np.split(a, 3, -1), np.split(r, 3, -1)
    update = sigmoid(a_update + r_update)
    return [(1 - update) * np.tanh(a_new + sigmoid(a_reset + r_reset) * r_new) + update * h]


@recurrent
def lstm(a, r, h, c):
    i, f, o, g = np.split(a + r, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return [sigmoid(o) * np.tanh(c), c]


def transformer_block(layer, x):
    h = x + attention(layer.attn, layer_norm(layer.ln1, x))
    return h + dense(layer.ffn2, gelu(None, dense(layer.ffn1, layer_norm(layer.ln2, h))))


# Cases


@dataclass(frozen=True)
class Case:
    """A layer and what it must do.

    Attributes:
        name: shown by pytest.
        make: makes the layer.
        shape: shape of an input.
        formula: (layer, x) -> y in NumPy, for training=False.
        training_formula: the same for training=True; None where masks are random.
        rejects: shape of an input that the layer must not take, and the requirement its error must state.
        only_float: whether the layer must not take integers.
    """

    name: str
    make: Callable[[], Layer]
    shape: tuple[int, ...]
    formula: Callable[[Any, np.ndarray], np.ndarray]
    training_formula: Callable[[Any, np.ndarray], np.ndarray] | None = None
    rejects: tuple[tuple[int, ...], str] | None = None
    only_float: bool = True

    def build(self) -> Layer:
        """The layer, with a random number in each Param and Buffer."""
        layer, rng = self.make(), np.random.default_rng(1)
        for path, variable in layer.variables().items():
            if not isinstance(variable, Key):
                numbers = rng.normal(size=variable.value.shape)
                variable.value = np.abs(numbers) + 0.5 if path.endswith("variance") else numbers
        return layer

    def x(self, dtype: Any = None) -> jax.Array:
        """An input."""
        return jnp.asarray(np.random.default_rng(2).normal(size=self.shape), dtype)

    def g(self, y: Any) -> jax.Array:
        """A gradient of an output of the shape and dtype of `y`."""
        return jnp.asarray(np.random.default_rng(3).normal(size=y.shape), y.dtype)


def plain(name, make, shape, formula, **rest):
    return Case(name, make, shape, formula, training_formula=formula, **rest)


ROWS = "x must have shape"
CASES = [
    plain("Dense", lambda: Dense(4, 6, 0), (5, 4), dense, rejects=((5, 3), r"x must have shape \(..., 4\)")),
    plain("Dense-vector", lambda: Dense(4, 6, 0), (4,), dense, rejects=((), ROWS)),
    plain("Dense-no-bias", lambda: Dense(4, 6, 0, bias=False), (2, 3, 4), dense, rejects=((2, 4, 3), ROWS)),
    plain("Conv2D", lambda: Conv2D(2, 4, 3, 0), (2, 5, 4, 2), conv, rejects=((2, 5, 4, 3), ROWS)),
    plain("Conv2D-stride", lambda: Conv2D(2, 4, 3, 0, stride=2), (2, 5, 4, 2), conv, rejects=((5, 4, 2), ROWS)),
    plain(
        "Conv2D-valid",  # the last row and column are in no window
        lambda: Conv2D(2, 3, 2, 0, stride=3, padding="valid"),
        (1, 7, 6, 2),
        conv,
        rejects=((1, 7, 1, 2), r"x, with its padding, must be at least \(2, 2\) along height, width"),
    ),
    plain(
        "Conv2D-dilated-groups",
        lambda: Conv2D(4, 6, (2, 3), 0, stride=(1, 2), padding=1, dilation=(2, 1), groups=2, bias=False),
        (2, 5, 6, 4),
        conv,
        rejects=((2, 5, 6, 2), ROWS),
    ),
    plain("Conv1D", lambda: Conv1D(3, 4, 3, 0, stride=2), (2, 7, 3), conv, rejects=((2, 7, 2), ROWS)),
    plain(
        "Conv1D-causal",
        lambda: Conv1D(3, 4, 3, 0, padding="causal", dilation=2),
        (2, 7, 3),
        conv,
        rejects=((2, 7, 2), ROWS),
    ),
    plain("Conv3D", lambda: Conv3D(2, 3, (2, 1, 2), 0), (1, 3, 4, 3, 2), conv, rejects=((3, 4, 3, 2), ROWS)),
    plain(
        "DepthwiseConv2D",
        lambda: DepthwiseConv2D(3, 2, 0, multiplier=2),
        (2, 4, 5, 3),
        conv,
        rejects=((2, 4, 5, 2), ROWS),
    ),
    plain(
        "SeparableConv2D",
        lambda: SeparableConv2D(3, 4, 3, 0, stride=2),
        (2, 4, 5, 3),
        separable,
        rejects=((2, 4, 5, 2), ROWS),
    ),
    plain(
        "ConvTranspose1D",
        lambda: ConvTranspose1D(3, 2, 4, 0, stride=2),
        (2, 5, 3),
        conv_transpose,
        rejects=((2, 5, 2), ROWS),
    ),
    plain(
        "ConvTranspose1D-cut",
        lambda: ConvTranspose1D(3, 2, 4, 0, stride=3, padding=1),
        (2, 5, 3),
        conv_transpose,
        rejects=((2, 5, 2), ROWS),
    ),
    plain(
        "ConvTranspose2D",
        lambda: ConvTranspose2D(3, 2, 3, 0, stride=(2, 1), padding="valid"),
        (2, 3, 4, 3),
        conv_transpose,
        rejects=((2, 3, 3), ROWS),
    ),
    plain("RNN", lambda: RNN(3, 4, 0), (2, 5, 3), rnn, rejects=((2, 5, 4), ROWS)),
    plain("GRU", lambda: GRU(3, 4, 0, layers=2), (2, 5, 3), gru, rejects=((2, 3), ROWS)),
    plain("LSTM", lambda: LSTM(3, 4, 0), (2, 5, 3), lstm, rejects=((2, 5, 4), ROWS)),
    plain("RNN-last", lambda: RNN(3, 4, 0, sequences=False), (2, 5, 3), rnn, rejects=((2, 0, 3), ROWS)),
    plain(
        "LSTM-both-ways",
        lambda: LSTM(3, 4, 0, layers=2, bidirectional=True, sequences=False),
        (2, 5, 3),
        lstm,
        rejects=((2, 5, 4), ROWS),
    ),
    plain("ReLU", ReLU, (3, 4), lambda layer, x: np.maximum(x, 0)),
    plain("GELU", GELU, (3, 4), gelu),
    plain("GELU-tanh", lambda: GELU(approximate=True), (3, 4), gelu_tanh),
    plain("LeakyReLU", lambda: LeakyReLU(0.1), (3, 4), lambda layer, x: np.where(x > 0, x, 0.1 * x)),
    plain("ELU", lambda: ELU(0.7), (3, 4), lambda layer, x: np.where(x > 0, x, 0.7 * (np.exp(x) - 1))),
    plain("PReLU", PReLU, (3, 4), lambda layer, x: np.where(x > 0, x, value(layer.slope) * x)),
    plain(
        "PReLU-channels",
        lambda: PReLU(4),
        (2, 3, 4),
        lambda layer, x: np.where(x > 0, x, value(layer.slope) * x),
        rejects=((2, 3), ROWS),
    ),
    plain("SiLU", SiLU, (3, 4), lambda layer, x: x / (1 + np.exp(-x))),
    plain("Softplus", Softplus, (3, 4), lambda layer, x: np.log(1 + np.exp(x))),
    plain("Mish", Mish, (3, 4), lambda layer, x: x * np.tanh(np.log(1 + np.exp(x)))),
    plain("Softmax", Softmax, (3, 4), lambda layer, x: softmax(x), rejects=((), ROWS)),
    plain("Tanh", Tanh, (3, 4), lambda layer, x: np.tanh(x)),
    plain("Sigmoid", Sigmoid, (3, 4), lambda layer, x: 1 / (1 + np.exp(-x))),
    plain("LayerNorm", lambda: LayerNorm(4), (2, 3, 4), layer_norm, rejects=((2, 3, 5), ROWS)),
    plain("RMSNorm", lambda: RMSNorm(4), (2, 3, 4), rms_norm, rejects=((2, 3, 5), ROWS)),
    plain("MaxPool1D", lambda: MaxPool1D(2), (2, 5, 3), pooled(np.max), rejects=((2, 3), ROWS)),
    plain("MaxPool1D-overlap", lambda: MaxPool1D(3, 1, "same"), (2, 5, 3), pooled(np.max), rejects=((2, 3), ROWS)),
    plain(
        "MaxPool2D", lambda: MaxPool2D(2), (2, 5, 4, 3), pooled(np.max), rejects=((2, 5, 1, 3), "x must be at least 2")
    ),
    plain("MaxPool2D-same", lambda: MaxPool2D(3, 2, "same"), (2, 5, 4, 3), pooled(np.max), rejects=((2, 5, 4), ROWS)),
    plain("AveragePool1D", lambda: AveragePool1D(2, 3), (2, 8, 3), pooled(np.mean), rejects=((2, 3), ROWS)),
    plain("AveragePool2D", lambda: AveragePool2D(2), (2, 5, 4, 3), pooled(np.mean), rejects=((2, 5, 4), ROWS)),
    plain(
        "AveragePool2D-same",
        lambda: AveragePool2D(3, 2, "same"),
        (2, 5, 4, 3),
        pooled(np.mean),
        rejects=((2, 5, 4), ROWS),
    ),
    plain("GroupNorm", lambda: GroupNorm(2, 6), (2, 3, 2, 6), group_norm, rejects=((6,), ROWS)),
    plain("InstanceNorm", lambda: InstanceNorm(4), (2, 5, 4), group_norm, rejects=((2, 4), ROWS)),
    Case("BatchNorm", lambda: BatchNorm(4), (5, 4), batch_norm, batch_norm_in_training, ((5, 3), ROWS)),
    Case("BatchNorm-image", lambda: BatchNorm(4), (2, 3, 2, 4), batch_norm, batch_norm_in_training, ((4,), ROWS)),
    Case("Dropout", lambda: Dropout(0.4, 0), (5, 4), lambda layer, x: x),
    Case("SpatialDropout", lambda: SpatialDropout(0.4, 0), (3, 5, 4), lambda layer, x: x, rejects=((3,), ROWS)),
    Case("StochasticDepth", lambda: StochasticDepth(0.4, 0), (5, 4), lambda layer, x: x, rejects=((), ROWS)),
    plain("GatedFeedForward", lambda: GatedFeedForward(4, 6, 0), (2, 3, 4), gated, rejects=((2, 3, 5), ROWS)),
    plain(
        "Parallel-Concat",
        lambda: Sequential(Parallel(Dense(4, 3, 0), Tanh()), Concat()),
        (2, 4),
        lambda layer, x: np.concatenate([dense(layer.layers[0].layers[0], x), np.tanh(x)], -1),
        rejects=((2, 3), ROWS),
    ),
    plain("Lambda", lambda: Lambda(jax.lax.square), (3, 4), lambda layer, x: x**2, only_float=False),
    plain(
        "TransformerLM",
        lambda: Sequential(Tokens(), transformer_lm(3, 8, 4, 6, 2, 0, key_value_heads=2)),
        (2, 5),
        lambda layer, x: language_model(layer.layers[1], np.minimum(np.abs(x), 2).astype(int)),
        only_float=False,
    ),
    plain("Flatten", Flatten, (2, 3, 4), lambda layer, x: x.reshape(2, 12), rejects=((3,), ROWS), only_float=False),
    plain(
        "GlobalAveragePool",
        GlobalAveragePool,
        (2, 3, 5, 4),
        lambda layer, x: x.mean((1, 2)),
        rejects=((2, 4), ROWS),
        only_float=False,
    ),
    plain(
        "Embedding",
        lambda: Sequential(Tokens(), Embedding(3, 4, 0)),
        (2, 5),
        lambda layer, x: value(layer.layers[1].weight)[np.minimum(np.abs(x), 2).astype(int)],
        only_float=False,
    ),
    plain(
        "LearnedPositions",
        lambda: LearnedPositions(5, 4, 0),
        (2, 3, 4),
        lambda layer, x: x + value(layer.weight)[:3],
        rejects=((2, 6, 4), ROWS),
    ),
    plain(
        "Reshape",
        lambda: Reshape(2, -1),
        (3, 4, 3),
        lambda layer, x: x.reshape(3, 2, 6),
        rejects=((3, 5), ROWS),
        only_float=False,
    ),
    plain(
        "Checkpoint",
        lambda: Checkpoint(Sequential(Dense(4, 6, 0), Tanh())),
        (3, 4),
        lambda layer, x: np.tanh(dense(layer.inner.layers[0], x)),
        rejects=((3, 6), ROWS),
    ),
    Case(
        "Checkpoint-state",
        lambda: Checkpoint(Sequential(BatchNorm(4), Dropout(0.4, 0))),
        (5, 4),
        lambda layer, x: batch_norm(layer.inner.layers[0], x),
    ),
    plain(
        "TiedHead",
        lambda: TiedHead(Embedding(5, 4, 0)),
        (2, 3, 4),
        lambda layer, x: x @ value(layer.weight).T,
        rejects=((2, 3, 5), ROWS),
    ),
    plain("SinusoidalPositions", SinusoidalPositions, (2, 3, 6), positions, rejects=((2, 3, 5), ROWS)),
    plain("MultiHeadAttention", lambda: MultiHeadAttention(4, 2, 0), (2, 3, 4), attention, rejects=((3, 4), ROWS)),
    plain(
        "MultiHeadAttention-causal",
        lambda: MultiHeadAttention(8, 4, 0, causal=True, key_value_heads=2, rotary=True),
        (2, 3, 8),
        attention,
        rejects=((3, 8), ROWS),
    ),
    plain(
        "TransformerBlock-post-norm",
        lambda: TransformerBlock(4, 2, 6, 0, norm="post", gated=True, causal=True),
        (2, 3, 4),
        post_norm_block,
        rejects=((2, 3, 6), ROWS),
    ),
    plain(
        "TransformerBlock-pre-norm",
        lambda: TransformerBlock(4, 2, 6, 0),
        (2, 3, 4),
        transformer_block,
        rejects=((2, 3, 6), ROWS),
    ),
    Case(
        "TransformerBlock",
        lambda: TransformerBlock(4, 2, 6, 0, dropout=0.3),
        (2, 3, 4),
        transformer_block,
        rejects=((2, 3, 6), ROWS),
    ),
    plain(
        "Sequential",
        lambda: Sequential(Dense(4, 6, 0), Tanh()),
        (3, 4),
        lambda layer, x: np.tanh(dense(layer.layers[0], x)),
        rejects=((3, 6), ROWS),
    ),
    plain(
        "Residual",
        lambda: Residual(Dense(4, 4, 0)),
        (3, 4),
        lambda layer, x: x + dense(layer.inner, x),
        rejects=((4, 3), ROWS),
    ),
    plain(
        "LayerStack",
        lambda: LayerStack([Dense(4, 4, seed) for seed in range(3)]),
        (3, 4),
        lambda layer, x: functools.reduce(lambda y, part: dense(part, y), layer.layers, x),
        rejects=((3, 5), ROWS),
    ),
    plain("AutoLayer", Swish, (3, 4), lambda layer, x: x / (1 + np.exp(-value(layer.beta) * x)), only_float=False),
]


@dataclass(frozen=True)
class LossCase:
    """A loss, a target, and its formula (prediction, target) -> number in NumPy."""

    name: str
    make: Callable[[], Loss]
    shape: tuple[int, ...]
    target: Callable[[np.random.Generator], np.ndarray]
    formula: Callable[[np.ndarray, np.ndarray], float]

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """A prediction and a target."""
        rng = np.random.default_rng(4)
        return rng.normal(size=self.shape), self.target(rng)


def mean_squared_error(prediction, target):
    return np.mean((prediction - target) ** 2)


def cross_entropy_of_rows(prediction, target):
    log_p = np.log(softmax(prediction))
    return -(target * log_p).sum(-1).mean()


def cross_entropy(prediction, target):
    p = softmax(prediction).reshape(-1, prediction.shape[-1])
    return -np.mean([math.log(row[label]) for row, label in zip(p, target.reshape(-1).astype(int), strict=True)])


def smooth_cross_entropy(prediction, target):
    rows = np.full(prediction.shape, 0.1 / prediction.shape[-1])
    rows[np.arange(len(target)), target] += 0.9
    return cross_entropy_of_rows(prediction, rows)


def huber(prediction, target):
    distance = np.abs(prediction - target)
    return np.where(distance <= 0.7, distance**2 / 2, 0.7 * (distance - 0.35)).mean()


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def binary_cross_entropy(prediction, target):
    p = sigmoid(prediction)
    return -(target * np.log(p) + (1 - target) * np.log(1 - p)).mean()


def focal(prediction, target):
    p = np.where(target == 1, sigmoid(prediction), 1 - sigmoid(prediction))
    return (np.where(target == 1, 0.3, 0.7) * (1 - p) ** 1.5 * -np.log(p)).mean()


def kl_divergence(prediction, target):
    return (target * np.log(target / softmax(prediction))).sum(-1).mean()


def cosine(prediction, target):
    lengths = np.linalg.norm(prediction, axis=-1) * np.linalg.norm(target, axis=-1)
    return (1 - (prediction * target).sum(-1) / lengths).mean()


def zeros_and_ones(rng):
    return rng.integers(0, 2, (3, 4))


def triplet(prediction, target):
    anchor, positive, negative = (prediction[:, index] for index in range(3))
    near, far = (np.linalg.norm(anchor - other + 1e-6, axis=-1) for other in (positive, negative))
    return np.maximum(near - far + 0.7, 0).mean()


LOSS_CASES = [
    LossCase("Triplet", lambda: Triplet(0.7), (4, 3, 5), lambda rng: np.zeros(4), triplet),
    LossCase("L1", L1, (3, 4), lambda rng: rng.normal(size=(3, 4)), lambda p, t: np.abs(p - t).mean()),
    LossCase("Huber", lambda: Huber(0.7), (3, 4), lambda rng: rng.normal(size=(3, 4)), huber),
    LossCase("BCEWithLogits", BCEWithLogits, (3, 4), zeros_and_ones, binary_cross_entropy),
    LossCase("BCEWithLogits-shares", BCEWithLogits, (5,), lambda rng: rng.uniform(size=5), binary_cross_entropy),
    LossCase(
        "Hinge",
        Hinge,
        (3, 4),
        lambda rng: 2 * zeros_and_ones(rng) - 1,
        lambda p, t: np.maximum(0, 1 - t * p).mean(),
    ),
    LossCase("Focal", lambda: Focal(1.5, 0.3), (3, 4), zeros_and_ones, focal),
    LossCase("Focal-gamma-0", lambda: Focal(0.0), (3, 4), zeros_and_ones, binary_cross_entropy),
    LossCase("KLDivergence", KLDivergence, (3, 4), lambda rng: softmax(rng.normal(size=(3, 4))), kl_divergence),
    LossCase("CosineSimilarity", CosineSimilarity, (2, 3, 4), lambda rng: rng.normal(size=(2, 3, 4)), cosine),
    LossCase(
        "SoftmaxCrossEntropy-smooth",
        lambda: SoftmaxCrossEntropy(label_smoothing=0.1),
        (5, 3),
        lambda rng: rng.integers(0, 3, 5),
        smooth_cross_entropy,
    ),
    LossCase("MSE", MSE, (3, 4), lambda rng: rng.normal(size=(3, 4)), mean_squared_error),
    LossCase("MSE-integers", MSE, (5,), lambda rng: rng.integers(0, 9, 5), mean_squared_error),
    LossCase("SoftmaxCrossEntropy", SoftmaxCrossEntropy, (5, 3), lambda rng: rng.integers(0, 3, 5), cross_entropy),
    LossCase("SoftmaxCrossEntropy-one", SoftmaxCrossEntropy, (3,), lambda rng: np.array(2), cross_entropy),
    LossCase(
        "SoftmaxCrossEntropy-tokens",
        SoftmaxCrossEntropy,
        (2, 4, 3),
        lambda rng: rng.integers(0, 3, (2, 4)),
        cross_entropy,
    ),
    LossCase(
        "SoftmaxCrossEntropy-bool", SoftmaxCrossEntropy, (5, 2), lambda rng: rng.normal(size=5) > 0, cross_entropy
    ),
    LossCase(
        "SoftmaxCrossEntropy-rows",
        SoftmaxCrossEntropy,
        (5, 3),
        lambda rng: softmax(rng.normal(size=(5, 3))),
        cross_entropy_of_rows,
    ),
    LossCase(
        "SoftmaxCrossEntropy-weighted-rows",
        SoftmaxCrossEntropy,
        (5, 3),
        lambda rng: np.abs(rng.normal(size=(5, 3))),
        cross_entropy_of_rows,
    ),
]


def pytest_generate_tests(metafunc):
    for name, cases in (("case", CASES), ("loss_case", LOSS_CASES)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, cases, ids=lambda case: case.name)


@pytest.fixture(scope="session")
def cases():
    return CASES


@pytest.fixture(scope="session")
def loss_cases():
    return LOSS_CASES


@pytest.fixture
def x64() -> Iterator[None]:
    """Float64, compiled in less time."""
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        with jax.enable_x64(True):
            yield
    finally:
        jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="session")
def compilations():
    """A context manager that yields a list; XLA compilations inside it append their names."""

    @contextmanager
    def count() -> Iterator[list[str]]:
        names: list[str] = []

        def listen(event: str, duration: float, **info: Any) -> None:
            if event == "/jax/core/compile/backend_compile_duration":
                names.append(str(info.get("fun_name")))

        jax.monitoring.register_event_duration_secs_listener(listen)
        try:
            yield names
        finally:
            jax.monitoring.unregister_event_duration_listener(listen)

    return count


@pytest.fixture(scope="session")
def pure():
    """Makes a pure function (params' values by path, x) -> y of a layer; its variables stay as they are."""

    def make(layer: Layer, training: bool = True) -> Callable[..., Any]:
        variables, before = layer.variables(), layer.state_dict()

        def function(values: dict[str, jax.Array], *args: Any) -> Any:
            try:
                for path, new in values.items():
                    variables[path].value = new
                return layer.forward(*args, training=training)
            finally:
                for path, old in before.items():
                    variables[path].value = old

        return function

    return make


@pytest.fixture(scope="session")
def live_arrays():
    """Counts the arrays that are alive, those only in garbage left out where there are more than `limit`."""

    def count(limit: int = 0) -> int:
        if len(jax.live_arrays()) > limit:
            gc.collect()
        return len(jax.live_arrays())

    return count
