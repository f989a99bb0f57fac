"""SoftmaxCrossEntropy."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ._loss import check_shares
from ._mean_loss import Formula, MeanLoss, spread


class SoftmaxCrossEntropy(MeanLoss):
    """Cross-entropy of the softmax of logits.

    L = mean over rows of sum_j t_j (log(sum_k exp(z_k)) - z_j), where t is the one-hot row of the label; gradient
    (softmax(z) sum_j t_j - t) / number of rows (Goodfellow, Bengio & Courville 2016, section 6.2.2.3).

    Labels are integers or booleans of shape (...), from 0 to the number of classes less 1, or float rows t of shape
    (..., classes). A label outside has t = 0: it adds nothing to the loss, and nothing to the gradient.

    Args:
        label_smoothing: share s of t that goes to all classes alike, t -> (1 - s) t + s / classes, in [0, 1)
            (Szegedy et al. 2016, section 7).
        ignore_index: rows with this label count as absent, in the mean too; None for none.

    Raises:
        ValueError: an argument is out of its range, the target fits neither form, or the prediction's dtype is not a
            float.

    Example:
        >>> import jax.numpy as jnp
        >>> from da_layers import SoftmaxCrossEntropy
        >>> loss = SoftmaxCrossEntropy()
        >>> round(float(loss.forward(jnp.array([[0.0, 0.0]]), jnp.array([1]))), 4), loss.backward().tolist()
        (0.6931, [[0.5, -0.5]])
    """

    # For a subclass that does not call __init__.
    label_smoothing: float = 0.0
    ignore_index: int | None = None

    def __init__(self, label_smoothing: float = 0.0, ignore_index: int | None = None) -> None:
        self.require(0 <= label_smoothing < 1, "label_smoothing must be in [0, 1)", label_smoothing=label_smoothing)
        self.require(
            ignore_index is None or type(ignore_index) is int,
            "ignore_index must be an int or None",
            ignore_index=ignore_index,
        )
        self.label_smoothing, self.ignore_index = float(label_smoothing), ignore_index

    def formula(self, prediction: jax.Array, target: jax.Array) -> tuple[Formula, tuple[float, ...]]:
        """For logits (..., classes) and labels (...) or rows (..., classes)."""
        labels = self._are_labels(prediction, target)
        rows = target.shape == prediction.shape and jnp.issubdtype(target.dtype, jnp.floating)
        self.require(
            labels or rows,
            f"target must be integer labels of shape {prediction.shape[:-1]} or float rows of shape {prediction.shape}",
            target__shape=target.shape,
            target__dtype=target.dtype,
        )
        if self.label_smoothing:
            return (_of_smooth_labels if labels else _of_smooth_rows), (self.label_smoothing,)
        return (_of_labels if labels else _of_rows), ()

    def forward(self, prediction: jax.Array, target: jax.Array, sample_weight: jax.Array | None = None) -> jax.Array:
        """The loss, a scalar; arguments as for `MeanLoss`."""
        self.require_arrays(prediction, target)
        if self.ignore_index is not None and self._are_labels(prediction, target):
            sample_weight = _without(target, sample_weight, ignored=self.ignore_index)
        return super().forward(prediction, target, sample_weight)

    def _are_labels(self, prediction: jax.Array, target: jax.Array) -> bool:
        counts = jnp.issubdtype(target.dtype, jnp.integer) or target.dtype == bool
        return bool(counts) and target.shape == prediction.shape[:-1]

    check_targets = check_shares

    def counted(self, target: Any, sample_weight: jax.Array | None = None) -> jax.Array | None:
        """Labels that are ignored do not count."""
        if self.ignore_index is not None and hasattr(target, "dtype") and jnp.issubdtype(target.dtype, jnp.integer):
            sample_weight = _without(target, sample_weight, ignored=self.ignore_index)
        return super().counted(target, sample_weight)

    def check_labels(self, prediction: Any, lowest: int, highest: int) -> None:
        """Raises a ValueError where labels from `lowest` to `highest` do not fit the classes of `prediction`."""
        if not hasattr(prediction, "shape"):
            return  # forward says so
        classes = prediction.shape[-1]
        low, high = (0 if label == self.ignore_index else label for label in (lowest, highest))
        self.require(
            low >= 0 and high < classes,
            f"y must hold labels from 0 to {classes - 1}, one for each output of the model",
            **{"y.min()": lowest, "y.max()": highest},
        )


def _shifted(logits: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    shifted = logits - logits.max(-1, keepdims=True)
    powers = jnp.exp(shifted)
    return shifted, powers, powers.sum(-1, keepdims=True)


def _chosen(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The one-hot rows of labels, as booleans, and which labels are any class's."""
    # A label's own dtype may be too small to count the classes.
    labels, classes = labels.astype(jnp.int32)[..., None], logits.shape[-1]
    return labels == jnp.arange(classes, dtype=jnp.int32), (labels >= 0) & (labels < classes)


def _of_labels(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    shifted, powers, total = _shifted(logits)
    chosen, counts = _chosen(logits, labels)
    rows = jnp.where(counts[..., 0], jnp.log(total[..., 0]) - jnp.where(chosen, shifted, 0).sum(-1), 0)
    return rows, jnp.where(counts, powers / total - chosen, 0)


def _of_smooth_labels(logits: jax.Array, labels: jax.Array, smoothing: float) -> tuple[jax.Array, jax.Array]:
    chosen, counts = _chosen(logits, labels)
    target = jnp.where(counts, _smoothed(chosen.astype(logits.dtype), smoothing), 0)
    return _of_rows(logits, target)


def _of_rows(logits: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    shifted, powers, total = _shifted(logits)
    # A class with t = 0 adds nothing, though its logit be -infinity.
    rows = jnp.where(target == 0, 0, target * (jnp.log(total) - shifted)).sum(-1)
    return rows, powers / total * target.sum(-1, keepdims=True) - target


def _of_smooth_rows(logits: jax.Array, target: jax.Array, smoothing: float) -> tuple[jax.Array, jax.Array]:
    return _of_rows(logits, _smoothed(target, smoothing))


def _smoothed(target: jax.Array, smoothing: float) -> jax.Array:
    return target * (1 - smoothing) + smoothing / target.shape[-1]


@partial(jax.jit, static_argnames="ignored")
def _without(labels: jax.Array, weight: jax.Array | None, *, ignored: int) -> jax.Array:
    """The weights, 0 for the rows with the label `ignored`."""
    present = labels != ignored
    if weight is None:
        return present.astype(jnp.float32)
    return jnp.where(present, spread(weight, labels.ndim), 0)
