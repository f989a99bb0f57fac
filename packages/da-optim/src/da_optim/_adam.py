"""Adam."""

import jax
import jax.numpy as jnp

from ._optimizer import Optimizer, Slots
from ._requirements import below_one, positive
from ._strong import strong


class Adam(Optimizer):
    """Adam: steps scaled by running means of the gradient and of its square.

    With gradient g, at step t = 1, 2, ...:

        m <- beta1 * m + (1 - beta1) * g                     slot "mean", starts at 0
        s <- beta2 * s + (1 - beta2) * g^2                   slot "square", starts at 0
        w <- w - lr * (m / (1 - beta1^t)) / (sqrt(s / (1 - beta2^t)) + epsilon)

    The slots "mean" and "square" have the weights' shape and dtype; the slot "count" is t of the last step,
    an int32 scalar. A float16 "square" loses gradients below about 5e-3: keep such weights in float32.

    Args:
        lr: learning rate, a finite number >= 0.
        beta1: decay of the mean, a number in [0, 1).
        beta2: decay of the mean square, a number in [0, 1).
        epsilon: added to the root, a finite number > 0.

    Raises:
        ValueError: if an argument is not as stated.

    Source:
        Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", Algorithm 1.

    Example:
        >>> import jax.numpy as jnp
        >>> Adam(lr=0.5).step(jnp.array([1.0, 2.0]), jnp.array([3.0, -0.1])).round(4)
        Array([0.5, 2.5], dtype=float32)
    """

    requires = Optimizer.requires | {"beta1": below_one, "beta2": below_one, "epsilon": positive}

    def __init__(self, lr: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        super().__init__(lr)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def init(self, weights: jax.Array) -> Slots:
        """Make the slots "mean", "square" and "count", all at 0."""
        return {
            "mean": jnp.zeros_like(weights, dtype=weights.dtype),
            "square": jnp.zeros_like(weights, dtype=weights.dtype),
            "count": jnp.zeros((), jnp.int32),
        }

    def update(
        self, weights: jax.Array, gradient: jax.Array, slots: Slots, lr: float | jax.Array
    ) -> tuple[jax.Array, Slots]:
        """Compute one step; see `Optimizer.update`."""
        weights, mean, square, count = _adam(
            weights,
            gradient,
            slots["mean"],
            slots["square"],
            slots["count"],
            strong(lr),
            strong(self.beta1),
            strong(self.beta2),
            strong(self.epsilon),
        )
        return weights, {"mean": mean, "square": square, "count": count}


@jax.jit
def _adam(
    weights: jax.Array,
    gradient: jax.Array,
    mean: jax.Array,
    square: jax.Array,
    count: jax.Array,
    lr: jax.Array,
    beta1: jax.Array,
    beta2: jax.Array,
    epsilon: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    new_count = count + 1
    t = new_count.astype(jnp.promote_types(weights.dtype, jnp.float32))
    new_mean = beta1 * mean + (1 - beta1) * gradient
    new_square = beta2 * square + (1 - beta2) * gradient * gradient
    # Both powers in one small array: a kernel less in a step that has many.
    mean_bias, square_bias = 1 - jnp.stack([beta1, beta2]) ** t
    step = lr * (new_mean / mean_bias) / (jnp.sqrt(new_square / square_bias) + epsilon)
    return (
        (weights - step).astype(weights.dtype),
        new_mean.astype(mean.dtype),
        new_square.astype(square.dtype),
        new_count,
    )
