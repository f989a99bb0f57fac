import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import (
    MSE,
    BatchNorm,
    Conv2D,
    Dense,
    Dropout,
    Key,
    LayerNorm,
    MultiHeadAttention,
    ReLU,
    Sequential,
    Tanh,
    TransformerBlock,
    cnn,
    mlp,
    summary,
    transformer_encoder,
)


def normal(seed, shape):
    return jax.random.normal(jax.random.PRNGKey(seed), shape)


def test_mlp_starts_at_its_formula():
    model = mlp([512] * 5, jax.random.PRNGKey(0))
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    layers = [layer for layer in model.layers if isinstance(layer, Dense)]
    assert len(layers) == 4
    for layer, key in zip(layers, keys, strict=True):
        expected = jax.random.normal(key, (512, 512)) * math.sqrt(2 / 512)
        np.testing.assert_array_equal(layer.weight.value, expected)
        assert not np.asarray(layer.bias.value).any()


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="a figure of the CPU")
def test_mlp_first_loss():
    model = mlp([512] * 5, jax.random.PRNGKey(0))
    loss = MSE().forward(model.forward(normal(1, (256, 512)), training=True), normal(2, (256, 512)))
    assert float(loss) == 2.840958833694458


def test_mlp_has_an_activation_between_two_dense():
    model = mlp([4, 6, 4, 6], 0, activation=Tanh)
    assert [type(layer) for layer in model.layers] == [Dense, Tanh, Dense, Tanh, Dense]
    assert [param.role for param in model.params()] == ["weight", "bias"] * 3


MODELS = {
    "mlp": (lambda **rest: mlp([4, 6, 4], 0, activation=Tanh), (3, 4), (3, 4)),
    "cnn": (lambda **rest: cnn(2, [4, 6], 4, 0, **rest), (2, 5, 4, 2), (2, 4)),
    "transformer_encoder": (lambda **rest: transformer_encoder(4, 4, 2, 6, 2, 6, 0, **rest), (2, 3, 4), (2, 6)),
}


@pytest.mark.parametrize(("make", "shape", "shape_out"), MODELS.values(), ids=MODELS.keys())
def test_gradients_predict_how_the_output_moves(make, shape, shape_out, x64):
    model, rng = make(), np.random.default_rng(0)
    x, g = rng.normal(size=shape), rng.normal(size=shape_out)
    before = model.state_dict()
    params = {param.name: param for param in model.params()}
    directions = {name: rng.normal(size=param.value.shape) for name, param in params.items()}
    gx_direction = rng.normal(size=shape)

    def output(distance):
        model.load_state_dict(before)
        for name, direction in directions.items():
            params[name].value = before[name] + distance * direction
        y = model.forward(jnp.asarray(x + distance * gx_direction), training=True)
        assert y.shape == shape_out
        return float((np.asarray(y) * g).sum())

    step = 1e-6
    moved = (output(step) - output(-step)) / (2 * step)
    output(0.0)
    predicted = (np.asarray(model.backward(jnp.asarray(g))) * gx_direction).sum()
    predicted += sum((np.asarray(params[name].grad) * direction).sum() for name, direction in directions.items())
    assert predicted == pytest.approx(moved, rel=1e-7)


@pytest.mark.parametrize("name", ["cnn", "transformer_encoder"])
def test_dropout_is_there_when_asked_for(name):
    make, shape, shape_out = MODELS[name]

    def dropouts(model):
        return [layer for layer in model.layers_by_path().values() if isinstance(layer, Dropout)]

    assert dropouts(make()) == []
    model = make(dropout=0.5)
    assert {layer.rate for layer in dropouts(model)} == {0.5}
    assert jax.eval_shape(model.forward, jnp.ones(shape)).shape == shape_out


def test_cnn_halves_the_image_after_the_first_convolution():
    convolutions = [layer for layer in cnn(2, [4, 6, 4], 4, 0).layers if isinstance(layer, Conv2D)]
    assert [layer.window.stride for layer in convolutions] == [(1, 1), (2, 2), (2, 2)]
    assert sum(isinstance(layer, BatchNorm) for layer in cnn(2, [4, 6, 4], 4, 0).layers) == 3


