"""What networks are drawn from. Sizes come from a small set, so that eager kernels are compiled once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import da_layers as dl
import da_optim as do
import jax
import jax.numpy as jnp
import numpy as np

Shape = tuple[int, ...]
Make = Callable[[Shape, jax.Array], dl.Layer]

WIDTH = 4
# Shape of one sample by what it is.
INPUTS: dict[str, Shape] = {"rows": (WIDTH,), "sequences": (3, WIDTH), "images": (6, 6, WIDTH)}
KINDS = {len(shape): kind for kind, shape in INPUTS.items()}
ALL = frozenset(INPUTS)
SEQUENCES, IMAGES = frozenset({"sequences"}), frozenset({"images"})
# Tokens, which an Embedding makes a sequence of, and how many there are.
TOKENS = 5


class Part(NamedTuple):
    """A layer to draw: for what inputs, how it is made, and what it makes of the shape of a sample."""

    inputs: frozenset[str]
    make: Make
    shape: Callable[[Shape], Shape] = lambda shape: shape


class Parabola(dl.AutoLayer):
    """A layer with a backward by `jax.vjp`: x + c x^2 / 10."""

    def __init__(self) -> None:
        self.curvature = dl.Param(jnp.full((), 0.5), role="scale")

    def function(self, values: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return x + values["curvature"] * x * x / 10


class SquaredLength(dl.AutoLayer):
    """A layer that multiplies an array with itself, row by row."""

    def function(self, values: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return x + jnp.einsum("...i,...i->...", x, x)[..., None] / 30


class Charbonnier(dl.Loss):
    """A loss whose gradient comes from `jax.grad`, apart from its value."""

    def forward(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        self.keep(prediction, target)
        return self.value(prediction, target)

    def backward(self) -> jax.Array:
        return jax.grad(self.value)(*self.take())

    def value(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.sqrt((prediction - target) ** 2 + 1e-3).mean()


class Remembers(dl.Layer):
    """A layer as a user writes one: it keeps its input in an attribute, and a moving average in a Buffer."""

    def __init__(self, width: int) -> None:
        self.offset = dl.Param(jnp.zeros(width), role="bias")
        self.moving = dl.Buffer(jnp.zeros(width))

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        if training:
            self.x = x
            self.moving.value = 0.9 * self.moving.value + 0.1 * x.mean(tuple(range(x.ndim - 1)))
        return jnp.sin(x) + self.offset.value - self.moving.value

    def backward(self, g: jax.Array) -> jax.Array:
        self.offset.add_grad(g.sum(tuple(range(g.ndim - 1))))
        return g * jnp.cos(self.x)


class Asks(dl.Layer):
    """Attention to another sequence, parts of which nothing sees."""

    def __init__(self, width: int, key: jax.Array) -> None:
        self.attention = dl.MultiHeadAttention(width, 2, key, key_value_heads=1)

    def forward(self, x: jax.Array, training: bool = False) -> jax.Array:
        return x + self.attention.forward(x, training, memory=x[:, ::-1], mask=x[..., 0] > -0.5)

    def backward(self, g: jax.Array) -> jax.Array:
        of_x, of_memory = self.attention.backward(g)
        return g + of_x + of_memory[:, ::-1]


def _shared_layer(shape: Shape, key: jax.Array) -> dl.Layer:
    dense = dl.Dense(shape[-1], shape[-1], key)
    return dl.Sequential(dense, dl.Tanh(), dense)


def _shared_param(shape: Shape, key: jax.Array) -> dl.Layer:
    first, second = dl.Dense(shape[-1], shape[-1], key), dl.Dense(shape[-1], shape[-1], key)
    second.weight = first.weight
    return dl.Sequential(first, dl.GELU(), second)


def _frozen(shape: Shape, key: jax.Array) -> dl.Layer:
    dense = dl.Dense(shape[-1], shape[-1], key)
    dense.weight.trainable = False
    return dense


def _residual(shape: Shape, key: jax.Array) -> dl.Layer:
    return dl.Residual(dl.Sequential(dl.LayerNorm(shape[-1]), dl.Dense(shape[-1], shape[-1], key), dl.ReLU()))


def _halved(shape: Shape) -> Shape:
    return (-(-shape[0] // 2), -(-shape[1] // 2), shape[2])


MIDDLE: dict[str, Part] = {
    "Dense": Part(ALL, lambda s, k: dl.Dense(s[-1], WIDTH, k), lambda s: (*s[:-1], WIDTH)),
    "Dense wide": Part(ALL, lambda s, k: dl.Dense(s[-1], 2 * WIDTH, k), lambda s: (*s[:-1], 2 * WIDTH)),
    "Dense without bias": Part(ALL, lambda s, k: dl.Dense(s[-1], WIDTH, k, bias=False), lambda s: (*s[:-1], WIDTH)),
    "Dense frozen": Part(ALL, _frozen),
    "Dense shared": Part(ALL, _shared_layer),
    "Param shared": Part(ALL, _shared_param),
    "ReLU": Part(ALL, lambda s, k: dl.ReLU()),
    "GELU": Part(ALL, lambda s, k: dl.GELU()),
    "GELU with tanh": Part(ALL, lambda s, k: dl.GELU(approximate=True)),
    "LeakyReLU": Part(ALL, lambda s, k: dl.LeakyReLU(0.1)),
    "PReLU": Part(ALL, lambda s, k: dl.PReLU(s[-1])),
    "ELU": Part(ALL, lambda s, k: dl.ELU()),
    "SiLU": Part(ALL, lambda s, k: dl.SiLU()),
    "Softplus": Part(ALL, lambda s, k: dl.Softplus()),
    "Mish": Part(ALL, lambda s, k: dl.Mish()),
    "Softmax": Part(ALL, lambda s, k: dl.Softmax()),
    "Tanh": Part(ALL, lambda s, k: dl.Tanh()),
    "Sigmoid": Part(ALL, lambda s, k: dl.Sigmoid()),
    "LayerNorm": Part(ALL, lambda s, k: dl.LayerNorm(s[-1])),
    "RMSNorm": Part(ALL, lambda s, k: dl.RMSNorm(s[-1])),
    "BatchNorm": Part(ALL, lambda s, k: dl.BatchNorm(s[-1])),
    "GroupNorm": Part(ALL, lambda s, k: dl.GroupNorm(2, s[-1])),
    "InstanceNorm": Part(frozenset({"sequences", "images"}), lambda s, k: dl.InstanceNorm(s[-1])),
    "Dropout": Part(ALL, lambda s, k: dl.Dropout(0.3, k)),
    "Residual": Part(ALL, _residual),
    "LayerStack": Part(ALL, lambda s, k: dl.LayerStack([_residual(s, key) for key in jax.random.split(k, 3)])),
    "AutoLayer": Part(ALL, lambda s, k: Parabola()),
    "AutoLayer of a product with itself": Part(ALL, lambda s, k: SquaredLength()),
    "user's layer": Part(ALL, lambda s, k: Remembers(s[-1])),
    "MultiHeadAttention": Part(SEQUENCES, lambda s, k: dl.MultiHeadAttention(s[-1], 2, k)),
    "TransformerBlock": Part(SEQUENCES, lambda s, k: dl.TransformerBlock(s[-1], 2, 2 * WIDTH, k, dropout=0.1)),
    "LearnedPositions": Part(SEQUENCES, lambda s, k: dl.LearnedPositions(5, s[-1], k)),
    "Reshape": Part(IMAGES, lambda s, k: dl.Reshape(-1, s[-1]), lambda s: (s[0] * s[1], s[2])),
    "Checkpoint": Part(ALL, lambda s, k: dl.Checkpoint(dl.Sequential(_residual(s, k), dl.Dropout(0.3, k)))),
    "TiedHead": Part(ALL, lambda s, k: dl.TiedHead(dl.Embedding(WIDTH, s[-1], k)), lambda s: (*s[:-1], WIDTH)),
    "SinusoidalPositions": Part(SEQUENCES, lambda s, k: dl.SinusoidalPositions()),
    "Conv2D": Part(IMAGES, lambda s, k: dl.Conv2D(s[-1], WIDTH, 3, k), lambda s: (*s[:-1], WIDTH)),
    "Conv2D stride 2": Part(
        IMAGES,
        lambda s, k: dl.Conv2D(s[-1], WIDTH, 3, k, stride=2),
        lambda s: (*_halved(s)[:-1], WIDTH),
    ),
    "Conv2D dilated in groups": Part(
        IMAGES,
        lambda s, k: dl.Conv2D(s[-1], WIDTH, 3, k, dilation=2, groups=2, bias=False),
        lambda s: (*s[:-1], WIDTH),
    ),
    "DepthwiseConv2D": Part(IMAGES, lambda s, k: dl.DepthwiseConv2D(s[-1], 3, k)),
    "SeparableConv2D": Part(
        IMAGES, lambda s, k: dl.SeparableConv2D(s[-1], WIDTH, 3, k, padding=1), lambda s: (*s[:-1], WIDTH)
    ),
    "ConvTranspose2D": Part(IMAGES, lambda s, k: dl.ConvTranspose2D(s[-1], WIDTH, 3, k), lambda s: (*s[:-1], WIDTH)),
    "Conv3D": Part(
        IMAGES,
        lambda s, k: dl.Sequential(dl.Reshape(s[0], 1, *s[1:]), dl.Conv3D(s[-1], s[-1], 2, k), dl.Reshape(*s)),
    ),
    "Conv1D causal": Part(
        SEQUENCES,
        lambda s, k: dl.Conv1D(s[-1], WIDTH, 2, k, padding="causal", dilation=2),
        lambda s: (*s[:-1], WIDTH),
    ),
    "ConvTranspose1D": Part(SEQUENCES, lambda s, k: dl.ConvTranspose1D(s[-1], WIDTH, 3, k), lambda s: (*s[:-1], WIDTH)),
    "RNN": Part(SEQUENCES, lambda s, k: dl.RNN(s[-1], WIDTH, k), lambda s: (*s[:-1], WIDTH)),
    "GRU": Part(SEQUENCES, lambda s, k: dl.GRU(s[-1], WIDTH, k, layers=2), lambda s: (*s[:-1], WIDTH)),
    "LSTM": Part(SEQUENCES, lambda s, k: dl.LSTM(s[-1], WIDTH, k), lambda s: (*s[:-1], WIDTH)),
    "LSTM both ways": Part(
        SEQUENCES,
        lambda s, k: dl.LSTM(s[-1], WIDTH, k, bidirectional=True, sequences=False),
        lambda s: (2 * WIDTH,),
    ),
    "SpatialDropout": Part(ALL, lambda s, k: dl.SpatialDropout(0.3, k)),
    "StochasticDepth": Part(
        ALL, lambda s, k: dl.Residual(dl.Sequential(dl.Dense(s[-1], s[-1], k), dl.StochasticDepth(0.3, k)))
    ),
    "GatedFeedForward": Part(ALL, lambda s, k: dl.GatedFeedForward(s[-1], 2 * WIDTH, k)),
    "Parallel": Part(
        ALL,
        lambda s, k: dl.Sequential(
            dl.Parallel(dl.Dense(s[-1], WIDTH, k), dl.Lambda(jnp.sin)), dl.Concat(), dl.Dense(WIDTH + s[-1], WIDTH, k)
        ),
        lambda s: (*s[:-1], WIDTH),
    ),
    "MultiHeadAttention causal": Part(
        SEQUENCES,
        lambda s, k: dl.MultiHeadAttention(s[-1], 2, k, causal=True, key_value_heads=1, rotary=True),
    ),
    "MultiHeadAttention to a memory": Part(SEQUENCES, lambda s, k: Asks(s[-1], k)),
    "TransformerBlock post-norm": Part(
        SEQUENCES, lambda s, k: dl.TransformerBlock(s[-1], 2, 2 * WIDTH, k, norm="post", gated=True)
    ),
    "MaxPool2D": Part(IMAGES, lambda s, k: dl.MaxPool2D(3, 2, "same"), _halved),
    "AveragePool2D": Part(IMAGES, lambda s, k: dl.AveragePool2D(3, 2, "same"), _halved),
    "MaxPool1D": Part(SEQUENCES, lambda s, k: dl.MaxPool1D(2, 1, "same")),
    "AveragePool1D": Part(SEQUENCES, lambda s, k: dl.AveragePool1D(2, 1, "same")),
    "Flatten": Part(
        frozenset({"sequences", "images"}), lambda s, k: dl.Flatten(), lambda s: (s[0] * s[1] * (*s, 1)[2],)
    ),
    "GlobalAveragePool": Part(
        frozenset({"sequences", "images"}), lambda s, k: dl.GlobalAveragePool(), lambda s: s[-1:]
    ),
}


class LossPart(NamedTuple):
    """A loss to draw, targets for predictions of a shape, and the shape of a prediction for one sample."""

    make: Callable[[], dl.Loss]
    target: Callable[[np.random.Generator, Shape], Any]
    outputs: Shape = (3,)


def _numbers(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def _labels(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.integers(0, shape[-1], shape[:-1])


def _bits(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.integers(0, 2, shape)


def _shares(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.dirichlet(np.ones(shape[-1]), shape[:-1]).astype(np.float32)


LOSSES: dict[str, LossPart] = {
    "SoftmaxCrossEntropy": LossPart(dl.SoftmaxCrossEntropy, _labels),
    "SoftmaxCrossEntropy of rows": LossPart(dl.SoftmaxCrossEntropy, _shares),
    "SoftmaxCrossEntropy smoothed": LossPart(lambda: dl.SoftmaxCrossEntropy(label_smoothing=0.1), _labels),
    "SoftmaxCrossEntropy of some": LossPart(lambda: dl.SoftmaxCrossEntropy(ignore_index=1), _labels),
    "MSE": LossPart(dl.MSE, _numbers),
    "L1": LossPart(dl.L1, _numbers),
    "user's loss by jax.grad": LossPart(Charbonnier, _numbers),
    "Huber": LossPart(lambda: dl.Huber(0.5), _numbers),
    "BCEWithLogits": LossPart(dl.BCEWithLogits, _bits),
    "Focal": LossPart(lambda: dl.Focal(1.5, 0.3), _bits),
    "Hinge": LossPart(dl.Hinge, lambda rng, shape: 2 * _bits(rng, shape) - 1),
    "KLDivergence": LossPart(dl.KLDivergence, _shares),
    "CosineSimilarity": LossPart(dl.CosineSimilarity, _numbers),
    "Triplet": LossPart(dl.Triplet, lambda rng, shape: _numbers(rng, shape[:1]), outputs=(3, 2)),
}

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: do.SGD(0.05),
    "SGD momentum": lambda: do.SGD(0.05, 0.9),
    "SGD Nesterov": lambda: do.SGD(0.05, 0.9, nesterov=True),
    "Adam": lambda: do.Adam(0.01),
    "RMSProp": lambda: do.RMSProp(0.01),
    "AdaGrad": lambda: do.AdaGrad(0.05),
}

SCHEDULES: dict[str, Callable[[], Any]] = {
    "no schedule": lambda: None,
    "ConstantLR": lambda: do.ConstantLR(),
    "StepLR": lambda: do.StepLR(2, 0.3),
    "ExponentialLR": lambda: do.ExponentialLR(0.8),
    "PolynomialLR": lambda: do.PolynomialLR(6, 2.0, 0.01),
    "CosineLR": lambda: do.CosineLR(7),
    "CosineWarmRestarts": lambda: do.CosineWarmRestarts(2),
    "LinearWarmup": lambda: do.LinearWarmup(3, after=do.CosineLR(5)),
    "NoamSchedule": lambda: do.NoamSchedule(2),
    "OneCycleLR": lambda: do.OneCycleLR(4),
    "PiecewiseLR": lambda: do.PiecewiseLR({1: 0.5, 2.5: 0.1}),
    "JoinedLR": lambda: do.JoinedLR(do.ConstantLR(), 1.5, do.CosineLR(4)),
    "ReduceOnPlateau": lambda: do.ReduceOnPlateau(0.5, 1),
}
