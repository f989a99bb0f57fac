"""Variables: the arrays that a layer owns and that training may change."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Protocol
from weakref import ref

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

Slots = dict[str, jax.Array]
Seed = int | jax.Array

ROLES = ("weight", "bias", "scale")


class UpdateRule(Protocol):
    """What `Param.update` asks of an optimiser; da-optim has them, and any object of this form will do."""

    lr: Any

    def init(self, weights: jax.Array) -> Slots: ...

    def update(self, weights: jax.Array, gradient: jax.Array, slots: Slots, lr: Any) -> tuple[jax.Array, Slots]: ...


class StackingError(RuntimeError):
    """A traced step cannot run a `LayerStack` as one loop, because one of its layers is used beside the stack too.

    Example:
        >>> import jax
        >>> from da_layers import Dense, LayerStack, StackingError, scanning
        >>> stack = LayerStack([Dense(2, 2, 0), Dense(2, 2, 1)])
        >>> with scanning(jax.lax.scan, {id(stack): stack.stacked("")}):
        ...     try:
        ...         stack.layers[1].weight.value
        ...     except StackingError as error:
        ...         print(error)
        A Variable of a LayerStack must be used in the stack alone. Received: a variable outside a model (Param)
    """


class Variable:
    """An array that a layer owns.

    Args:
        value: the first value, of any shape and dtype; kept as a `jax.Array`.

    Attributes:
        name: the path of the variable in its model (`layers.0.weight`) once `model.variables()` was asked, else None.

    Example:
        >>> from da_layers import Variable
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
        try:
            return self._value
        except AttributeError:
            if "name" not in vars(self):
                raise  # a subclass that has not called __init__
            # Taken away while equal layers run as one.
            raise StackingError(
                f"A Variable of a LayerStack must be used in the stack alone. Received: {self.label}"
            ) from None

    @value.setter
    def value(self, new: ArrayLike) -> None:
        self._value = self.fitted(new)

    def fitted(self, new: ArrayLike) -> jax.Array:
        """The array that setting `value` to `new` would keep: a jax.Array with its dtype, all else with the value's.

        Raises:
            ValueError: `new` cannot be the value.
        """
        array = new if isinstance(new, jax.Array) else self._as_array(new)
        if array.shape != self.value.shape:
            raise ValueError(
                f"{self.label} must keep its shape {self.value.shape}. Received: value.shape={array.shape}"
            )
        return _strong_array(array)

    def _as_array(self, new: Any) -> jax.Array:
        whole = jnp.issubdtype(self.value.dtype, jnp.integer)
        try:
            if whole and jnp.issubdtype(jnp.asarray(new).dtype, jnp.floating):
                raise ValueError("a fraction would be lost")
            return jnp.asarray(new, self.value.dtype)
        except (TypeError, ValueError) as error:
            numbers = "integers" if whole else "numbers"
            raise ValueError(f"{self.label} must be set to {numbers}. Received: value={new!r} ({error})") from None

    @property
    def label(self) -> str:
        """Name and kind, for messages: `layers.0.weight (Param)`."""
        return f"{self.name or 'a variable outside a model'} ({type(self).__name__})"

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        return f"{type(self).__name__}({name}{self.value.dtype}{list(self.value.shape)})"


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
        self.fitted(self.value)
        self.role = role
        self.trainable = trainable
        self._grad: jax.Array | None = None
        self._slots = _SlotsByOptimizer()

    def fitted(self, new: ArrayLike) -> jax.Array:
        """As `Variable.fitted`, of a float dtype."""
        array = super().fitted(new)
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise ValueError(f"{self.label} must be of a float dtype. Received: value.dtype={array.dtype}")
        return array

    @property
    def grad(self) -> jax.Array:
        """The gradient added up since the last `zero_grad`, of the value's shape; zeros where nothing was added."""
        value = self.value  # in any case: where it was taken away, a gradient would be a constant
        return jnp.zeros_like(value) if self._grad is None else self._grad

    def zero_grad(self) -> None:
        """Forgets the gradient."""
        self._grad = None

    def set_grad(self, gradient: jax.Array) -> None:
        """Replaces the gradient, as clipping does.

        Raises:
            ValueError: the gradient has another shape than the value.
        """
        self._require_shape(gradient)
        self._grad = gradient

    def add_grad(self, gradient: jax.Array) -> None:
        """Adds to the gradient: a Param that is used twice gets the sum.

        Raises:
            ValueError: the gradient has another shape than the value.
        """
        self._require_shape(gradient)
        self._grad = gradient if self._grad is None else self._grad + gradient

    def _require_shape(self, gradient: jax.Array) -> None:
        if gradient.shape != self.value.shape:
            raise ValueError(
                f"The gradient of {self.label} must have shape {self.value.shape}. "
                f"Received: gradient.shape={gradient.shape}"
            )

    def slots(self, optimizer: UpdateRule) -> Slots:
        """The arrays that `optimizer` keeps for this Param (moments, counts), made on first use."""
        value, slots = self.value, self._slots.get(optimizer)  # the value in any case, as in `grad`
        if slots is None:
            slots = _strong_slots(optimizer.init(value))
            self._slots.set(optimizer, slots)
        return slots

    def set_slots(self, optimizer: UpdateRule, slots: Slots) -> None:
        """Replaces the arrays that `optimizer` keeps for this Param."""
        self._slots.set(optimizer, _strong_slots(slots))

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
        where = f"{type(optimizer).__name__}.update on {self.label}"
        before = self.slots(optimizer)
        value, slots = optimizer.update(self.value, self.grad, dict(before), optimizer.lr if lr is None else lr)
        _require_same_form(where, "weights", self.value, value)
        if set(slots) != set(before):
            raise ValueError(f"{where} must give back the slots {sorted(before)}. Received: slots={sorted(slots)}")
        slots = _strong_slots(slots)
        for name, slot in slots.items():
            _require_same_form(where, name, before[name], slot)
        self.value = value
        self._slots.set(optimizer, slots)


