"""What users hand in, checked and placed on the device; every error names the argument."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from da_layers import Loss

_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True)
class Data:
    """Checked arrays on the device.

    Attributes:
        arrays: (X,), (X, y) or (X, y, sample_weight); each an array, a tuple or a dict of arrays.
        samples: length of every first axis.
        labels: smallest and largest entry where y is of an integer dtype, else None.
        counts: (samples,) how much each counts in a mean over batches; None where all count alike.
    """

    arrays: tuple[Any, ...]
    samples: int
    labels: tuple[int, int] | None = None
    counts: np.ndarray | None = None

    def shapes(self, samples: int) -> tuple[Any, ...]:
        """The arrays of so many samples, without their numbers."""
        return jax.tree.map(
            lambda array: jax.ShapeDtypeStruct((samples, *array.shape[1:]), array.dtype, sharding=array.sharding),
            self.arrays,
        )

    def head(self, samples: int) -> "Data":
        """The first samples."""
        arrays = jax.tree.map(lambda array: array[:samples], self.arrays)
        counts = None if self.counts is None else self.counts[:samples]
        return replace(self, arrays=arrays, samples=min(samples, self.samples), counts=counts)


def check_inputs(X: Any, finite: bool = True, name: str = "X") -> Data:
    """The inputs of a model: floats, or integers such as tokens; booleans where there are several arrays.

    Raises:
        ValueError: empty, of another dtype, ragged, of different lengths, or (with `finite`) NaN or infinite.
    """
    # One array is what is computed with; of several, one may be a mask.
    arrays = _on_device(name, X, np.bool_ if isinstance(X, (tuple, dict)) else None)
    for where, array in _named(name, arrays):
        if finite and jnp.issubdtype(array.dtype, jnp.floating):
            _require_finite(where, array)
    return Data((arrays,), _samples(name, arrays))


def check_loss(loss: Any) -> None:
    """Raises a ValueError unless it is a Loss."""
    if not isinstance(loss, Loss):
        raise ValueError(f"loss must be a da_layers.Loss. Received: loss={loss!r}")


def check_pairs(
    X: Any, y: Any, loss: Loss, finite: bool = True, sample_weight: Any = None, names: tuple[str, str] = ("X", "y")
) -> Data:
    """Inputs and targets of the same length for a loss, and the weights of the samples where they have some.

    Raises:
        ValueError: as `check_inputs` raises, for X, and for y where a sample counts; or the lengths differ, or the loss
            takes no such targets or weights.
    """
    check_loss(loss)
    weights = None if sample_weight is None else _weights(sample_weight, loss)
    inputs = check_inputs(X, finite, names[0])
    targets = _on_device(names[1], y, np.int32)
    samples = _samples(names[1], targets)
    if samples != inputs.samples:
        raise ValueError(
            f"{names[0]} and {names[1]} must have the same length. "
            f"Received: len({names[0]})={inputs.samples}, len({names[1]})={samples}"
        )
    if weights is not None and len(weights) != samples:
        raise ValueError(f"sample_weight must have {samples} entries. Received: len(sample_weight)={len(weights)}")
    labels = None
    for where, array in _named(names[1], targets):
        counted = array if weights is None else _counted(array, weights)
        if jnp.issubdtype(array.dtype, jnp.integer):
            labels = (int(counted.min()), int(counted.max()))
        elif finite:
            _require_finite(where, counted)
            loss.check_targets(float(counted.min()), float(counted.max()))
    arrays, counts = (*inputs.arrays, targets), loss.counted(targets, weights)
    return Data(
        arrays if weights is None else (*arrays, weights),
        samples,
        labels,
        None if counts is None else np.asarray(counts, np.float64),
    )


def _weights(sample_weight: Any, loss: Loss) -> jax.Array:
    """The weights of the samples, float.

    Raises:
        ValueError: they are no array of finite numbers of 0 or more, one of them above 0, or the loss takes none.
    """
    weights = _on_device("sample_weight", sample_weight, np.int32)
    if not isinstance(weights, jax.Array):
        raise ValueError(f"sample_weight must be one array. Received: sample_weight={type(sample_weight).__name__}")
    weights = weights.astype(jnp.promote_types(weights.dtype, jnp.float32))
    _require_finite("sample_weight", weights)
    if float(weights.min()) < 0:
        raise ValueError(f"sample_weight must be 0 or more. Received: sample_weight.min()={weights.min()}")
    if float(weights.max()) == 0:
        raise ValueError("sample_weight must be above 0 for one sample at least. Received: sample_weight.max()=0")
    if "sample_weight" not in inspect.signature(loss.forward).parameters:
        raise ValueError(
            f"sample_weight needs a loss with forward(prediction, target, sample_weight). "
            f"Received: loss={type(loss).__name__}"
        )
    return weights


@contextmanager
def naming_shapes(data: Data, names: Sequence[str] = ("X", "y", "sample_weight")) -> Iterator[None]:
    """Adds to an error from a layer or loss what shapes the user's arguments have."""
    try:
        yield
    except (IndexError, TypeError, ValueError) as error:
        shapes = [
            f"{where}.shape={leaf.shape}"
            for name, arrays in zip(names, data.arrays, strict=False)
            for where, leaf in _named(name, arrays)
        ]
        error.add_note(f"The arguments were {', '.join(shapes)}.")
        raise


