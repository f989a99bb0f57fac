"""SoftmaxCrossEntropy."""

from typing import Any

import jax
import jax.numpy as jnp

from ._loss import Loss


class SoftmaxCrossEntropy(Loss):
    """Cross-entropy of the softmax of logits.

    L = mean over rows of sum_j t_j (log(sum_k exp(z_k)) - z_j), where t is the one-hot row of the label; gradient
    (softmax(z) sum_j t_j - t) / number of rows (Goodfellow, Bengio & Courville 2016, section 6.2.2.3).

    Labels are integers or booleans of shape (...), from 0 to the number of classes less 1, or float rows t of shape
    (..., classes). A label outside has t = 0: it adds nothing to the loss, and nothing to the gradient.

    Raises:
        ValueError: the target fits neither form, or the prediction's dtype is not a float.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import SoftmaxCrossEntropy
        >>> loss = SoftmaxCrossEntropy()
        >>> round(float(loss.forward(jnp.array([[0.0, 0.0]]), jnp.array([1]))), 4), loss.backward().tolist()
        (0.6931, [[0.5, -0.5]])
    """

    def forward(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        """The loss, a scalar, for logits (..., classes) and labels (...) or rows (..., classes)."""
        self.require_arrays(prediction, target)
        counts = jnp.issubdtype(target.dtype, jnp.integer) or target.dtype == bool
        labels = target.shape == prediction.shape[:-1] and counts
        rows = target.shape == prediction.shape and jnp.issubdtype(target.dtype, jnp.floating)
        self.require(
            labels or rows,
            f"target must be integer labels of shape {prediction.shape[:-1]} or float rows of shape {prediction.shape}",
            target__shape=target.shape,
            target__dtype=target.dtype,
        )
        self.require_float(prediction, "prediction")
        value, difference = (_of_labels if labels else _of_rows)(prediction, target)
        self.keep(difference)
        return value

    def backward(self) -> jax.Array:
        """The gradient of the logits, same shape."""
        (difference,) = self.take()
        return _cross_entropy_backward(difference)

    def check_labels(self, prediction: Any, lowest: int, highest: int) -> None:
        """Raises a ValueError where labels from `lowest` to `highest` do not fit the classes of `prediction`."""
        if not hasattr(prediction, "shape"):
            return  # forward says so
        classes = prediction.shape[-1]
        self.require(
            lowest >= 0 and highest < classes,
            f"y must hold labels from 0 to {classes - 1}, one for each output of the model",
            **{"y.min()": lowest, "y.max()": highest},
        )


def _shifted(logits: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    shifted = logits - logits.max(-1, keepdims=True)
    powers = jnp.exp(shifted)
    return shifted, powers, powers.sum(-1, keepdims=True)


@jax.jit
def _of_labels(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    shifted, powers, total = _shifted(logits)
    # A label's own dtype may be too small to count the classes.
    labels, classes = labels.astype(jnp.int32)[..., None], logits.shape[-1]
    chosen = labels == jnp.arange(classes, dtype=jnp.int32)
    # A label of no class adds nothing.
    counts = (labels >= 0) & (labels < classes)
    rows = jnp.where(counts[..., 0], jnp.log(total[..., 0]) - jnp.where(chosen, shifted, 0).sum(-1), 0)
    return rows.mean(), jnp.where(counts, powers / total - chosen, 0)


@jax.jit
def _of_rows(logits: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    shifted, powers, total = _shifted(logits)
    # A class with t = 0 adds nothing, though its logit be -infinity.
    rows = jnp.where(target == 0, 0, target * (jnp.log(total) - shifted)).sum(-1)
    difference = powers / total * target.sum(-1, keepdims=True) - target
    return rows.mean(), difference.astype(logits.dtype)


@jax.jit
def _cross_entropy_backward(difference: jax.Array) -> jax.Array:
    return difference * (difference.shape[-1] / difference.size)
