"""The training loop that anyone can write over the objects, beside the Trainer's two executors."""

import jax
import pytest
from da_layers import MSE, SoftmaxCrossEntropy, mlp, transformer_encoder
from da_optim import SGD, AdaGrad, Adam, RMSProp
from da_trainer import Trainer, bits_equal


def train_by_hand(trainer, X, y, steps):
    model, losses = trainer.model, []
    for _ in range(steps):
        for p in model.params():
            p.zero_grad()
        prediction = model.forward(X, training=True)
        losses.append(float(trainer.loss.forward(prediction, y)))
        model.backward(trainer.loss.backward())
        for p in model.params():
            p.update(trainer.optimizer_prototype)
    return losses


@pytest.fixture
def data():
    X = jax.random.normal(jax.random.PRNGKey(1), (256, 512))
    y = jax.random.normal(jax.random.PRNGKey(2), (256, 512))
    return X, y


def test_first_loss_by_hand_and_by_fit(data):
    losses = [train_by_hand(Trainer(mlp([512] * 5, jax.random.PRNGKey(0)), MSE(), SGD(0.01)), *data, steps=1)[0]]
    for mode in (False, True, "exact"):
        trainer = Trainer(mlp([512] * 5, jax.random.PRNGKey(0)), MSE(), SGD(0.01), compile=mode)
        trainer.fit(*data, epochs=1, batch_size=256, key=jax.random.PRNGKey(0))
        losses += trainer.history_["train_loss"]
    assert losses == [2.840958833694458] * 4


@pytest.mark.parametrize("make", [lambda: SGD(0.01, 0.9, True), Adam, RMSProp, AdaGrad])
def test_hand_written_loop_has_the_bits_of_fit(make):
    X = jax.random.normal(jax.random.PRNGKey(1), (16, 6, 4))
    y = jax.random.randint(jax.random.PRNGKey(2), (16,), 0, 3)
    results = []
    for mode in (None, False, True):
        model = transformer_encoder(4, 8, 2, 16, 2, 3, jax.random.PRNGKey(0))
        trainer = Trainer(model, SoftmaxCrossEntropy(), make(), compile=bool(mode))
        if mode is None:
            losses = train_by_hand(trainer, X, y, steps=5)
        else:
            losses = trainer.fit(X, y, epochs=5, batch_size=16, shuffle=False).history_["train_loss"]
        slots = [param.slots(trainer.optimizer_prototype) for param in model.params()]
        results.append((losses, model.state_dict(), slots))
    assert bits_equal(results[0], results[1])
    assert bits_equal(results[1], results[2])


def test_fit_goes_on_from_steps_made_by_hand():
    X = jax.random.normal(jax.random.PRNGKey(1), (16, 4))
    states = []
    for mode in (False, True):
        trainer = Trainer(mlp([4, 8, 4], jax.random.PRNGKey(0)), MSE(), Adam(), compile=mode)
        train_by_hand(trainer, X, X, steps=3)
        trainer.fit(X, X, epochs=2, batch_size=16)
        assert int(trainer.model.params()[0].slots(trainer.optimizer_prototype)["count"]) == 5
        states.append(trainer.model.state_dict())
    assert bits_equal(*states)
