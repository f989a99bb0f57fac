"""Real data: the handwritten digits, by the loop and compiled."""

import jax
import numpy as np
from da_layers import SoftmaxCrossEntropy, mlp
from da_optim import Adam, CosineLR
from da_trainer import Trainer, bits_equal
from sklearn.datasets import load_digits


def test_digits_are_learned_with_the_same_bits():
    digits, order = load_digits(), np.random.default_rng(0).permutation(1797)
    X, y = digits.data[order] / 16, digits.target[order]
    results = []
    for mode in (False, True):
        model = mlp([64, 128, 10], jax.random.PRNGKey(0))
        trainer = Trainer(model, SoftmaxCrossEntropy(), Adam(3e-3), schedule=CosineLR(8), compile=mode)
        trainer.fit(X[:1437], y[:1437], epochs=8, batch_size=64, X_val=X[1437:], y_val=y[1437:])
        accuracy = float((trainer.predict(X[1437:]).argmax(-1) == y[1437:]).mean())
        results.append((trainer.history_, model.state_dict(), accuracy))
    assert bits_equal(*results)
    assert results[0][2] >= 0.95