class _SlotsByOptimizer:
    """Slots by optimiser: told apart by identity, and let go of with the optimiser; copies keep the two together."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[ref[UpdateRule], Slots]] = {}

    def get(self, optimizer: UpdateRule) -> Slots | None:
        entry = self._entries.get(id(optimizer))
        return entry[1] if entry else None

    def set(self, optimizer: UpdateRule, slots: Slots) -> None:
        key, entries = id(optimizer), self._entries
        entries[key] = ref(optimizer, lambda _: entries.pop(key, None)), slots

    # A weak reference can be neither copied deeply nor pickled; pairs can.
    def __getstate__(self) -> list[tuple[UpdateRule | None, Slots]]:
        return [(optimizer(), slots) for optimizer, slots in self._entries.values()]

    def __setstate__(self, pairs: Iterable[tuple[UpdateRule | None, Slots]]) -> None:
        self._entries = {}
        for optimizer, slots in pairs:
            if optimizer is not None:
                self.set(optimizer, slots)


class Buffer(Variable):
    """State that training moves but no gradient does, such as running statistics.

    Args:
        value: the first value, of any shape and dtype.

    Example:
        >>> from da_layers import Buffer
        >>> count = Buffer(0)
        >>> count.value += 1
        >>> int(count.value)
        1
    """


class Key(Variable):
    """A random stream; its value is the raw data of a key, unsigned integers.

    Args:
        seed: an int, or a key from `jax.random.key` or `jax.random.PRNGKey`. Setting `value` takes the same keys.

    Raises:
        ValueError: the seed is none of them.

    Example:
        >>> import jax
        >>> from da_layers import Key
        >>> stream = Key(0)
        >>> first, second = stream.next(), stream.next()
        >>> bool(jax.random.uniform(first) == jax.random.uniform(second))
        False
    """

    def __init__(self, seed: Seed) -> None:
        key = as_key(seed)
        self._impl = jax.random.key_impl(key)
        super().__init__(jax.random.key_data(key))

    def fitted(self, new: ArrayLike) -> jax.Array:
        """As `Variable.fitted`; of a typed key its data."""
        return super().fitted(jax.random.key_data(new) if _is_typed_key(new) else new)

    def next(self) -> jax.Array:
        """A fresh typed key; the stream moves on."""
        self.value, fresh = _split(self.value, impl=self._impl)
        return fresh


@partial(jax.jit, static_argnames="impl")
def _split(data: jax.Array, *, impl: Any) -> tuple[jax.Array, jax.Array]:
    stream, fresh = jax.random.split(jax.random.wrap_key_data(data, impl=impl))
    return jax.random.key_data(stream), fresh


def as_key(seed: Any) -> jax.Array:
    """A typed random key, from an int or a key from `jax.random.key` or `jax.random.PRNGKey`.

    Raises:
        ValueError: the seed is none of them.
    """
    ndim = getattr(seed, "ndim", None)
    if ndim == 0 and _is_typed_key(seed):
        return seed
    if type(seed) is int or (ndim == 0 and jnp.issubdtype(seed.dtype, jnp.integer)):
        return jax.random.key(seed)
    if ndim == 1 and seed.dtype == jnp.uint32:
        return jax.random.wrap_key_data(seed)
    raise ValueError(f"key must be an int or one key from jax.random.key or PRNGKey. Received: key={seed!r}")


def _is_typed_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _strong_array(value: ArrayLike) -> jax.Array:
    array = value if isinstance(value, jax.Array) else jnp.asarray(value)
    return array.astype(array.dtype) if array.aval.weak_type else array


def _strong_slots(slots: Mapping[str, ArrayLike]) -> Slots:
    return {name: _strong_array(slot) for name, slot in slots.items()}


def _require_same_form(where: str, name: str, before: jax.Array, after: jax.Array) -> None:
    if before.shape != after.shape or before.dtype != after.dtype:
        raise ValueError(
            f"{where} must keep {name} of shape {before.shape} and dtype {before.dtype}. "
            f"Received: {name}.shape={after.shape}, {name}.dtype={after.dtype}"
        )
