"""Programs: traced steps, compiled together with what goes on around them."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from ._fence import digest, has_callbacks
from ._traces import Key, TracedStep

logger = logging.getLogger("da_trainer")

# Shared by every trainer of the process. Old ones go, so that a process which makes models for ever stays flat.
_LIMIT = 64
_executables: OrderedDict[Any, Any] = OrderedDict()

# Gets the traced steps, and the program's arguments.
Around = Callable[..., Any]


class Programs:
    """The programs of one trainer.

    Attributes:
        seconds: what compiling has taken so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._programs: dict[Key, tuple[list[TracedStep], Any]] = {}

    @property
    def temporary_bytes(self) -> int:
        """Most memory that one of the programs takes beside its arguments and results."""
        analyses = [call.memory_analysis() for _, call in self._programs.values()]
        return max((analysis.temp_size_in_bytes for analysis in analyses if analysis is not None), default=0)

    def get(self, key: Key, steps: Sequence[TracedStep], around: Around, args: tuple[Any, ...]) -> Callable[..., Any]:
        """The program that does `around(steps, *args)`, compiled where it is not there yet for these very steps.

        Args:
            key: stands for `around` and the form of `args`; where its first entry is "training", the memory of the
                values, the first of `args`, is given to the results.
            steps: what the program is made of.
            around: calls the steps.
            args: arrays.
        """
        made_of, call = self._programs.get(key, ([], None))
        if made_of != list(steps):
            start = time.perf_counter()
            donated = (0,) if key[0] == "training" else ()
            lowered = jax.jit(partial(around, steps), donate_argnums=donated).lower(*args)
            call = _compile_once(lowered, args)
            self._programs[key] = list(steps), call
            seconds = time.perf_counter() - start
            self.seconds += seconds
            logger.info("Compiled a program of %s in %.2f s", key[0], seconds)
        return call


def _compile_once(lowered: Any, args: Any) -> Any:
    if has_callbacks(lowered):
        # The text only numbers them, and a table of their closures would keep whole models alive.
        return lowered.compile()
    placement = tuple(str(leaf.sharding) for leaf in jax.tree.leaves(args))
    key = (digest(lowered), lowered.in_tree, lowered.out_tree, placement)
    if key not in _executables:
        _executables[key] = lowered.compile()
        if len(_executables) > _LIMIT:
            _executables.popitem(last=False)
    _executables.move_to_end(key)
    return _executables[key]
