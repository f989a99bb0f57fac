"""What an optimiser is: the base class, and the check for classes that do not inherit from it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ._requirements import non_negative

type Slots = dict[str, jax.Array]


class Optimizer(ABC):
    """One rule that moves one array of weights along its gradient.

    A subclass writes its formula once, in the pure `update`. `step` is the same formula in object form, for
    code that holds one optimiser per array of weights.

    Hyper-parameters are plain float attributes. Setting one between two steps counts from the next step on.
    `update` reads them when it is called and must treat them as numbers it may compute with but not look
    at (no `float()`, no `if`): while a training step is being compiled they are JAX tracers.

    What is required of them stands in `requires`, by name: a function of the name and the number that returns the
    number as a float or raises a ValueError. A subclass adds its own by `requires = Optimizer.requires | {...}`.

    Attributes:
        lr: learning rate, used by `step`.
        slots: what `step` keeps from one call to the next; None before the first.

    Example:
        >>> import jax.numpy as jnp
        >>> class SignSGD(Optimizer):
        ...     def init(self, weights):
        ...         return {}
        ...     def update(self, weights, gradient, slots, lr):
        ...         return (weights - lr * jnp.sign(gradient)).astype(weights.dtype), slots
        >>> SignSGD(lr=0.5).step(jnp.array([1.0, 2.0]), jnp.array([-3.0, 0.1]))
        Array([1.5, 1.5], dtype=float32)
    """

    slots: Slots | None = None
    # What is required of a hyper-parameter, in the constructor and whenever it is set.
    requires: ClassVar[dict[str, Callable[[str, float], float]]] = {"lr": non_negative}

    def __setattr__(self, name: str, value: Any) -> None:
        require = self.requires.get(name)
        # While a step is traced, a number is not known yet.
        checked = value if require is None or isinstance(value, jax.core.Tracer) else require(name, value)
        super().__setattr__(name, checked)

    def __init__(self, lr: float) -> None:
        """Keep the learning rate.

        Args:
            lr: learning rate, a finite number >= 0.

        Raises:
            ValueError: if lr is anything else.
        """
        self.lr = lr

    @abstractmethod
    def init(self, weights: jax.Array) -> Slots:
        """Make the slots for weights that have not been updated yet.

        Args:
            weights: float array of any shape.

        Returns:
            The slots by name. Their shapes and dtypes never change afterwards.
        """

    @abstractmethod
    def update(
        self, weights: jax.Array, gradient: jax.Array, slots: Slots, lr: float | jax.Array
    ) -> tuple[jax.Array, Slots]:
        """Compute one step without changing anything, this object included.

        Args:
            weights: float array of any shape.
            gradient: of the loss in the weights, of the weights' shape.
            slots: from `init`, or from the update before.
            lr: learning rate of this step, a number or a float32 scalar array.

        Returns:
            The new weights and the new slots, with the shapes and dtypes of the old ones.
        """

    def step(self, weights: jax.Array, gradient: jax.Array) -> jax.Array:
        """Compute one step with `self.lr`, and keep the new slots for the next.

        Args:
            weights: float array, of the same shape and dtype at every call.
            gradient: of the loss in the weights, of the weights' shape.

        Returns:
            The new weights.

        Raises:
            ValueError: if the weights are of no float dtype, or the gradient or slots made for others only fit by
                broadcasting.
        """
        if not jnp.issubdtype(jnp.result_type(weights), jnp.floating):
            raise ValueError(
                f"step(weights, gradient) needs weights of a float dtype. Received: {jnp.result_type(weights)}"
            )
        slots = self.init(weights) if self.slots is None else self.slots
        new_weights, slots = self.update(weights, gradient, slots, self.lr)
        if new_weights.shape != jnp.shape(weights):
            raise ValueError(
                "step(weights, gradient) needs a gradient of the weights' shape, and one optimizer object for "
                f"each array of weights. Received: weights.shape={jnp.shape(weights)}, "
                f"gradient.shape={jnp.shape(gradient)}, and they or the slots broadcast to {new_weights.shape}"
            )
        self.slots = slots
        return new_weights

    def reset(self) -> None:
        """Forget the slots: the next step is a first step again."""
        self.slots = None


def check_optimizer(optimizer: object) -> None:
    """Check that an object can be used as an optimiser, whether or not it inherits from `Optimizer`.

    Args:
        optimizer: any object.

    Raises:
        ValueError: if it is a class, or lacks `lr`, `init`, `update` or `step`; the message says which.

    Example:
        >>> check_optimizer(object())
        Traceback (most recent call last):
        ...
        ValueError: An optimizer must have lr, init(weights), update(weights, gradient, slots, lr) and \
step(weights, gradient). Received: object, which lacks lr, init, update, step.
    """
    required = (
        "An optimizer must have lr, init(weights), update(weights, gradient, slots, lr) and "
        "step(weights, gradient). Received: "
    )
    if isinstance(optimizer, type):
        name = optimizer.__name__
        raise ValueError(f"{required}the class {name}; pass an instance of it, such as {name}(lr=0.01).")
    lacking = [name for name in ("lr", "init", "update", "step") if not hasattr(optimizer, name)]
    if not lacking and not hasattr(optimizer, "__dict__"):
        lacking = ["attributes: it has __slots__ alone, and its numbers are read from __dict__"]
    if lacking:
        hint = " Wrap an Optax transformation in from_optax." if lacking == ["lr", "step"] else ""
        raise ValueError(f"{required}{type(optimizer).__name__}, which lacks {', '.join(lacking)}.{hint}")
