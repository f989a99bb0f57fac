"""Where the values of a traced function come from: which of them XLA may find to be one, and which are products alone.

Eager hands the operands of a unit over as separate arrays, and works out all its results. Where a compiled program
knows two operands to be equal, it reads one of them twice; where nothing uses a result, it leaves out what made it.
What is left is another kernel, and may round otherwise.
"""

import hashlib
from collections.abc import Hashable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

PRODUCTS = frozenset("dot_general ragged_dot_general conv_general_dilated".split())
# With constants these may give back the operand: x * 1, x - 0, -(-x).
_SIMPLE = frozenset("add sub mul div neg integer_pow pow".split())
_COMMUTING = frozenset("add add_any mul max min and or xor".split())
# These and products give new values. A result of all else may be an operand under another name.
_ARITHMETIC = _SIMPLE | frozenset(
    "add_any square sqrt rsqrt exp exp2 expm1 log log1p logistic tanh sin cos erf".split()
)
# Stands for each constant of one entry outside units: XLA works out whether two are equal, whatever made them.
_SCALAR = "scalar"
_SMALL = 64


class Work(IntEnum):
    """What a unit does for a value."""

    NONE = 0  # an argument, perhaps moved
    PRODUCT = 1  # one product of such: a kernel of its own, whatever the unit gives beside it
    SOME = 2


class Origin(NamedTuple):
    """Where a value comes from, in numbers that stand for values."""

    number: int  # equal where XLA may see that two values are
    same: frozenset[int]  # what the value may be under another name
    work: Work = Work.NONE
    constant: bool = False


class Origins:
    """The origins of the values of one trace."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._held: list[Any] = []

    def of_value(self, value: Any) -> Origin:
        """Of a value from outside: an argument or a constant."""
        constant = _is_known(value)
        number = self._number(_SCALAR if constant and np.size(value) == 1 else self._identity(value))
        return Origin(number, frozenset({number}), constant=constant)

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
        given = [operand._replace(work=Work.NONE, constant=False) for operand in operands]
        made = self._of_results(primitive, params, given, len(results))
        if all(operand.constant for operand in operands):
            number = self._number(_SCALAR)
            made = [
                Origin(number if _form(result)[1] == 1 else origin.number, origin.same, origin.work, True)
                for origin, result in zip(made, results, strict=True)
            ]
        return [
            origin._replace(
                same=frozenset({origin.number}).union(
                    *(
                        operand.same
                        for operand, of in zip(given, types, strict=True)
                        if operand.number in origin.same and _form(of) == _form(result)
                    )
                )
            )
            for origin, result in zip(made, results, strict=True)
        ]

    def _of_results(
        self, primitive: Any, params: dict[str, Any], operands: Sequence[Origin], count: int
    ) -> list[Origin]:
        name = primitive.name
        if name == "jit":
            return self._of_unit(params["jaxpr"], operands)
        numbers = [operand.number for operand in operands]
        key = self._number((name, _hashable(params), *(sorted(numbers) if name in _COMMUTING else numbers)))
        work = max((operand.work for operand in operands), default=Work.NONE)
        if name in PRODUCTS:
            passed: list[Origin] = []
            work = Work.PRODUCT if work == Work.NONE else Work.SOME
        elif name in _ARITHMETIC:
            varying = [operand for operand in operands if not operand.constant]
            passed, work = varying if name in _SIMPLE and len(varying) == 1 else [], Work.SOME
        else:
            passed = list(operands)
        origins = []
        for place in range(count):
            # The same number in another dtype, or in the same but weakly typed.
            converted = name == "convert_element_type"
            number = operands[0].number if converted else self._number((key, place))
            same = frozenset({number}).union(*(operand.same for operand in passed))
            origins.append(Origin(number, same, work, all(operand.constant for operand in operands)))
        return origins

    def _of_unit(self, closed: Any, operands: Sequence[Origin]) -> list[Origin]:
        jaxpr = closed.jaxpr
        origins = dict(zip(jaxpr.invars, operands, strict=True))
        origins.update(zip(jaxpr.constvars, map(self._of_constant, closed.consts), strict=True))

        def read(variable: Any) -> Origin:
            return self._of_constant(variable.val) if isinstance(variable, Literal) else origins[variable]

        for equation in jaxpr.eqns:
            given = list(map(read, equation.invars))
            results = self._of_results(equation.primitive, equation.params, given, len(equation.outvars))
            origins.update(zip(equation.outvars, results, strict=True))
        return list(map(read, jaxpr.outvars))

    def _of_constant(self, value: Any) -> Origin:
        number = self._number(self._identity(value))
        return Origin(number, frozenset({number}), constant=True)

    def _identity(self, value: Any) -> Hashable:
        if _is_known(value) and (np.size(value) <= _SMALL or isinstance(value, np.ndarray)):
            # In the dtype that it has in the program: a Python float is not of float64 there.
            array = np.asarray(value, jax.typeof(value).dtype)
            return array.dtype, array.shape, hashlib.sha256(array.tobytes()).digest()
        self._held.append(value)  # or another could take its id
        return id(value)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def is_array(value: Any) -> bool:
    """Whether `value` is an array of numbers or stands for one: no reference, token or random key."""
    form = jax.typeof(value)
    return isinstance(form, jax.core.ShapedArray) and not jnp.issubdtype(form.dtype, jax.dtypes.extended)


def _is_known(value: Any) -> bool:
    """Whether the numbers of `value` may be looked at: an array on this host."""
    concrete = is_array(value) and not isinstance(value, jax.core.Tracer)
    return concrete and getattr(value, "is_fully_addressable", True)


def _form(type_: Any) -> tuple[Any, Any]:
    return getattr(type_, "dtype", None), getattr(type_, "size", None)


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
