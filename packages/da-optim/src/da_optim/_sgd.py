"""Stochastic gradient descent, with momentum if wanted."""

import jax
import jax.numpy as jnp

from ._optimizer import Optimizer, Slots
from ._requirements import below_one
from ._strong import strong


class SGD(Optimizer):
    """Stochastic gradient descent, plain, with momentum, or with Nesterov's momentum.

    With gradient g, learning rate lr and momentum mu:

        w <- w - lr * g                                      momentum = 0: no slots

        v <- mu * v + g                                      slot "velocity", starts at 0
        w <- w - lr * v                                      nesterov=False
        w <- w - lr * (g + mu * v)                           nesterov=True

    Momentum is applied before the learning rate, as in PyTorch, so a new lr also scales the velocity
    gathered under the old one.

    Args:
        lr: learning rate, a finite number >= 0.
        momentum: a number in [0, 1). An SGD built with 0 has no velocity, and its momentum stays 0.
        nesterov: use Nesterov's form; needs momentum > 0.

    Raises:
        ValueError: if an argument is not as stated, or momentum is set on an SGD built without it.

    Source:
        Polyak 1964, "Some methods of speeding up the convergence of iteration methods". Nesterov's form:
        Sutskever, Martens, Dahl and Hinton 2013, "On the importance of initialization and momentum in deep
        learning", section 2, rewritten so that the weights stored are those the gradient is taken at.

    Example:
        >>> import jax.numpy as jnp
        >>> sgd = SGD(lr=0.5, momentum=0.5)
        >>> weights = sgd.step(jnp.array([1.0, 2.0]), jnp.array([2.0, -2.0]))
        >>> weights
        Array([0., 3.], dtype=float32)
        >>> sgd.step(weights, jnp.array([2.0, -2.0]))
        Array([-1.5,  4.5], dtype=float32)
    """

    requires = Optimizer.requires | {"momentum": below_one}

    def __init__(self, lr: float, momentum: float = 0.0, nesterov: bool = False) -> None:
        super().__init__(lr)
        momentum = below_one("momentum", momentum)
        self._has_velocity = momentum > 0
        self.nesterov = nesterov
        self.momentum = momentum

    @property
    def momentum(self) -> float:
        """The momentum; a plain instance attribute but for the check when it is set."""
        return vars(self)["momentum"]

    @momentum.setter
    def momentum(self, value: float | jax.Array) -> None:
        # An array here is the stand-in of a training step for the number that was checked before.
        if not self._has_velocity and not isinstance(value, jax.Array) and value != 0:
            raise ValueError(
                "An SGD built without momentum keeps no velocity: momentum must stay 0; "
                f"build SGD(lr, momentum={value}) instead. Received: momentum={value}"
            )
        if self.nesterov and not isinstance(value, jax.Array) and value == 0:
            raise ValueError(f"nesterov=True must come with momentum > 0. Received: momentum={value}")
        vars(self)["momentum"] = value

    def init(self, weights: jax.Array) -> Slots:
        """Make the slots: none, or a velocity of the weights' shape and dtype at 0."""
        return {"velocity": jnp.zeros_like(weights, dtype=weights.dtype)} if self._has_velocity else {}

    def update(
        self, weights: jax.Array, gradient: jax.Array, slots: Slots, lr: float | jax.Array
    ) -> tuple[jax.Array, Slots]:
        """Compute one step; see `Optimizer.update`."""
        if not self._has_velocity:
            return _sgd(weights, gradient, strong(lr)), {}
        weights, velocity = _momentum_sgd(
            weights, gradient, slots["velocity"], strong(lr), strong(self.momentum), nesterov=self.nesterov
        )
        return weights, {"velocity": velocity}


@jax.jit
def _sgd(weights: jax.Array, gradient: jax.Array, lr: jax.Array) -> jax.Array:
    return (weights - lr * gradient).astype(weights.dtype)


@jax.jit(static_argnames="nesterov")
def _momentum_sgd(
    weights: jax.Array, gradient: jax.Array, velocity: jax.Array, lr: jax.Array, momentum: jax.Array, nesterov: bool
) -> tuple[jax.Array, jax.Array]:
    new_velocity = momentum * velocity + gradient
    direction = gradient + momentum * new_velocity if nesterov else new_velocity
    return (weights - lr * direction).astype(weights.dtype), new_velocity.astype(velocity.dtype)
