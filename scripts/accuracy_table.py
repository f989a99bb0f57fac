"""Measures every layer and loss against PyTorch, float64 and the compiled step; writes ACCURACY.md of da-layers.

Run in the root environment, after scripts/torch_reference.py: hatch run python scripts/accuracy_table.py
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from da_layers import MSE, AutoLayer, Key, Layer, Loss, Param, Sequential
from da_optim import SGD
from da_trainer import Trainer, bits_equal

LAYERS = Path(__file__).parents[1] / "packages" / "da-layers"
HEAD = """# Accuracy of every layer and loss

Largest error by largest number (or by 1, where that is smaller) of the cases that the tests run. In float32 against
PyTorch TORCH, forward and backward (gradients of the input and the Params); in float32 against the same in
float64 by `jax.vjp`. Last, training with SGD for five epochs by the loop and compiled: whether all losses and Variables
have the same bits. Where masks are random numbers, PyTorch has none.

Written by `scripts/accuracy_table.py`, on a CPU with jax JAX.

| case | PyTorch, forward | PyTorch, backward | float64, forward | float64, backward | loop and compiled |
|---|---|---|---|---|---|
"""


def load_cases() -> Any:
    spec = importlib.util.spec_from_file_location("cases", LAYERS / "tests" / "conftest.py")
    if spec is None or spec.loader is None:
        sys.exit("the table of cases is not there")
    sys.modules["cases"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def error(actual: Any, expected: Any) -> float:
    expected = np.asarray(expected, np.float64)
    return float(np.abs(np.asarray(actual, np.float64) - expected).max() / max(np.abs(expected).max(), 1))


def largest(actual: dict[str, Any], expected: dict[str, Any]) -> float:
    return max(error(actual[name], expected[name]) for name in expected)


def single(tree: Any) -> Any:
    """float32 for floats."""
    return jax.tree.map(lambda a: jnp.asarray(a, jnp.float32) if jnp.issubdtype(a.dtype, jnp.floating) else a, tree)


def run(layer: Layer, x: Any, g: Any) -> tuple[Any, dict[str, Any]]:
    """Output and gradients of a layer as it is."""
    y = layer.forward(x, training=True)
    gx = layer.backward(g)
    return y, {"x": gx} | {param.name: param.grad for param in layer.params()}


def by_vjp(layer: Layer, x: Any, g: Any) -> tuple[Any, dict[str, Any]]:
    params = {path: part for path, part in layer.variables().items() if isinstance(part, Param)}
    before = layer.state_dict()

    def function(values: Any, x: Any) -> Any:
        for path, value in values.items():
            params[path].value = value
        return layer.forward(x, training=True)

    y, pullback = jax.vjp(function, {path: part.value for path, part in params.items()}, x)
    gradients, gx = pullback(g)
    layer.load_state_dict(before)
    for part in layer.layers_by_path().values():
        part.forget()
    return y, gradients | {"x": gx}


def layer_row(case: Any, entries: dict[str, Any] | None) -> list[str]:
    with jax.enable_x64(True):
        layer = case.build()
        x = jnp.asarray(single(case.x()), jnp.float64)
        for variable in layer.variables().values():
            if not isinstance(variable, Key):
                variable.value = jnp.asarray(single(variable.value), variable.value.dtype)
        state, y = layer.state_dict(), jax.eval_shape(lambda: layer.forward(x))
        g = jnp.asarray(single(case.g(y)), jnp.float64)
        y64, gradients64 = by_vjp(layer, x, g)
        state, x, g, y64, gradients64 = jax.tree.map(np.asarray, (state, x, g, y64, gradients64))
    layer = case.make()
    layer.load_state_dict(single(state))
    y, gradients = run(layer, single(x), single(g))
    cells = ["-", "-"]
    if entries:
        torch_layer = case.make()
        torch_layer.load_state_dict(below(entries, "value."))
        torch_y, torch_gradients = run(torch_layer, jnp.asarray(entries["x"]), jnp.asarray(entries["g"]))
        expected = below(entries, "gradient.") | {"x": entries["gx"]}
        cells = [f"{error(torch_y, entries['y']):.0e}", f"{largest(torch_gradients, expected):.0e}"]
    cells += [f"{error(y, y64):.0e}", f"{largest(gradients, gradients64):.0e}"]
    X = np.random.default_rng(0).normal(size=(7, *case.shape[1:])).astype(np.float32)
    target = np.zeros((7, *y.shape[1:]), np.float32)
    trains = y.ndim > 0 and len(case.shape) > 1
    return [*cells, same_bits(case.make, MSE, X, target) if trains else "no batch"]


def below(entries: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in entries.items() if name.startswith(prefix)}


class Offset(AutoLayer):
    """Makes a loss have something to train."""

    def __init__(self) -> None:
        self.offset = Param(0.5, role="bias")

    def function(self, values: Any, x: Any) -> Any:
        return x + values["offset"]


def same_bits(model: Any, loss: Any, X: Any, y: Any) -> str:
    runs = []
    for mode in (False, True):
        trainer = Trainer(Sequential(Offset(), model()), loss(), SGD(0.01), compile=mode)
        trainer.fit(X, y, 5, 4)
        runs.append((trainer.model.state_dict(), trainer.history_))
    return "the same bits" if bits_equal(*runs) else "OTHER BITS"


def loss_row(case: Any, entries: dict[str, Any]) -> list[str]:
    prediction, target = jnp.asarray(entries["prediction"]), jnp.asarray(entries["target"])
    loss: Loss = case.make()
    value = loss.forward(prediction, target)
    gradient = loss.backward()
    cells = [f"{error(value, entries['loss']):.0e}", f"{error(gradient, entries['gradient']):.0e}"]
    with jax.enable_x64(True):
        wide = jnp.asarray(entries["prediction"], jnp.float64)
        t = jnp.asarray(entries["target"])
        t = t.astype(jnp.float64) if jnp.issubdtype(t.dtype, jnp.floating) else t
        value64, gradient64 = jax.value_and_grad(lambda z: case.make().forward(z, t))(wide)
        cells += [f"{error(value, np.asarray(value64)):.0e}", f"{error(gradient, np.asarray(gradient64)):.0e}"]
    if prediction.ndim < 2:
        return [*cells, "no batch"]
    # Rows of any weight are within the formula, but a fit takes shares of 1.
    shares = target / jnp.maximum(1, target.max()) if case.name == "SoftmaxCrossEntropy-weighted-rows" else target
    return [*cells, same_bits(lambda: Sequential(), case.make, np.asarray(prediction), np.asarray(shares))]


def main() -> None:
    cases, reference = load_cases(), {}
    with np.load(LAYERS / "tests" / "torch_reference.npz") as file:
        for name in file.files:
            case, _, entry = name.partition("/")
            reference.setdefault(case, {})[entry] = file[name]
    rows = [[case.name, *layer_row(case, reference.get(case.name))] for case in cases.CASES]
    rows += [[case.name, *loss_row(case, reference[case.name])] for case in cases.LOSS_CASES]
    text = HEAD.replace("JAX", jax.__version__).replace("TORCH", str(reference["version"]["torch"])) + "".join(
        "| " + " | ".join(row) + " |\n" for row in rows
    )
    (LAYERS / "ACCURACY.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
