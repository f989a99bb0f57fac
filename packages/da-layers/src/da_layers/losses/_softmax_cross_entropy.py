"""SoftmaxCrossEntropy."""

from typing import Any

import jax
import jax.numpy as jnp

from .._calls import label_of
from ._loss import Loss


class SoftmaxCrossEntropy(Loss):
    """Cross-entropy of the softmax of logits.

    L = mean over rows of log(sum_j exp(z_j)) - sum_j t_j z_j, where t is the one-hot row of the label; gradient
    (softmax(z) - t) / number of rows (Goodfellow, Bengio & Courville 2016, section 6.2.2.3).

    Labels are integers of shape (...), from 0 to the number of classes less 1, or rows t of shape (..., classes) that
    sum to 1.

    Raises:
        ValueError: the target's shape fits neither form.

    Example:
        >>> import jax.numpy as jnp
        >>> loss = SoftmaxCrossEntropy()
        >>> round(float(loss.forward(jnp.array([[0.0, 0.0]]), jnp.array([1]))), 4), loss.backward().tolist()
        (0.6931, [[0.5, -0.5]])
    """

    def forward(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        """The loss, a scalar, for logits (..., classes) and labels (...) or rows (..., classes)."""
        labels = target.shape == prediction.shape[:-1] and jnp.issubdtype(target.dtype, jnp.integer)
        rows = target.shape == prediction.shape and jnp.issubdtype(target.dtype, jnp.floating)
        if not labels and not rows:
            raise ValueError(
                f"{label_of(self)}: target must be integer labels of shape {prediction.shape[:-1]} or float rows "
                f"of shape {prediction.shape}. Received: target.shape={target.shape}, target.dtype={target.dtype}"
            )
        value, difference = _cross_entropy(prediction, target)
        self.keep(difference)
        return value

    def backward(self) -> jax.Array:
        """The gradient of the logits, same shape."""
        (difference,) = self.take()
        return _cross_entropy_backward(difference)

    def check_labels(self, prediction: Any, lowest: int, highest: int) -> None:
        """Raises a ValueError where labels from `lowest` to `highest` do not fit the classes of `prediction`."""
        classes = prediction.shape[-1]
        if lowest < 0 or highest >= classes:
            raise ValueError(
                f"{label_of(self)}: y must hold labels from 0 to {classes - 1}, one for each output of the model. "
                f"Received: y.min()={lowest}, y.max()={highest}"
            )


@jax.jit
def _cross_entropy(logits: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    if jnp.issubdtype(target.dtype, jnp.integer):
        target = jax.nn.one_hot(target, logits.shape[-1], dtype=logits.dtype)
    shifted = logits - logits.max(-1, keepdims=True)
    powers = jnp.exp(shifted)
    total = powers.sum(-1, keepdims=True)
    rows = (target * (jnp.log(total) - shifted)).sum(-1)
    return rows.mean(), powers / total - target


@jax.jit
def _cross_entropy_backward(difference: jax.Array) -> jax.Array:
    return difference * (difference.shape[-1] / difference.size)
