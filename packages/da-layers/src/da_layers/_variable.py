"""Variables: the arrays that a layer owns and that training may change."""

from typing import Any, Protocol
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

Slots = dict[str, jax.Array]

ROLES = ("weight", "bias", "scale")


class UpdateRule(Protocol):
    """What `Param.update` asks of an optimiser; da-optim has them, and any object of this form will do."""

    lr: Any

    def init(self, weights: jax.Array) -> Slots: ...

    def update(self, weights: jax.Array, gradient: jax.Array, slots: Slots, lr: Any) -> tuple[jax.Array, Slots]: ...


class Variable:
    """An array that a layer owns.

    Args:
        value: the first value, of any shape and dtype; kept as a `jax.Array`.

    Attributes:
        name: the path of the variable in its model (`layers.0.weight`) once `model.variables()` was asked, else None.

    Example:
        >>> Variable([1.0, 2.0]).value.shape
        (2,)
    """

    def __init__(self, value: ArrayLike) -> None:
        self.name: str | None = None
        self._value = _strong_array(value)

    @property
    def value(self) -> jax.Array:
        """The array as it is now. A new one must have the same shape.

        Raises:
            ValueError: the new value has another shape.
        """
        return self._value

    @value.setter
    def value(self, new: ArrayLike) -> None:
        array = new if isinstance(new, jax.Array) else jnp.asarray(new, self._value.dtype)
        if array.shape != self._value.shape:
            raise ValueError(
                f"{self.label} must keep its shape {self._value.shape}. Received: value.shape={array.shape}"
            )
        self._value = _strong_array(array)

    @property
    def label(self) -> str:
        """Name and kind, for messages: `layers.0.weight (Param)`."""
        return f"{self.name or 'a variable outside a model'} ({type(self).__name__})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name or ''}{self._value.dtype}{list(self._value.shape)})"


class Param(Variable):
    """A variable that an optimiser trains.

    Args:
        value: the first value, a float array of any shape.
        role: "weight" (weight decay acts on it), "bias" or "scale" (decay leaves it alone).
        trainable: False freezes it: `update` leaves it as it is.

    Raises:
        ValueError: the role is none of the three, or the value is not of a float dtype.

    Example:
        >>> from da_layers import Param
        >>> p = Param([1.0, 2.0], role="bias")
        >>> p.add_grad(p.value)
        >>> p.grad.tolist()
        [1.0, 2.0]
    """

    def __init__(self, value: ArrayLike, role: str = "weight", trainable: bool = True) -> None:
        super().__init__(value)
        if role not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}. Received: role={role!r}")
        if not jnp.issubdtype(self.value.dtype, jnp.floating):
            raise ValueError(f"A Param must be of a float dtype. Received: value.dtype={self.value.dtype}")
        self.role = role
        self.trainable = trainable
        self._grad: jax.Array | None = None
        self._slots: WeakKeyDictionary[UpdateRule, Slots] = WeakKeyDictionary()

    @property
    def grad(self) -> jax.Array:
        """The gradient added up since the last `zero_grad`, of the value's shape; zeros where nothing was added."""
        return jnp.zeros_like(self.value) if self._grad is None else self._grad

    def zero_grad(self) -> None:
        """Forgets the gradient."""
        self._grad = None

    def set_grad(self, gradient: jax.Array) -> None:
        """Replaces the gradient, as clipping does."""
        self._grad = gradient

    def add_grad(self, gradient: jax.Array) -> None:
        """Adds to the gradient: a Param that is used twice gets the sum.

        Raises:
            ValueError: the gradient has another shape than the value.
        """
        if gradient.shape != self.value.shape:
            raise ValueError(
                f"The gradient of {self.label} must have shape {self.value.shape}. "
                f"Received: gradient.shape={gradient.shape}"
            )
        self._grad = gradient if self._grad is None else self._grad + gradient

    def slots(self, optimizer: UpdateRule) -> Slots:
        """The arrays that `optimizer` keeps for this Param (moments, counts), made on first use."""
        if optimizer not in self._slots:
            self._slots[optimizer] = dict(optimizer.init(self.value))
        return self._slots[optimizer]

    def set_slots(self, optimizer: UpdateRule, slots: Slots) -> None:
        """Replaces the arrays that `optimizer` keeps for this Param."""
        self._slots[optimizer] = slots

    def update(self, optimizer: UpdateRule, lr: Any = None) -> None:
        """One step of `optimizer` on this Param, with the gradient it holds; nothing where it is frozen.

        Args:
            optimizer: what has `lr`, `init` and `update`; its slots for this Param live here, so one optimiser
                object serves a whole model.
            lr: the learning rate, float32 scalar; by default `optimizer.lr`.

        Raises:
            ValueError: the optimiser gave back other shapes, dtypes or slots than it got.
        """
        if not self.trainable:
            return
        before = self.slots(optimizer)
        value, slots = optimizer.update(self.value, self.grad, dict(before), optimizer.lr if lr is None else lr)
        _require_same_form(f"{type(optimizer).__name__}.update on {self.label}", "weights", self.value, value)
        if set(slots) != set(before):
            raise ValueError(
                f"{type(optimizer).__name__}.update on {self.label} must give back the slots {sorted(before)}. "
                f"Received: slots={sorted(slots)}"
            )
        for key, slot in slots.items():
            _require_same_form(f"{type(optimizer).__name__}.update on {self.label}", key, before[key], slot)
        self.value = value
        self._slots[optimizer] = slots

    # A weak dictionary can be neither copied deeply nor pickled; pairs can, and keep optimiser and slots together.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_slots": list(self._slots.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _slots=WeakKeyDictionary(state["_slots"]))


class Buffer(Variable):
    """State that training moves but no gradient does, such as running statistics."""


class Key(Variable):
    """A random stream.

    Args:
        seed: an int, or a key from `jax.random.key` or `jax.random.PRNGKey`.

    Example:
        >>> stream = Key(0)
        >>> bool((jax.random.key_data(stream.next()) != jax.random.key_data(stream.next())).any())
        True
    """

    def __init__(self, seed: int | jax.Array) -> None:
        super().__init__(jax.random.key(seed) if isinstance(seed, int) else seed)

    def next(self) -> jax.Array:
        """A fresh key; the stream moves on."""
        self.value, fresh = _split(self.value)
        return fresh


@jax.jit
def _split(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    stream, fresh = jax.random.split(key)
    return stream, fresh


def _strong_array(value: ArrayLike) -> jax.Array:
    array = value if isinstance(value, jax.Array) else jnp.asarray(value)
    return array.astype(array.dtype) if array.aval.weak_type else array


def _require_same_form(where: str, name: str, before: jax.Array, after: jax.Array) -> None:
    if before.shape != after.shape or before.dtype != after.dtype:
        raise ValueError(
            f"{where} must keep {name} of shape {before.shape} and dtype {before.dtype}. "
            f"Received: {name}.shape={after.shape}, {name}.dtype={after.dtype}"
        )
