"""Programs: a step body traced on the objects and compiled, one for each form of arguments."""

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from ._fence import fence
from ._hidden_state import reject_hidden_state
from ._snapshot import Snapshot
from ._static import Form, first_difference, static_form
from ._values import Parts, Values, hyperparameters, read_values, write_values

logger = logging.getLogger("da_trainer")

# Shared by every trainer of the process. Old ones go, so that a process which makes models for ever stays flat.
_LIMIT = 64
_executables: OrderedDict[Any, Any] = OrderedDict()


@dataclass(frozen=True)
class _Program:
    call: Callable[..., Any]
    constants: Form
    overwritten: frozenset[str]


class Programs:
    """The programs of one trainer.

    Args:
        exact: keep eager's rounding; False leaves XLA free.

    Attributes:
        compile_seconds: what tracing and compiling have taken so far.
    """

    def __init__(self, exact: bool) -> None:
        self.compile_seconds = 0.0
        self._wrap: Callable[[Any], Any] = fence if exact else partial
        self._programs: dict[Hashable, _Program] = {}
        self._current: set[Hashable] = set()

    def look_again(self) -> None:
        """Compares the objects' attributes with what the programs took as constants, before each is next used."""
        self._current.clear()

    def get(
        self, key: Hashable, parts: Parts, body: Callable[..., Any], args: tuple[Any, ...], training: bool
    ) -> Callable[..., Any]:
        """The program that runs `body(*args)` on the objects of `parts`, compiled where it is not there yet.

        Args:
            key: stands for the body and the form of the values and arguments.
            parts: the objects; touched while tracing only, and put back as they were.
            body: works on the objects, as a person would.
            args: the values that the objects hold, the optimiser's hyper-parameters, and arrays for the body.
            training: the values hold slots, and their memory is given to the results.

        Returns:
            A function of `args`; it returns the new values (in evaluation only those that changed) and what the body
            returned.
        """
        if key not in self._current:
            self._refresh(key, parts, body, args, training)
            self._current.add(key)
        return self._programs[key].call

    def _refresh(
        self, key: Hashable, parts: Parts, body: Callable[..., Any], args: tuple[Any, ...], training: bool
    ) -> None:
        known, cause = self._programs.get(key), "first use"
        if known is not None:
            changed = first_difference(known.constants, static_form(parts.roots, known.overwritten))
            if changed is None:
                return
            cause = f"{changed} changed"
        start = time.perf_counter()
        self._programs[key] = self._compile(parts, body, args, training)
        seconds = time.perf_counter() - start
        self.compile_seconds += seconds
        logger.info("Compiled in %.2f s: %s (%s)", seconds, key, cause)

    def _compile(self, parts: Parts, body: Callable[..., Any], args: tuple[Any, ...], training: bool) -> _Program:
        def on_objects(values: Values, numbers: dict[str, jax.Array], *args: Any) -> tuple[Values, Any]:
            with hyperparameters(parts.optimizer, numbers):
                write_values(parts, values)
                result = body(*args)
                after = read_values(parts, slots=training)
            return (_same_form if training else _changed)(values, after), result

        def trace() -> Any:
            return jax.jit(self._wrap(on_objects), donate_argnums=(0,) if training else ()).lower(*args)

        before, snapshot = read_values(parts, slots=training), Snapshot(parts.roots)
        try:
            lowered = trace()
            changes = snapshot.changes()
            if changes:
                reject_hidden_state(trace, snapshot, changes)
        finally:
            snapshot.restore()
            write_values(parts, before)
        overwritten = frozenset(f"{change.path}.{change.name}".lstrip(".") for change in changes)
        return _Program(_compile_once(lowered, args), static_form(parts.roots, overwritten), overwritten)


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


def _compile_once(lowered: Any, args: Any) -> Any:
    text = hashlib.sha256(lowered.as_text().encode()).digest()
    placement = tuple(str(leaf.sharding) for leaf in jax.tree.leaves(args))
    key = (text, lowered.in_tree, lowered.out_tree, placement)
    if key not in _executables:
        _executables[key] = lowered.compile()
        if len(_executables) > _LIMIT:
            _executables.popitem(last=False)
    _executables.move_to_end(key)
    return _executables[key]