def test_stacked_blocks_are_the_same_blocks():
    plain, stacked = (transformer_encoder(4, 4, 2, 6, 3, 6, 0, stacked=stacked) for stacked in (False, True))
    x = jnp.ones((2, 3, 4))
    assert (plain.forward(x) == stacked.forward(x)).all()
    assert len(stacked.layers) == len(plain.layers) - 2


def test_transformer_encoder_has_its_blocks():
    model = transformer_encoder(4, 4, 2, 6, 3, 6, 0)
    assert sum(isinstance(layer, TransformerBlock) for layer in model.layers) == 3


@pytest.mark.parametrize(
    "key",
    [0, np.int32(0), jax.random.key(0), jax.random.PRNGKey(0)],
    ids=["int", "numpy int", "typed key", "raw key"],
)
@pytest.mark.parametrize("make", [lambda key: mlp([4, 6], key), lambda key: transformer_encoder(4, 4, 2, 6, 1, 6, key)])
def test_every_kind_of_key_gives_the_same_weights(make, key):
    expected = make(0).state_dict()
    for path, actual in make(key).state_dict().items():
        np.testing.assert_array_equal(actual, expected[path])


@pytest.mark.parametrize("key", [None, "seed", [1, 2], 0.5, True, np.zeros(3), jax.random.split(jax.random.key(0), 2)])
def test_what_is_no_key_is_rejected(key):
    with pytest.raises(
        ValueError, match=r"^key must be an int or one key from jax\.random\.key or PRNGKey\. Received: key="
    ):
        mlp([4, 6], key)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mlp([4], 0), r"^sizes must hold an input and an output size at least\. Received: sizes=\[4\]"),
        (lambda: mlp(4, 0), r"^sizes must hold an input and an output size at least\. Received: sizes=4"),
        (lambda: mlp([4, 3], 0, ReLU()), r"^activation must make a layer, as the class ReLU does\. Received"),
        (lambda: cnn(1, 4, 2, 0), r"^channels must hold one number at least\. Received: channels=4"),
        (lambda: mlp([4, 0], 0), r"^Dense: sizes must be integers of 1 or more\. Received: n_in=4, n_out=0"),
        (lambda: mlp([4.0, 3], 0), r"^Dense: sizes must be integers of 1 or more\. Received: n_in=4\.0, n_out=3"),
        (lambda: mlp([True, 3], 0), r"^Dense: sizes must be integers of 1 or more\. Received: n_in=True, n_out=3"),
        (lambda: cnn(1, [4.0], 3, 0), r"^Conv2D: sizes must be integers of 1 or more\. Received: n_in=1, n_out=4\.0"),
        (lambda: Conv2D(1, 4, (3, 0), 0), r"^Conv2D: sizes must be integers of 1 or more\. Received: .*size=\(3, 0\)"),
        (lambda: LayerNorm(0), r"^LayerNorm: sizes must be integers of 1 or more\. Received: n=0"),
        (
            lambda: MultiHeadAttention(8, 2.0, 0),
            r"^MultiHeadAttention: sizes must be integers of 1 or more.*heads=2\.0",
        ),
        (lambda: cnn(1, [], 2, 0), r"^channels must hold one number at least\. Received: channels=\[\]"),
        (
            lambda: transformer_encoder(4, 4, 2, 6, 0, 2, 0),
            r"^blocks must be an integer of 1 or more\. Received: blocks=0",
        ),
        (lambda: transformer_encoder(4, 4, 3, 6, 1, 2, 0), r"heads must divide d_model\. Received: heads=3, d_model=4"),
        (lambda: cnn(1, [4], 2, 0, dropout=1.5), r"^Dropout: rate must be from 0 to below 1\. Received: rate=1\.5"),
    ],
)
def test_sizes_that_make_no_model(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Notes(Dense):
    """Moves a Key in evaluation too, and keeps its input in an attribute."""

    def __init__(self):
        super().__init__(4, 4, 0)
        self.stream = Key(0)

    def forward(self, x, training=False):
        self.x = x + jax.random.normal(self.stream.next(), x.shape)
        return super().forward(self.x, training)


def test_a_summary_leaves_the_model_as_it_was():
    model = Sequential(Notes(), Tanh())
    before = model.layers[0].stream.value
    assert "layers.0 (Notes)" in summary(model, jnp.ones((2, 4)))
    assert model.layers[0].stream.value is before
    assert not hasattr(model.layers[0], "x")
    assert jnp.isfinite(model.forward(jnp.ones((2, 4)))).all()
