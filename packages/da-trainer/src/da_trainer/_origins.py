"""Where the values of a traced function come from: which of them XLA may find to be one, and which it makes in one go.

Eager hands the operands of a unit over as separate arrays, and works out all its results. Where a compiled program
knows two operands to be equal, it reads one of them twice; where nothing uses a result, it leaves out what made it.
What is left is another kernel, and may round otherwise.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Literal

PRODUCTS = frozenset("dot_general ragged_dot_general conv_general_dilated".split())
# These and products give new values. A result of all else may be an operand under another name.
_ARITHMETIC = frozenset(
    """add add_any sub mul div neg integer_pow pow square sqrt rsqrt exp exp2 expm1 log log1p logistic tanh sin cos
    erf""".split()
)


class Origin(NamedTuple):
    """Where a value comes from, in numbers that stand for values."""

    number: int  # equal where XLA may see that two values are
    same: frozenset[int]  # what the value may be under another name
    steps: frozenset[int] = frozenset()  # what was worked out on the way to it, inside its unit
    is_product: bool = False  # a kernel of its own, whatever its unit gives beside it

    def hangs_with(self, steps: frozenset[int]) -> bool:
        """Whether XLA may work out this value and, in the same unit, one that takes `steps` together."""
        return not self.is_product or not self.steps.isdisjoint(steps)


class Origins:
    """The origins of the values of one trace."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._held: list[Any] = []

    def of_value(self, value: Any) -> Origin:
        """Of a value from outside: an argument or a constant."""
        if isinstance(value, jax.Array):
            self._held.append(value)  # or another could take its id
            number = self._number(id(value))
        else:
            constant = np.asarray(value)
            number = self._number((constant.dtype, constant.shape, constant.tobytes()))
        return Origin(number, frozenset({number}))

    def of_results(
        self,
        primitive: Any,
        params: dict[str, Any],
        types: Sequence[Any],
        operands: Sequence[Origin],
        results: Sequence[Any],
    ) -> list[Origin]:
        """Of the results of a primitive.

        Args:
            primitive: the primitive.
            params: its parameters.
            types: types of its operands.
            operands: their origins.
            results: types of its results.
        """
        if primitive.name == "jit":
            return self._of_unit(params["jaxpr"], operands)
        step = self._number((primitive.name, _hashable(params), *(operand.number for operand in operands)))
        steps = frozenset({step}).union(*(operand.steps for operand in operands))
        name, origins = primitive.name, []
        for place, result in enumerate(results):
            number = self._number((step, place))
            same = [
                operand.same
                for operand, of in zip(operands, types, strict=True)
                if name not in _ARITHMETIC | PRODUCTS and (of.dtype, of.size) == (result.dtype, result.size)
            ]
            origins.append(Origin(number, frozenset({number}).union(*same), steps, name in PRODUCTS))
        return origins

    def _of_unit(self, closed: Any, operands: Sequence[Origin]) -> list[Origin]:
        jaxpr = closed.jaxpr
        origins = dict(zip(jaxpr.invars, operands, strict=True))
        origins.update(zip(jaxpr.constvars, map(self.of_value, closed.consts), strict=True))

        def read(variable: Any) -> Origin:
            return self.of_value(variable.val) if isinstance(variable, Literal) else origins[variable]

        for equation in jaxpr.eqns:
            results = self.of_results(
                equation.primitive,
                equation.params,
                [variable.aval for variable in equation.invars],
                list(map(read, equation.invars)),
                [variable.aval for variable in equation.outvars],
            )
            origins.update(zip(equation.outvars, results, strict=True))
        return list(map(read, jaxpr.outvars))

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _hashable(params: dict[str, Any]) -> Hashable:
    """`params` but functions: two traces of one function are two objects."""
    kept = []
    for name, value in params.items():
        if "jaxpr" not in name and name != "branches":
            try:
                hash(value)
            except TypeError:
                continue
            kept.append((name, value))
    return tuple(kept)
