"""Every optimiser of Optax's documented list, for five steps in both executors."""

import numpy as np
import optax
import pytest
from da_layers import MSE, mlp
from da_optim import from_optax
from da_trainer import Trainer, bits_equal

X, Y = (np.random.default_rng(seed).normal(size=(10, 4)).astype(np.float32) for seed in (0, 1))

# Those of optax.readthedocs.io/en/latest/api/optimizers.html that take a learning rate and no more.
NAMES = (
    "adabelief adadelta adafactor adagrad adam adamax adamaxw adamw adan amsgrad fromage lamb lars lion nadam nadamw "
    "novograd optimistic_adam_v2 radam rmsprop rprop sgd sign_sgd signum sm3 yogi"
).split()
OTHERS = {
    "noisy_sgd": lambda: optax.noisy_sgd(0.01, key=0),
    "optimistic_gradient_descent": lambda: optax.optimistic_gradient_descent(0.01),
    "ademamix": lambda: optax.contrib.ademamix(0.01),
    "muon": lambda: optax.contrib.muon(0.01),
    "prodigy": lambda: optax.contrib.prodigy(),
    "dadapt_adamw": lambda: optax.contrib.dadapt_adamw(),
    "schedule_free_sgd": lambda: optax.contrib.schedule_free_sgd(0.01),
    "cocob": lambda: optax.contrib.cocob(),
    "dog": lambda: optax.contrib.dog(0.01),
    "dowg": lambda: optax.contrib.dowg(),
}
# Left out: lbfgs and polyak_sgd ask for the loss or for a function of it, which an optimiser here is not given.
ALL = {name: lambda name=name: getattr(optax, name)(0.01) for name in NAMES} | OTHERS


@pytest.mark.parametrize("name", ALL)
def test_both_executors_give_the_same_bits(name):
    runs = []
    for mode in (False, True):
        optimizer = from_optax(ALL[name]())
        trainer = Trainer(mlp([4, 5, 4], 0), MSE(), optimizer, compile=mode).fit(X, Y, 5, 10)
        slots = {param.name: param.slots(optimizer) for param in trainer.model.params()}
        runs.append((trainer.model.state_dict(), slots, trainer.history_))
    assert bits_equal(*runs)
    assert np.isfinite(runs[0][2]["train_loss"]).all()
