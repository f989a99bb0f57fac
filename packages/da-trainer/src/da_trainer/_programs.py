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
from ._fence import contains, digest, fence, has_callbacks
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


class LoopedConvolution(Exception):  # noqa: N818 - tells the executor to take step by step
    """A loop over steps that has a convolution in it, on a CPU: there XLA runs it by another kernel."""


@dataclass(frozen=True)
class Job:
    """What a program is to do.

    Attributes:
        key: stands for all that is static; its first entry says which body.
        args: the values that the objects hold, the optimiser's hyper-parameters, and more arrays.
        batch: the arrays of a batch, or their shapes.
        samples: samples of the data that the program holds; 0 where it takes a batch.
        around: gets the step, which takes (values, hyper-parameters, what the body takes), and `args`.
        looped: `around` is a loop over steps.
        refuse_at: says which step this is, where it may not need a further program of its kind.
    """

    key: Key
    args: tuple[Any, ...]
    batch: tuple[Any, ...]
    samples: int = 0
    around: Callable[..., Any] = lambda step, *args: step(*args)
    looped: bool = False
    refuse_at: str = ""

    @property
    def training(self) -> bool:
        """Whether the values hold slots, and their memory is given to the results."""
        return self.key[0] == "training"


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

    def get(self, job: Job, parts: Parts, body: Callable[..., Any]) -> Callable[..., Any]:
        """The program that runs `body` on the objects of `parts`, compiled where it is not there yet.

        Args:
            job: what it is to do.
            parts: the objects; touched while tracing only, and put back as they were.
            body: works on the objects, as a person would.

        Returns:
            A function of the job's args; it returns the new values (in evaluation only those that changed) and what
            the body returned.

        Raises:
            ValueError: the step cannot be compiled, or may not be compiled again.
            LoopedConvolution: the job is a loop with a convolution in it, on a CPU.
        """
        if job.key not in self._current:
            self._refresh(job, parts, body)
            self._current.add(job.key)
        return self._programs[job.key].call

    def _refresh(self, job: Job, parts: Parts, body: Callable[..., Any]) -> None:
        key, refuse_at = job.key, job.refuse_at
        known, forms = self._programs.get(key), argument_forms(job)
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
            raise ValueError(
                f"recompile='raise' leaves a trainer one training program, and one for a short last batch. "
                f"Received: {refuse_at}, {cause}"
            )
        start = time.perf_counter()
        self._programs[key] = self._compile(job, parts, body)
        self._forms[key] = forms
        seconds = time.perf_counter() - start
        self.compile_seconds += seconds
        logger.info("Compiled a step of %s in %.2f s. Cause: %s", key[0], seconds, cause)

    def _compile(self, job: Job, parts: Parts, body: Callable[..., Any]) -> _Program:
        def on_objects(values: Values, numbers: dict[str, jax.Array], *args: Any) -> tuple[Values, Any]:
            with hyperparameters(parts.optimizer, numbers):
                write_values(parts, values)
                result = body(*args)
                after = read_values(parts, slots=job.training)
            return (_same_form if job.training else _changed)(values, after), result

        def trace() -> Any:
            whole = partial(job.around, self._wrap(on_objects))
            try:
                traced = jax.jit(whole, donate_argnums=(0,) if job.training else ()).trace(*job.args)
            except TRACING_ERRORS as error:
                raise compile_error(error) from error
            if job.looped and contains(traced, "conv_general_dilated") and _on_cpu(job.args):
                raise LoopedConvolution
            return traced.lower()

        before, snapshot = read_values(parts, slots=job.training), Snapshot(parts.roots)
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
        return _Program(_compile_once(lowered, computation, job.args), self._constants(parts, job))

    def _constants(self, parts: Parts, job: Job) -> Form:
        numbers = {f"optimizer.{name}" for name in job.args[1]}
        return static_form(parts.roots, self._written | numbers)


def _on_cpu(args: Any) -> bool:
    return any(device.platform == "cpu" for leaf in jax.tree.leaves(args) for device in leaf.devices())


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
