"""AdaGrad."""

import jax
import jax.numpy as jnp

from ._optimizer import Optimizer, Slots
from ._requirements import non_negative, positive
from ._strong import strong


class AdaGrad(Optimizer):
    """AdaGrad: steps scaled by the sum of all squared gradients so far.

    With gradient g:

        a <- a + g^2                                         slot "accumulator"
        w <- w - lr * g / (sqrt(a) + epsilon)

    The slot has the weights' shape and dtype.

    Args:
        lr: learning rate, a finite number >= 0.
        epsilon: added to the root, a finite number > 0.
        initial_accumulator: what the accumulator starts at, a finite number >= 0.

    Raises:
        ValueError: if an argument is not as stated.

    Source:
        Duchi, Hazan and Singer 2011, "Adaptive Subgradient Methods for Online Learning and Stochastic
        Optimization", JMLR 12, section 1.1, the diagonal form.

    Example:
        >>> import jax.numpy as jnp
        >>> AdaGrad(lr=0.5).step(jnp.array([1.0, 2.0]), jnp.array([3.0, -0.1])).round(4)
        Array([0.5, 2.5], dtype=float32)
    """

    requires = Optimizer.requires | {"epsilon": positive, "initial_accumulator": non_negative}

    def __init__(self, lr: float = 1e-2, epsilon: float = 1e-10, initial_accumulator: float = 0.0) -> None:
        super().__init__(lr)
        self.epsilon = epsilon
        self.initial_accumulator = initial_accumulator

    def init(self, weights: jax.Array) -> Slots:
        """Make the slot "accumulator" at `initial_accumulator`."""
        return {"accumulator": jnp.full_like(weights, self.initial_accumulator, dtype=weights.dtype)}

    def update(
        self, weights: jax.Array, gradient: jax.Array, slots: Slots, lr: float | jax.Array
    ) -> tuple[jax.Array, Slots]:
        """Compute one step; see `Optimizer.update`."""
        weights, accumulator = _adagrad(weights, gradient, slots["accumulator"], strong(lr), strong(self.epsilon))
        return weights, {"accumulator": accumulator}


@jax.jit
def _adagrad(
    weights: jax.Array, gradient: jax.Array, accumulator: jax.Array, lr: jax.Array, epsilon: jax.Array
) -> tuple[jax.Array, jax.Array]:
    wide = gradient.astype(jnp.promote_types(gradient.dtype, jnp.float32))
    new_accumulator = accumulator + wide * wide
    step = lr * gradient / (jnp.sqrt(new_accumulator) + epsilon)
    return (weights - step).astype(weights.dtype), new_accumulator.astype(accumulator.dtype)
