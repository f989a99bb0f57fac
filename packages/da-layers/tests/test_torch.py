"""Layers and losses against PyTorch: numbers that scripts/torch_reference.py wrote, in float32."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

HERE = Path(__file__).parent
# Of float32 numbers that are computed in another order: largest error by largest number. A model of two blocks is
# the furthest off, with 5e-6.
TOLERANCE = 1e-5
# Their masks are random numbers of JAX's, or they are made of a layer that has such.
RANDOM = {"Dropout", "SpatialDropout", "StochasticDepth", "Checkpoint-state", "TransformerBlock"}


@pytest.fixture(scope="module")
def reference():
    found = {}
    with np.load(HERE / "torch_reference.npz") as file:
        for name in file.files:
            case, _, entry = name.partition("/")
            found.setdefault(case, {})[entry] = file[name]
    return found


def below(entries, prefix):
    return {name.removeprefix(prefix): array for name, array in entries.items() if name.startswith(prefix)}


def assert_near(actual, expected):
    assert np.abs(np.asarray(actual) - expected).max() <= TOLERANCE * max(np.abs(expected).max(), 1)


def test_layer(case, reference):
    if case.name in RANDOM:
        assert case.name not in reference
        return
    entries, layer = reference[case.name], case.make()
    layer.load_state_dict(below(entries, "value."))
    assert_near(layer.forward(jnp.asarray(entries["x"]), training=True), entries["y"])
    assert_near(layer.backward(jnp.asarray(entries["g"])), entries["gx"])
    for path, gradient in below(entries, "gradient.").items():
        assert_near(layer.variables()[path].grad, gradient)


def test_loss(loss_case, reference):
    entries, loss = reference[loss_case.name], loss_case.make()
    assert_near(loss.forward(jnp.asarray(entries["prediction"]), jnp.asarray(entries["target"])), entries["loss"])
    assert_near(loss.backward(), entries["gradient"])


def test_every_layer_and_loss_has_a_row_in_the_table(cases, loss_cases):
    table = (HERE.parents[0] / "ACCURACY.md").read_text()
    rows = {line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")}
    assert {case.name for case in cases} | {case.name for case in loss_cases} <= rows
