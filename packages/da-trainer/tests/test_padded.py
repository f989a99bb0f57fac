"""Sequences of different lengths: padding that a mask tells of changes nothing, in both executors."""

import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import Dense, Embedding, Layer, SoftmaxCrossEntropy, TransformerBlock
from da_optim import Adam
from da_trainer import Trainer, bits_equal

rng = np.random.default_rng(0)
TOKENS, LABELS = rng.integers(0, 7, (12, 6)), np.arange(12) % 3
MASK = np.arange(6) < rng.integers(1, 7, (12, 1))


class Classifier(Layer):
    """The mean over the tokens that are there, of a transformer block's output."""

    def __init__(self):
        self.embedding = Embedding(7, 8, 0)
        self.block = TransformerBlock(8, 2, 16, 1, dropout=0.1)
        self.head = Dense(8, 3, 2)

    def forward(self, x, training=False):
        h = self.block.forward(self.embedding.forward(x["tokens"], training), training, mask=x["mask"])
        shares = (x["mask"] / x["mask"].sum(1, keepdims=True))[..., None]
        if training:
            self.keep(shares)
        return self.head.forward((h * shares).sum(1), training)

    def backward(self, g):
        (shares,) = self.take()
        g = self.head.backward(g)[:, None] * shares
        return {"tokens": self.embedding.backward(self.block.backward(g)), "mask": None}


def trained(mode, tokens):
    trainer = Trainer(Classifier(), SoftmaxCrossEntropy(), Adam(0.01), compile=mode)
    return trainer.fit(
        {"tokens": tokens, "mask": MASK}, LABELS, 3, 5, X_val={"tokens": tokens, "mask": MASK}, y_val=LABELS
    )


@pytest.fixture(scope="module")
def by_the_loop():
    return trained(False, TOKENS)


def state(trainer):
    return trainer.model.state_dict(), trainer.history_


def test_both_executors_have_the_same_bits(by_the_loop):
    assert bits_equal(state(by_the_loop), state(trained(True, TOKENS)))


def test_what_is_padding_does_not_matter(mode, by_the_loop):
    other = np.where(MASK, TOKENS, 6 - TOKENS)
    assert (other != TOKENS).any()
    np.testing.assert_allclose(trained(mode, other).history_["val_loss"], by_the_loop.history_["val_loss"], rtol=1e-6)


def test_prediction_with_a_mask(by_the_loop):
    x = {"tokens": TOKENS[:2], "mask": jnp.asarray(MASK[:2])}
    assert by_the_loop.predict(x).shape == (2, 3)
