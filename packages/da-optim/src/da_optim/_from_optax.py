"""Any Optax transformation as an optimiser."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ._optimizer import Optimizer, Slots
from ._strong import strong


class OptaxOptimizer(Optimizer):
    """What `from_optax` returns; the slots are the arrays of Optax's state, each named by its path in it."""

    def __init__(self, transformation: Any, lr: float) -> None:
        super().__init__(lr)
        self.transformation = transformation

    def init(self, weights: jax.Array) -> Slots:
        """Make the slots from the state that the transformation begins with."""
        leaves = _by_path(self.transformation.init(weights))
        return {path: _strongly_typed(jnp.asarray(leaf)) for path, leaf in leaves.items()}

    def update(
        self, weights: jax.Array, gradient: jax.Array, slots: Slots, lr: float | jax.Array
    ) -> tuple[jax.Array, Slots]:
        """Compute one step; see `Optimizer.update`."""
        weights, new_slots = _add_updates(weights, gradient, slots, strong(lr), transformation=self.transformation)
        return weights, {path: new_slots[path] for path in slots}


def from_optax(transformation: Any, lr: float = 1.0) -> Optimizer:
    """Make an optimiser of an Optax gradient transformation.

    With the updates u that the transformation returns for a gradient:

        w <- w + lr * u

    Optax's updates already point downhill and hold Optax's own learning rate, hence lr = 1; a schedule, or
    setting `lr`, multiplies it. `from_optax(optax.adam(1.0), lr=1e-3)` puts all of it into `lr`.

    The transformation sees one array of weights at a time. What looks across arrays sees that one only: for
    `optax.clip_by_global_norm` use `da_optim.clip_by_global_norm` or a trainer's `clip_norm` instead.

    The update is compiled once per transformation object and shape. Numbers inside the transformation are
    fixed when Optax builds it, unless `optax.inject_hyperparams` makes slots of them.

    Args:
        transformation: an object with Optax's `init(params)` and `update(updates, state, params)`; hashable,
            as Optax's own are. The optimiser can be pickled if the transformation can.
        lr: multiplies the updates, a finite number >= 0.

    Returns:
        An optimiser whose slots are named by their path in Optax's state, such as "[0].mu".

    Raises:
        ValueError: if transformation has no init and update, or lr is not as stated.

    Example:
        >>> import jax.numpy as jnp, optax
        >>> lion = from_optax(optax.lion(0.5, weight_decay=0.0))
        >>> lion.step(jnp.array([1.0, 2.0]), jnp.array([3.0, -0.1]))
        Array([0.5, 2.5], dtype=float32)
        >>> sorted(lion.slots)
        ['[0].count', '[0].mu']
    """
    if not (hasattr(transformation, "init") and hasattr(transformation, "update")):
        raise ValueError(
            "transformation must have init(params) and update(updates, state, params), "
            f"as optax.adam(1e-3) has. Received: transformation={transformation!r}"
        )
    return OptaxOptimizer(transformation, lr)


@jax.jit(static_argnames="transformation")
def _add_updates(
    weights: jax.Array, gradient: jax.Array, slots: Slots, lr: jax.Array, transformation: Any
) -> tuple[jax.Array, Slots]:
    blank = jax.eval_shape(transformation.init, weights)  # the state's structure, which slots do not hold
    state = jax.tree.unflatten(jax.tree.structure(blank), [slots[path] for path in _by_path(blank)])
    updates, state = transformation.update(gradient, state, weights)
    new_slots = {path: _strongly_typed(leaf, slots[path].dtype) for path, leaf in _by_path(state).items()}
    return (weights + lr * updates).astype(weights.dtype), new_slots


def _by_path(state: Any) -> dict[str, Any]:
    """Name the leaves of Optax's state; a state that is one array has the empty path."""
    return {jax.tree_util.keystr(path) or "state": leaf for path, leaf in jax.tree.leaves_with_path(state)}


def _strongly_typed(leaf: jax.Array, dtype: Any = None) -> jax.Array:
    """Fix the dtype; unlike `astype`, this takes random keys too."""
    return lax.convert_element_type(leaf, leaf.dtype if dtype is None else dtype)
