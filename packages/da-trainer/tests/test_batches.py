"""The order of the samples."""

import jax
import numpy as np
import pytest
from da_layers import MSE, mlp
from da_optim import SGD
from da_trainer import Trainer, bits_equal
from da_trainer._batches import Orders

X = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)


def test_order_depends_on_key_and_epoch_alone():
    orders = [Orders(jax.random.key(seed), 24).on_host(epoch) for seed in (0, 1) for epoch in (0, 1, 2)]
    assert all(sorted(order) == list(range(24)) for order in orders)
    assert len({order.tobytes() for order in orders}) == 6
    jax.random.normal(jax.random.key(5))
    assert bits_equal(Orders(jax.random.key(1), 24).on_host(2), orders[5])
    assert bits_equal(Orders(jax.random.PRNGKey(1), 24).on_host(2), orders[5])


def test_the_device_gets_the_orders_one_by_one_or_together():
    orders = Orders(jax.random.key(1), 24)
    together = orders.of_all(range(4, 7), room=5)
    assert together.shape == (5, 24)
    assert together.dtype == np.int32
    for place, epoch in enumerate(range(4, 7)):
        assert bits_equal(together[place], orders.of(epoch))
        assert bits_equal(np.asarray(orders.of(epoch)), orders.on_host(epoch))


@pytest.mark.parametrize("key", [None, jax.random.PRNGKey(7), jax.random.key(7)])
def test_fit_takes_the_samples_in_that_order_and_goes_on_counting_epochs(mode, key):
    def make():
        return Trainer(mlp([4, 4], jax.random.key(0)), MSE(), SGD(0.1), compile=mode)

    together, one_by_one, by_hand = make(), make(), make()
    together.fit(X, X, 3, 8, key=key)
    for epoch in range(3):
        one_by_one.fit(X, X, 1, 8, key=key)
        order = Orders(jax.random.PRNGKey(0) if key is None else key, 24).on_host(epoch)
        by_hand.fit(X[order], X[order], 1, 8, shuffle=False)
    assert bits_equal(together.model.state_dict(), one_by_one.model.state_dict())
    assert bits_equal(together.model.state_dict(), by_hand.model.state_dict())


def test_drop_last_leaves_out_the_short_batch(mode):
    trainers = [Trainer(mlp([4, 4], jax.random.key(0)), MSE(), SGD(0.1), compile=mode) for _ in range(2)]
    trainers[0].fit(X[:22], X[:22], 2, 8, shuffle=False, drop_last=True)
    trainers[1].fit(X[:16], X[:16], 2, 8, shuffle=False)
    assert bits_equal(trainers[0].history_, trainers[1].history_)
    assert bits_equal(trainers[0].model.state_dict(), trainers[1].model.state_dict())
