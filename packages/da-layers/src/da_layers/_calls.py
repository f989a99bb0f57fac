"""Which layer is running: names the layer in errors, and tells one pass through a model from the next."""

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax.numpy as jnp
import numpy as np

from ._walk import walk

Observer = Callable[[Any, str, Any], None]


class _Running(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.forward_passes = 0
        self.observer: Observer | None = None
        # Where a step is traced: what runs a stack of equal layers as one loop, and each stack's Variables by its id.
        self.scan: Any = None
        self.stacked: Mapping[int, Any] = {}


running = _Running()


def path_of(part: Any) -> str:
    """The path of `part` in the outermost object that is running now; "" for that object itself."""
    root = running.stack[0] if running.stack else part
    return next((path for path, found in walk(root) if found is part), "")


def innermost() -> Any:
    """The layer or loss whose own forward or backward runs now, not that of a part of it; None where none does.

    Example:
        >>> from da_layers import innermost
        >>> innermost() is None
        True
    """
    return running.stack[-1] if running.stack else None


def label_of(part: Any) -> str:
    """Path and class, for messages: `layers.0 (Dense)`.

    The path starts from the outermost object whose forward or backward is running; where none is, there is no path.

    Example:
        >>> from da_layers import ReLU, label_of
        >>> label_of(ReLU())
        'ReLU'
    """
    path = path_of(part)
    return f"{path} ({type(part).__name__})" if path else type(part).__name__


@contextmanager
def observe(observer: Observer) -> Iterator[None]:
    """Calls `observer(layer, direction, output)` after each layer's or loss's forward and backward, inner ones first.

    It sees what runs in its own thread; an `observe` inside another takes its place until it ends.

    Args:
        observer: takes the object, "forward" or "backward", and what the call returned.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import ReLU, Residual, label_of, observe
        >>> with observe(lambda layer, direction, output: print(label_of(layer), direction, output)):
        ...     y = Residual(ReLU()).forward(jnp.array([-1.0, 2.0]))
        inner (ReLU) forward [0. 2.]
        Residual forward [-1.  4.]
    """
    before, running.observer = running.observer, observer
    try:
        yield
    finally:
        running.observer = before


def track_methods(cls: type) -> None:
    """Tracks the forward and backward that `cls` writes or has from a class that is not tracked."""
    for direction in ("forward", "backward"):
        method = getattr(cls, direction, None)
        if method is not None and not hasattr(method, "tracked"):
            setattr(cls, direction, _track(method, direction))


def _track(method: Callable[..., Any], direction: str) -> Callable[..., Any]:
    """Wraps forward or backward so that errors carry the object's path and observers see the output."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if running.stack and running.stack[-1] is self:
            return method(self, *args, **kwargs)  # super().forward(...): a part of the call that is tracked
        if not running.stack and direction == "forward":
            running.forward_passes += 1
        running.stack.append(self)
        try:
            output = method(self, *args, **kwargs)
            if running.observer is not None:
                running.observer(self, direction, output)
        except Exception as error:
            name_place(error, f"{label_of(self)}, {direction}")
            raise
        finally:
            running.stack.pop()
        return output

    call.tracked = True  # type: ignore[attr-defined]
    return call


def name_place(error: Exception, place: str) -> None:
    """Adds to an error where it came from, as a note and as the attribute `da_place`; the innermost place stays.

    Example:
        >>> from da_layers import name_place
        >>> error = ValueError("x must be finite")
        >>> name_place(error, "layers.0 (Dense), forward")
        >>> name_place(error, "Sequential, forward")
        >>> error.__notes__
        ['In layers.0 (Dense), forward.']
    """
    if getattr(error, "da_place", None) is None:
        error.da_place = place  # type: ignore[attr-defined]
        if place.partition(",")[0] not in str(error):
            error.add_note(f"In {place}.")


class _Stack(list[tuple[Any, ...]]):
    """What one object kept in one pass; a copy or pickle is empty, as its object was in no pass."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return _Stack, ()


class Keeps:
    """What forward keeps for backward, on a stack of the object's own.

    A layer used twice in one pass keeps two entries, and backward takes the last first. The first forward of a new
    pass drops what an earlier pass left, so forwards without a backward do not add up.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        track_methods(cls)

    def keep(self, *values: Any) -> None:
        """Puts `values` on the stack, for `take` in backward."""
        if self.__dict__.get("_kept_in") != running.forward_passes:
            self._kept = _Stack()
            self._kept_in = running.forward_passes
        self._kept.append(values)

    def take(self) -> tuple[Any, ...]:
        """Takes the last entry from the stack.

        Raises:
            RuntimeError: there is none, because no training forward came before.
        """
        if not self.has_kept:
            raise RuntimeError(
                f"{label_of(self)}: backward needs a forward(..., training=True) before it, one for each backward, "
                f"in the same pass through the model. Received: backward with nothing kept"
            )
        return self._kept.pop()

    @property
    def has_kept(self) -> bool:
        """Whether `take` would find an entry."""
        return bool(self.__dict__.get("_kept"))

    def forget(self) -> None:
        """Empties the stack."""
        self.__dict__.pop("_kept", None)
        self.__dict__.pop("_kept_in", None)

    @property
    def kept_count(self) -> int:
        """How many entries this pass has put on the stack and not taken."""
        return len(self._kept) if self.__dict__.get("_kept_in") == running.forward_passes else 0

    def drop_kept(self, count: int) -> None:
        """Drops all entries of this pass but the first `count`."""
        if self.kept_count > count:
            del self._kept[count:]

    def require(self, condition: bool, requirement: str, **received: Any) -> None:
        """Raises a ValueError with the object's path, the requirement and what came, unless `condition` holds."""
        if not condition:
            came = ", ".join(f"{name.replace('__', '.')}={value}" for name, value in received.items())
            raise ValueError(f"{label_of(self)}: {requirement}. Received: {came}")

    def require_sizes(self, **sizes: Any) -> None:
        """Raises a ValueError unless each is an integer of 1 or more, or a tuple or list of such."""
        numbers = [one for size in sizes.values() for one in (size if isinstance(size, (tuple, list)) else (size,))]
        whole = all(isinstance(one, int | np.integer) and type(one) is not bool and one >= 1 for one in numbers)
        self.require(whole, "sizes must be integers of 1 or more", **{name: repr(size) for name, size in sizes.items()})

    def require_float(self, x: Any, name: str = "x") -> None:
        """Raises a ValueError unless the array x is of a float dtype."""
        self.require(
            jnp.issubdtype(x.dtype, jnp.floating), f"{name} must be of a float dtype", **{f"{name}.dtype": x.dtype}
        )
