"""The handwritten digits, split into training and test."""

from typing import Any, NamedTuple

import numpy as np

from ._extras import need


class Split(NamedTuple):
    """Training and test data.

    Attributes:
        X: (1437, 64) float32 pixels from 0 to 1.
        y: (1437,) labels from 0 to 9.
        X_test: (360, 64), as X.
        y_test: (360,), as y.
    """

    X: Any
    y: Any
    X_test: Any
    y_test: Any


def digits_split() -> Split:
    """The 1797 images that scikit-learn ships, in a fixed random order.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    images, labels = need("sklearn.datasets", "scikit-learn", "digits").load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    X, y = (images[order] / 16).astype(np.float32), labels[order]
    return Split(X[:1437], y[:1437], X[1437:], y[1437:])
