"""RMSProp."""

import jax
import jax.numpy as jnp

from ._optimizer import Optimizer, Slots
from ._requirements import below_one, positive
from ._strong import strong


class RMSProp(Optimizer):
    """RMSProp: steps scaled by a running mean of the gradient's square.

    With gradient g:

        s <- rho * s + (1 - rho) * g^2                       slot "square", starts at 0
        w <- w - lr * g / (sqrt(s) + epsilon)

    The slot has the weights' shape and dtype.

    Args:
        lr: learning rate, a finite number >= 0.
        rho: decay of the mean square, a number in [0, 1).
        epsilon: added to the root, a finite number > 0.

    Raises:
        ValueError: if an argument is not as stated.

    Source:
        Tieleman and Hinton 2012, "Neural Networks for Machine Learning", lecture 6.5.

    Example:
        >>> import jax.numpy as jnp
        >>> RMSProp(lr=0.5, rho=0.75).step(jnp.array([1.0, 2.0]), jnp.array([3.0, -0.1])).round(4)
        Array([0., 3.], dtype=float32)
    """

    requires = Optimizer.requires | {"rho": below_one, "epsilon": positive}

    def __init__(self, lr: float = 1e-2, rho: float = 0.9, epsilon: float = 1e-8) -> None:
        super().__init__(lr)
        self.rho = rho
        self.epsilon = epsilon

    def init(self, weights: jax.Array) -> Slots:
        """Make the slot "square" at 0."""
        return {"square": jnp.zeros_like(weights, dtype=weights.dtype)}

    def update(
        self, weights: jax.Array, gradient: jax.Array, slots: Slots, lr: float | jax.Array
    ) -> tuple[jax.Array, Slots]:
        """Compute one step; see `Optimizer.update`."""
        weights, square = _rmsprop(
            weights, gradient, slots["square"], strong(lr), strong(self.rho), strong(self.epsilon)
        )
        return weights, {"square": square}


@jax.jit
def _rmsprop(
    weights: jax.Array, gradient: jax.Array, square: jax.Array, lr: jax.Array, rho: jax.Array, epsilon: jax.Array
) -> tuple[jax.Array, jax.Array]:
    new_square = rho * square + (1 - rho) * gradient * gradient
    step = lr * gradient / (jnp.sqrt(new_square) + epsilon)
    return (weights - step).astype(weights.dtype), new_square.astype(square.dtype)
