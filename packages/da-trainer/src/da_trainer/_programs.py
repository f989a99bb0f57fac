"""Programs: a step body traced on the objects and compiled, one for each form of arguments."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from ._compile_error import TRACING_ERRORS, compile_error
from ._fence import digest, fence, has_callbacks
from ._hidden_state import reject_hidden_state
from ._recompile import FIRST_USE, ArgumentForms, argument_forms, recompile_cause
from ._snapshot import Snapshot
from ._static import Form, first_difference, static_form
from ._values import Parts, Values, hyperparameters, read_values, write_values

logger = logging.getLogger("da_trainer")

# Shared by every trainer of the process. Old ones go, so that a process which makes models for ever stays flat.
_LIMIT = 64
_executables: OrderedDict[Any, Any] = OrderedDict()


Key = tuple[Hashable, ...]


@dataclass(frozen=True)
class _Program:
    call: Callable[..., Any]
    constants: Form


class Programs:
    """The programs of one trainer.

    Args:
        exact: keep eager's rounding; False leaves XLA free.

    Attributes:
        compile_seconds: what tracing and compiling have taken so far.
    """

    def __init__(self, exact: bool) -> None:
        self.compile_seconds = 0.0
        self._forms: dict[Key, ArgumentForms] = {}
        self._wrap: Callable[[Any], Any] = fence if exact else partial
        self._programs: dict[Key, _Program] = {}
        self._current: set[Key] = set()
        # Paths of attributes that some step writes before it reads them.
        self._written: set[str] = set()

    def look_again(self) -> None:
        """Compares the objects' attributes with what the programs took as constants, before each is next used."""
        self._current.clear()

    def get(
        self,
        key: Key,
        parts: Parts,
        body: Callable[..., Any],
        args: tuple[Any, ...],
        training: bool,
        refuse_at: str = "",
    ) -> Callable[..., Any]:
        """The program that runs `body(*args)` on the objects of `parts`, compiled where it is not there yet.

        Args:
            key: stands for the body and the form of the values and arguments; its first entry says which body.
            parts: the objects; touched while tracing only, and put back as they were.
            body: works on the objects, as a person would.
            args: the values that the objects hold, the optimiser's hyper-parameters, and arrays for the body.
            training: the values hold slots, and their memory is given to the results.
            refuse_at: says which step this is, where it may not need a further program of its kind.

        Returns:
            A function of `args`; it returns the new values (in evaluation only those that changed) and what the body
            returned.

        Raises:
            ValueError: the step cannot be compiled, or may not be compiled again.
        """
        if key not in self._current:
            self._refresh(key, parts, body, args, training, refuse_at)
            self._current.add(key)
        return self._programs[key].call

    def _refresh(
        self, key: Key, parts: Parts, body: Callable[..., Any], args: tuple[Any, ...], training: bool, refuse_at: str
    ) -> None:
        known, forms = self._programs.get(key), argument_forms(*args)
        if known is None and key in self._forms:
            # It was dropped when another step turned out to write an attribute that this one might read.
            cause, refuse_at = "another step writes an attribute", ""
        elif known is None:
            cause = recompile_cause([form for other, form in self._forms.items() if other[0] == key[0]], forms)
        else:
            changed = first_difference(known.constants, self._constants(parts, args))
            if changed is None:
                return
            cause = f"another {changed}, which the program holds as a constant"
        if refuse_at and cause != FIRST_USE:
            raise ValueError(
                f"recompile='raise' leaves a trainer one training program, and one for a short last batch. "
                f"Received: {refuse_at}, {cause}"
            )
        start = time.perf_counter()
        self._programs[key] = self._compile(parts, body, args, training)
        self._forms[key] = forms
        seconds = time.perf_counter() - start
        self.compile_seconds += seconds
        logger.info("Compiled a step of %s in %.2f s. Cause: %s", key[0], seconds, cause)

    def _compile(self, parts: Parts, body: Callable[..., Any], args: tuple[Any, ...], training: bool) -> _Program:
        def on_objects(values: Values, numbers: dict[str, jax.Array], *args: Any) -> tuple[Values, Any]:
            with hyperparameters(parts.optimizer, numbers):
                write_values(parts, values)
                result = body(*args)
                after = read_values(parts, slots=training)
            return (_same_form if training else _changed)(values, after), result

        def trace() -> Any:
            try:
                return jax.jit(self._wrap(on_objects), donate_argnums=(0,) if training else ()).lower(*args)
            except TRACING_ERRORS as error:
                raise compile_error(error) from error

        before, snapshot = read_values(parts, slots=training), Snapshot(parts.roots)
        try:
            lowered = trace()
            computation = digest(lowered)
            written = reject_hidden_state(trace, computation, snapshot, self._written)
        finally:
            snapshot.restore()
            write_values(parts, before)
        if not written <= self._written:
            # What this step writes, no other may read: they are traced again.
            self._written |= written
            self._programs.clear()
            self._current.clear()
        return _Program(_compile_once(lowered, computation, args), self._constants(parts, args))

    def _constants(self, parts: Parts, args: tuple[Any, ...]) -> Form:
        numbers = {f"optimizer.{name}" for name in args[1]}
        return static_form(parts.roots, self._written | numbers)


def _same_form(before: Values, after: Values) -> Values:
    for path, value in after.variables.items():
        if value.dtype != before.variables[path].dtype:
            raise ValueError(
                f"A step must keep the dtype of {path}, which is {before.variables[path].dtype}. "
                f"Received: {path}.dtype={value.dtype}"
            )
    return after


def _changed(before: Values, after: Values) -> Values:
    return Values({path: value for path, value in after.variables.items() if value is not before.variables[path]}, {})


def _compile_once(lowered: Any, computation: bytes, args: Any) -> Any:
    placement = tuple(str(leaf.sharding) for leaf in jax.tree.leaves(args))
    if has_callbacks(lowered):
        # The text only numbers them, and a table of their closures would keep whole models alive.
        return lowered.compile()
    key = (computation, lowered.in_tree, lowered.out_tree, placement)
    if key not in _executables:
        _executables[key] = lowered.compile()
        if len(_executables) > _LIMIT:
            _executables.popitem(last=False)
    _executables.move_to_end(key)
    return _executables[key]
