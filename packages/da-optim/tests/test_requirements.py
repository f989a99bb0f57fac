"""What constructors and check_optimizer refuse, and what they say."""

import copy
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_optim import SGD, AdaGrad, Adam, RMSProp, check_optimizer, clip_by_global_norm

NOT_NON_NEGATIVE = [-1, -1e-9, math.nan, math.inf, None, "0.1", [0.1], np.ones(2)]
NOT_BELOW_ONE = [-0.1, 1, 1.5, math.nan, math.inf, None, "0.9"]
NOT_POSITIVE = [0, -1, math.nan, math.inf, None, "1e-8"]


@pytest.mark.parametrize("make", [SGD, Adam, RMSProp, AdaGrad])
@pytest.mark.parametrize("value", NOT_NON_NEGATIVE, ids=repr)
def test_lr_must_be_finite_and_not_negative(make, value):
    with pytest.raises(ValueError, match=r"^lr must be a finite number >= 0\. Received: lr="):
        make(lr=value)


def test_the_received_value_is_shown():
    with pytest.raises(ValueError, match=r"Received: lr=-1$"):
        SGD(lr=-1)
    with pytest.raises(ValueError, match=r"Received: lr='0\.1'$"):
        SGD(lr="0.1")


@pytest.mark.parametrize(("make", "name"), [(SGD, "momentum"), (Adam, "beta1"), (Adam, "beta2"), (RMSProp, "rho")])
@pytest.mark.parametrize("value", NOT_BELOW_ONE, ids=repr)
def test_decays_must_be_in_zero_to_one(make, name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be a number in \[0, 1\)\. Received: {name}="):
        make(lr=0.1, **{name: value})


@pytest.mark.parametrize("make", [Adam, RMSProp, AdaGrad])
@pytest.mark.parametrize("value", NOT_POSITIVE, ids=repr)
def test_epsilon_must_be_finite_and_positive(make, value):
    with pytest.raises(ValueError, match=r"^epsilon must be a finite number > 0\. Received: epsilon="):
        make(lr=0.1, epsilon=value)


@pytest.mark.parametrize("value", NOT_NON_NEGATIVE, ids=repr)
def test_initial_accumulator_must_be_finite_and_not_negative(value):
    with pytest.raises(ValueError, match=r"^initial_accumulator must be a finite number >= 0\. Received: "):
        AdaGrad(initial_accumulator=value)


@pytest.mark.parametrize("lr", [1, np.float32(0.5), np.float64(0.5), np.array(0.5), jnp.float32(0.5), 0])
def test_hyper_parameters_are_kept_as_python_floats(lr):
    assert type(SGD(lr).lr) is float


def test_nesterov_needs_momentum():
    with pytest.raises(ValueError, match=r"nesterov=True must come with momentum > 0\. Received: momentum=0\.0"):
        SGD(0.1, nesterov=True)


@pytest.mark.parametrize("make", [lambda: SGD(0.1), lambda: copy.deepcopy(SGD(0.1)), lambda: unpickled(SGD(0.1))])
def test_momentum_cannot_be_set_on_an_sgd_built_without(make):
    sgd = make()
    with pytest.raises(ValueError, match=r"momentum must stay 0; build SGD\(lr, momentum=0\.9\)"):
        sgd.momentum = 0.9
    assert sgd.momentum == 0.0


def test_momentum_set_to_zero_is_allowed_with_and_without_velocity():
    without, built_with = SGD(0.5), SGD(0.5, momentum=0.5)
    for sgd in (without, built_with):
        sgd.momentum = 0.0
        for _ in range(2):
            moved = sgd.step(jnp.array([1.0]), jnp.array([1.0]))
        assert moved.tolist() == [0.5]


def test_momentum_is_a_plain_float_in_vars_that_an_array_may_stand_in_for():
    sgd = SGD(0.5)
    assert vars(sgd)["momentum"] == 0.0

    @jax.jit
    def traced(weights, gradient, momentum):
        sgd.momentum = momentum
        moved, slots = sgd.update(weights, gradient, {}, 0.5)
        sgd.momentum = 0.0
        return moved, slots

    moved, slots = traced(jnp.array([1.0]), jnp.array([1.0]), jnp.float32(0))
    assert (moved.tolist(), slots) == ([0.5], {})


def unpickled(value):
    return pickle.loads(pickle.dumps(value))


class Complete:
    lr = 0.1

    def init(self, weights):
        return {}

    def update(self, weights, gradient, slots, lr):
        return weights - lr * gradient, slots

    def step(self, weights, gradient):
        return weights - self.lr * gradient


class MyOptimizer:
    lr = 0.1

    def step(self, weights, gradient):
        return weights - self.lr * gradient


def test_an_optimizer_need_not_inherit():
    check_optimizer(Complete())


def test_optimizer_without_attributes_is_refused():
    class Slotted:
        __slots__ = ("lr",)

        def init(self, weights): ...

        def update(self, weights, gradient, slots, lr): ...

        def step(self, weights, gradient): ...

    optimizer = Slotted()
    optimizer.lr = 0.1
    with pytest.raises(ValueError, match="Received: Slotted, which lacks attributes: it has __slots__ alone"):
        check_optimizer(optimizer)


def test_what_an_optimizer_lacks_is_listed():
    message = (
        r"^An optimizer must have lr, init\(weights\), update\(weights, gradient, slots, lr\) and "
        r"step\(weights, gradient\)\. Received: MyOptimizer, which lacks init, update\.$"
    )
    with pytest.raises(ValueError, match=message):
        check_optimizer(MyOptimizer())
    with pytest.raises(ValueError, match=r"Received: NoneType, which lacks lr, init, update, step\.$"):
        check_optimizer(None)


@pytest.mark.parametrize("cls", [Complete, SGD])
def test_a_class_is_not_an_optimizer(cls):
    with pytest.raises(ValueError, match=rf"Received: the class {cls.__name__}; pass an instance"):
        check_optimizer(cls)


@pytest.mark.parametrize(
    ("optimizer", "name", "value"),
    [
        (SGD(0.1, 0.9), "lr", -1),
        (SGD(0.1), "lr", 10**400),
        (SGD(0.1, 0.9), "momentum", 1.0),
        (Adam(), "beta1", 2),
        (Adam(), "epsilon", -1),
        (RMSProp(), "rho", "much"),
        (AdaGrad(), "epsilon", 0),
    ],
)
def test_a_number_set_later_is_checked_too(optimizer, name, value):
    before = getattr(optimizer, name)
    with pytest.raises(ValueError, match=rf"^{name} must be a .*number .*\. Received: {name}="):
        setattr(optimizer, name, value)
    assert getattr(optimizer, name) == before
    setattr(optimizer, name, jnp.float32(0.5))
    assert getattr(optimizer, name) == 0.5


def test_step_needs_float_weights():
    refusal = r"step\(weights, gradient\) needs weights of a float dtype\. Received: int32"
    with pytest.raises(ValueError, match=refusal):
        SGD(0.1).step(jnp.ones(3, jnp.int32), jnp.ones(3))


@pytest.mark.parametrize("max_norm", [-1.0, math.nan])
def test_clipping_needs_a_norm_of_0_or_more(max_norm):
    with pytest.raises(ValueError, match=rf"max_norm must be >= 0\. Received: max_norm={max_norm}"):
        clip_by_global_norm([jnp.ones(3)], max_norm)
