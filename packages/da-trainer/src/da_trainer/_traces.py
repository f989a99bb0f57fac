"""Traces: a step body run on the objects with JAX's tracers in them, once for each form of arguments."""

import logging
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
from da_layers import scanning
from jax.extend.core import jaxpr_as_fun

from ._compile_error import TRACING_ERRORS, compile_error
from ._fence import contains, fence
from ._hidden_state import reject_hidden_state
from ._recompile import FIRST_USE, ArgumentForms, RecompileError, argument_forms, recompile_cause
from ._scan import scan_with
from ._snapshot import Snapshot
from ._static import Form, first_difference, static_form
from ._values import Parts, Values, hyperparameters, read_values, write_values

logger = logging.getLogger("da_trainer")

Key = tuple[Hashable, ...]


@dataclass(frozen=True)
class Job:
    """A step to be traced.

    Attributes:
        key: stands for all that is static; its first entry says which body.
        args: the values that the objects hold, the optimiser's hyper-parameters, and what the body takes; arrays or
            their shapes.
        batch: the arrays of a batch among them.
        counts: numbers that the program around the step holds, by the name the user knows them by.
        refuse_at: says which step this is, where it may not need a further trace of its kind.
    """

    key: Key
    args: tuple[Any, ...]
    batch: tuple[Any, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    refuse_at: str = ""

    @property
    def training(self) -> bool:
        """Whether the values hold slots."""
        return self.key[0] == "training"


@dataclass(frozen=True, eq=False)
class TracedStep:
    """A step as a function of arrays: (values, hyper-parameters, what the body takes) -> (values, result).

    Attributes:
        jaxpr: what it does, a closed jaxpr.
        results: the structure of what it returns.
        constants: what it took from the objects as constants.
        convolves: whether it has a convolution in it.
        convolves_in_loop: whether it has one in a loop of its own.
    """

    jaxpr: Any
    results: Any
    constants: Form
    convolves: bool
    convolves_in_loop: bool

    def __call__(self, *args: Any) -> Any:
        """Runs it, inside the trace of a program."""
        return jax.tree.unflatten(self.results, jax.jit(jaxpr_as_fun(self.jaxpr))(*jax.tree.leaves(args)))


class Traces:
    """The traced steps of one trainer.

    Args:
        exact: keep eager's rounding; False leaves XLA free.

    Attributes:
        seconds: what tracing has taken so far.
    """

    def __init__(self, exact: bool) -> None:
        self.seconds = 0.0
        self._forms: dict[Key, ArgumentForms] = {}
        self._wrap: Callable[[Any], Any] = fence if exact else partial
        self._steps: dict[Key, TracedStep] = {}
        self._current: set[Key] = set()
        # Paths of attributes that some step writes before it reads them.
        self._written: set[str] = set()

    def look_again(self) -> None:
        """Compares the objects' attributes with what the steps took as constants, before each is next used."""
        self._current.clear()

    def hold(self, steps: Collection[TracedStep]) -> bool:
        """Whether none of `steps` was dropped: where one writes an attribute, those that may read it are."""
        return set(steps) <= set(self._steps.values())

    def get(self, job: Job, parts: Parts, body: Callable[..., Any]) -> TracedStep:
        """The step that runs `body` on the objects of `parts`, traced where it is not there yet.

        Args:
            job: its arguments.
            parts: the objects; touched while tracing only, and put back as they were.
            body: works on the objects, as a person would.

        Returns:
            A function of arrays; the values it returns are the new ones, in evaluation only those that changed.

        Raises:
            ValueError: the step cannot be compiled, or may not be compiled again.
        """
        if job.key not in self._current:
            self._refresh(job, parts, body)
            self._current.add(job.key)
        return self._steps[job.key]

    def _refresh(self, job: Job, parts: Parts, body: Callable[..., Any]) -> None:
        key, refuse_at = job.key, job.refuse_at
        known, forms = self._steps.get(key), argument_forms(job)
        if known is None and key in self._forms:
            # It was dropped when another step turned out to write an attribute that this one might read.
            cause, refuse_at = "another step writes an attribute", ""
        elif known is None:
            cause = recompile_cause([form for other, form in self._forms.items() if other[0] == key[0]], forms)
        else:
            changed = first_difference(known.constants, self._constants(parts, job))
            if changed is None:
                return
            cause = f"another {changed}, which the program holds as a constant"
        if refuse_at and cause != FIRST_USE:
            raise RecompileError(
                f"recompile='raise' leaves a trainer one training step to compile, and one for a short last batch. "
                f"Received: {refuse_at}, {cause}"
            )
        logger.info("Compiling a step of %s. Cause: %s", key[0], cause)
        start = time.perf_counter()
        self._steps[key] = self._trace(job, parts, body)
        self._forms[key] = forms
        self.seconds += time.perf_counter() - start

    def _trace(self, job: Job, parts: Parts, body: Callable[..., Any]) -> TracedStep:
        def on_objects(values: Values, numbers: dict[str, jax.Array], *args: Any) -> tuple[Values, Any]:
            with hyperparameters(parts.optimizer, numbers):
                write_values(parts, values)
                result = body(*args)
                after = read_values(parts, slots=job.training)
            return (_same_form if job.training else _changed)(values, after), result

        def trace() -> Any:
            try:
                # Wrapped anew: JAX gives back the last trace of a function that it knows.
                with scanning(scan_with(self._wrap), parts.stacks):
                    return jax.make_jaxpr(self._wrap(on_objects), return_shape=True)(*job.args)
            except TRACING_ERRORS as error:
                raise compile_error(error) from error

        before, snapshot = read_values(parts, slots=job.training), Snapshot(parts.roots)
        try:
            jaxpr, results = trace()
            written = reject_hidden_state(lambda: trace()[0], jaxpr, snapshot, self._written)
        finally:
            snapshot.restore()
            write_values(parts, before)
        if not written <= self._written:
            # What this step writes, no other may read: they are traced again.
            self._written |= written
            self._steps.clear()
            self._current.clear()
        convolves, in_loop = (contains(jaxpr, "conv_general_dilated", in_loop) for in_loop in (False, True))
        return TracedStep(jaxpr, jax.tree.structure(results), self._constants(parts, job), convolves, in_loop)

    def _constants(self, parts: Parts, job: Job) -> Form:
        numbers = {f"optimizer.{name}" for name in job.args[1]}
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