def check_key(key: Any) -> jax.Array:
    """`key` as a random key.

    Raises:
        ValueError: it is none.
    """
    array = jnp.asarray(key) if isinstance(key, (jax.Array, np.ndarray)) else jnp.zeros(())
    typed = jnp.issubdtype(array.dtype, jax.dtypes.prng_key) and array.ndim == 0
    if not typed and (array.dtype != jnp.uint32 or array.shape != jax.random.PRNGKey(0).shape):
        raise ValueError(f"key must be one key from jax.random.key or PRNGKey. Received: key={key!r}")
    return array


def _on_device(name: str, value: Any, booleans: type | None) -> Any:
    """`value` on the device, booleans in it as the given dtype; None refuses them."""
    if not isinstance(value, (tuple, dict)):
        return _array(name, value, booleans)
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: _array(name + jax.tree_util.keystr(path), leaf, booleans),
        value,
        is_leaf=lambda leaf: isinstance(leaf, list),
    )


def _array(name: str, value: Any, booleans: type | None) -> jax.Array:
    if isinstance(value, jax.Array):
        array: Any = value
    elif isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name} must be an array without a mask. Received: {name}={type(value).__name__}")
    else:
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ValueError(f"{name} must be an array: rows of one length. Received: {error}") from None
    dtype = array.dtype
    if dtype.kind == "b":
        if booleans is None:
            raise ValueError(f"{name} must be of a float or integer dtype. Received: {name}.dtype={dtype}")
        array = array.astype(booleans)
    elif dtype.kind == "c" or not jnp.issubdtype(dtype, jnp.number):
        raise ValueError(f"{name} must hold numbers. Received: {name}.dtype={dtype}")
    if array.ndim == 0:
        raise ValueError(f"{name} must have samples along its first axis. Received: {name}.shape=()")
    if array.shape[0] == 0:
        raise ValueError(f"{name} must hold one sample at least. Received: {name}.shape={array.shape}")
    if jnp.issubdtype(array.dtype, jnp.integer):
        lowest, highest = int(array.min()), int(array.max())
        if lowest < _INT32.min or highest > _INT32.max:
            raise ValueError(f"{name} must fit into int32. Received: {name}.min()={lowest}, {name}.max()={highest}")
        return jnp.asarray(array, jnp.int32)
    # Numbers too large for the device's dtype become infinite here, and are reported as such.
    with np.errstate(over="ignore"):
        on_device = jnp.asarray(array)
    # Not weak, or the kind of dtype it meets would decide, and two forms that look the same would not be.
    return on_device.astype(on_device.dtype) if on_device.weak_type else on_device


def _counted(array: jax.Array, weights: jax.Array) -> jax.Array:
    """`array` with 0 in the place of what has no weight."""
    if array.shape[: weights.ndim] != weights.shape:
        return array  # as the loss will say where it takes none such
    return jnp.where(weights.reshape(weights.shape + (1,) * (array.ndim - weights.ndim)) == 0, 0, array)


def _named(name: str, arrays: Any) -> list[tuple[str, jax.Array]]:
    return [(name + jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(arrays)]


def _samples(name: str, arrays: Any) -> int:
    lengths = [len(leaf) for leaf in jax.tree.leaves(arrays)]
    if len(set(lengths)) != 1:
        raise ValueError(f"The arrays of {name} must have the same length. Received: lengths={lengths}")
    return lengths[0]


def _require_finite(name: str, array: jax.Array) -> None:
    if not _finite(array):
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(np.asarray(array, np.float64)))[0])
        raise ValueError(
            f"{name} must be finite in {array.dtype}. Received: {name}[{', '.join(map(str, place))}]={array[place]}"
        )


@jax.jit
def _finite(array: jax.Array) -> jax.Array:
    return jnp.isfinite(array).all()
