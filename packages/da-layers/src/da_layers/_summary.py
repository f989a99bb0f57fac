"""Summary: a model as a table."""

import math
from copy import deepcopy
from typing import Any

import jax

from ._calls import label_of, observe
from ._layer import Layer
from ._variable import Param, Variable


def summary(model: Layer, x: Any) -> str:
    """A table of a model's layers for an input like x, in the order in which they finish.

    Args:
        model: the model.
        x: an input, or `jax.ShapeDtypeStruct`s of one; nothing is computed.

    Returns:
        A line for each call of a layer, with its path and class, the shape of what it gave, and the numbers in its own
        Params and the bytes of all its own Variables (each where it is first used); the sums below.

    Raises:
        ValueError: as the layers raise, where x is none of their inputs.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import mlp, summary
        >>> print(summary(mlp([4, 8, 2], 0), jnp.ones((1, 4))))
        layer             output  parameters  bytes
        layers.0 (Dense)  (1, 8)          40    160
        layers.1 (ReLU)   (1, 8)           0      0
        layers.2 (Dense)  (1, 2)          18     72
        Sequential        (1, 2)           0      0
        total                             58    232
    """
    # A copy but for the arrays: what a layer sets in its forward stays out of the model.
    arrays = [variable.value for variable in model.variables().values()]
    model = deepcopy(model, {id(array): array for array in arrays})
    rows: list[tuple[str, str, int, int]] = []
    counted: set[int] = set()

    def see(layer: Layer, _: str, output: Any) -> None:
        new = [variable for variable in _own(layer) if id(variable) not in counted]
        counted.update(map(id, new))
        rows.append((label_of(layer), _shapes(output), *_numbers(new)))

    with observe(see):
        jax.eval_shape(model.forward, x)
    rest = [variable for variable in model.variables().values() if id(variable) not in counted]
    if rest:
        rows.append(("not used", "", *_numbers(rest)))
    rows.append(("total", "", sum(row[2] for row in rows), sum(row[3] for row in rows)))
    return _table([("layer", "output", "parameters", "bytes"), *rows])


def _own(layer: Layer) -> list[Variable]:
    below = {id(v) for path, part in layer.layers_by_path().items() if path for v in part.variables().values()}
    # Asked last, so that names are paths of the whole layer again.
    return [variable for variable in layer.variables().values() if id(variable) not in below]


def _numbers(variables: list[Variable]) -> tuple[int, int]:
    sizes = [math.prod(variable.value.shape) for variable in variables]
    parameters = sum(size for size, variable in zip(sizes, variables, strict=True) if isinstance(variable, Param))
    return parameters, sum(variable.value.nbytes for variable in variables)


def _shapes(output: Any) -> str:
    return str(jax.tree.map(lambda leaf: leaf.shape, output))


def _table(rows: list[tuple[Any, ...]]) -> str:
    texts = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = []
    for row in texts:
        left = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join([*left, *right]))
    return "\n".join(lines)
