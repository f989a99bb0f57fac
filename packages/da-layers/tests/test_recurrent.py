"""What recurrent layers do beside the contract: streams, starts, and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import GRU, LSTM, RNN, Conv2D, ConvTranspose2D, Parallel, ReLU, recurrent_net, resnet_mlp

KINDS = [RNN, GRU, LSTM]


@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_gives_what_the_sequence_gives(kind):
    layer, x = kind(3, 4, 0, layers=2), jax.random.normal(jax.random.key(1), (2, 5, 3))
    state, outputs = None, []
    for t in range(5):
        y, state = layer.step(x[:, t], state)
        outputs.append(y)
    np.testing.assert_allclose(jnp.stack(outputs, 1), layer.forward(x), rtol=1e-5, atol=1e-6)


def test_step_says_what_it_cannot_do():
    x = jnp.ones((2, 3))
    with pytest.raises(ValueError, match=r"step needs a layer of one direction\. Received: bidirectional=True"):
        GRU(3, 4, 0, bidirectional=True).step(x)
    with pytest.raises(ValueError, match=r"x must have shape \(batch, 3\). Received: x.shape=\(2, 4\)"):
        GRU(3, 4, 0).step(jnp.ones((2, 4)))
    with pytest.raises(
        ValueError, match=r"state must have the shapes \[\[\(2, 4\)\]\]. Received: state=\[\[\(1, 4\)\]\]"
    ):
        GRU(3, 4, 0).step(x, [(jnp.ones((1, 4)),)])


def test_an_lstm_starts_with_an_open_forget_gate():
    bias = LSTM(2, 3, 0).layers[0][0].bias.value
    assert bias.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RNN(3, 0, 0), "sizes must be integers of 1 or more. Received: n_in=3, n_out=0"),
        (lambda: RNN(3, 2, 0, layers=0), "sizes must be integers of 1 or more. Received: n_in=3, n_out=2, layers=0"),
        (lambda: recurrent_net(1, 2, 1, 0, "elman"), "kind must be one of rnn, gru, lstm. Received: kind='elman'"),
        (lambda: resnet_mlp(1, 2, 2, 0, 1, 0), "blocks must be an integer of 1 or more. Received: blocks=0"),
        (
            lambda: Conv2D(4, 6, 3, 0, groups=4),
            "groups must divide n_in and n_out. Received: n_in=4, n_out=6.*groups=4",
        ),
        (lambda: Conv2D(4, 6, 3, 0, padding="causal"), "padding must be 'same', 'valid' or a number of zeros"),
        (lambda: Conv2D(4, 6, 3, 0, padding=-1), "padding must be 'same', 'valid' or a number.* Received: padding=-1"),
        (
            lambda: Conv2D(4, 6, (3, 3, 3), 0),
            "size, stride, dilation must be one number, or 2. Received: .*size=\\(3, 3, 3\\)",
        ),
        (lambda: ConvTranspose2D(4, 6, 3, 0, stride=0), "sizes must be integers of 1 or more. Received: .*stride=0"),
        (lambda: Parallel(), "there must be a layer. Received: layers=\\[\\]"),
        (lambda: Parallel(ReLU(), 3), "every part must be a Layer. Received: layers\\[1\\]=3"),
    ],
)
def test_arguments_out_of_range_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_padding_must_leave_something():
    with pytest.raises(
        ValueError, match=r"padding must leave an entry along each axis. Received: x.shape=\(1, 1, 1, 4\)"
    ):
        ConvTranspose2D(4, 6, 3, 0, padding=2).forward(jnp.ones((1, 1, 1, 4)))


def test_dict_inputs_go_to_their_layers():
    layer = Parallel({"a": ReLU(), "b": ReLU()})
    x = {"a": jnp.array([-1.0, 2.0]), "b": jnp.array([3.0])}
    y = layer.forward(x, training=True)
    assert jax.tree.map(lambda a: a.tolist(), y) == {"a": [0.0, 2.0], "b": [3.0]}
    assert jax.tree.map(lambda a: a.tolist(), layer.backward(x)) == {"a": [0.0, 2.0], "b": [3.0]}
    with pytest.raises(ValueError, match=r"x must be a dict of \['a', 'b'\]. Received: x=\['a'\]"):
        layer.forward({"a": x["a"]})
