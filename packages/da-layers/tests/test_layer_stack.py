"""What a stack asks of its layers."""

import pytest
from da_layers import Dense, Dropout, LayerStack, ReLU, Sequential


def test_unlike_layers_are_refused_by_name():
    layers = [Sequential(Dense(4, 4, 0), ReLU()), Sequential(Dense(4, 4, 1), ReLU()), Sequential(Dense(4, 4, 2))]
    with pytest.raises(
        ValueError, match=r"LayerStack: layers\[2\] must be like layers\[0\]\. Received: unlike=\['layers"
    ):
        LayerStack(layers)
    with pytest.raises(ValueError, match=r"layers\[1\] must be like layers\[0\]\. Received: unlike=\['rate'\]"):
        LayerStack([Dropout(0.1, 0), Dropout(0.2, 0)])
    with pytest.raises(ValueError, match=r"Received: unlike=\['bias', 'n_out', 'weight'\]"):
        LayerStack([Dense(4, 4, 0), Dense(4, 5, 0)])


def test_shared_variables_are_refused():
    first, second = Dense(4, 4, 0), Dense(4, 4, 1)
    second.weight = first.weight
    with pytest.raises(ValueError, match=r"layers must share no Variable\. Received: shared=1"):
        LayerStack([first, second])


def test_no_layer_is_refused():
    with pytest.raises(ValueError, match=r"layers must hold one at least\. Received: layers=\[\]"):
        LayerStack([])
