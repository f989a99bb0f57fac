"""What holds for every optimiser."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from da_optim import SGD, AdaGrad, Adam, Optimizer, RMSProp, check_optimizer, from_optax

OPTIMIZERS = {
    "SGD": lambda: SGD(0.1),
    "SGD momentum": lambda: SGD(0.1, momentum=0.9),
    "SGD nesterov": lambda: SGD(0.1, momentum=0.9, nesterov=True),
    "Adam": lambda: Adam(0.1),
    "RMSProp": lambda: RMSProp(0.1),
    "AdaGrad": lambda: AdaGrad(0.1),
    "optax adam": lambda: from_optax(OPTAX_ADAM, lr=0.1),
}
OPTAX_ADAM = optax.adam(1.0)
OWN = {name: make for name, make in OPTIMIZERS.items() if "optax" not in name}
NUMBERS = [
    pytest.param(make, number, id=f"{name}: {number}")
    for name, make in OPTIMIZERS.items()
    for number, value in vars(make()).items()
    if isinstance(value, float) and not (name == "SGD" and number == "momentum")
]


def data(dtype=jnp.float32, shape=(3, 4), steps=3):
    rng = np.random.default_rng(0)
    weights = jnp.asarray(rng.normal(size=shape), dtype)
    return weights, [jnp.asarray(rng.normal(size=shape), dtype) for _ in range(steps)]


def kinds(tree):
    return jax.tree.map(lambda array: (array.shape, array.dtype, array.weak_type), tree)


def bits(tree):
    return [(str(path), np.asarray(leaf).tobytes()) for path, leaf in jax.tree.leaves_with_path(tree)]


def steps(optimizer, weights, gradients):
    for gradient in gradients:
        weights = optimizer.step(weights, gradient)
    return weights


@pytest.fixture(params=OPTIMIZERS)
def optimizer(request):
    return OPTIMIZERS[request.param]()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("shape", [(3, 4), (5,), ()])
def test_weights_and_slots_keep_shape_dtype_and_strong_type(optimizer, dtype, shape):
    with jax.enable_x64(dtype == "float64"):
        weights, gradients = data(dtype, shape)
        slots = optimizer.init(weights)
        before = kinds((weights, slots))
        assert not any(array.weak_type for array in jax.tree.leaves(slots))
        for gradient in gradients:
            weights, slots = optimizer.update(weights, gradient, slots, optimizer.lr)
            assert kinds((weights, slots)) == before


@pytest.mark.parametrize("make", OWN.values(), ids=OWN)
def test_slots_are_of_the_weights_dtype_but_for_the_count(make):
    slots = make().init(jnp.zeros(3, jnp.bfloat16))
    assert {name: array.dtype for name, array in slots.items()} == {
        name: jnp.int32 if name == "count" else jnp.bfloat16 for name in slots
    }


def test_slots_keep_their_order_and_share_no_array(optimizer):
    weights, [gradient, *_] = data()
    slots = optimizer.init(weights)
    assert list(optimizer.update(weights, gradient, slots, optimizer.lr)[1]) == list(slots)
    assert len({id(array) for array in slots.values()}) == len(slots)


def test_weakly_typed_weights_become_strongly_typed(optimizer):
    weights = jnp.asarray(1.0)
    slots = optimizer.init(weights)
    moved = optimizer.update(weights, jnp.asarray(0.5), slots, optimizer.lr)
    assert weights.weak_type
    assert not any(array.weak_type for array in jax.tree.leaves((slots, moved)))


def test_step_is_update_with_slots_kept(optimizer):
    weights, gradients = data()
    slots = optimizer.init(weights)
    by_step = by_update = weights
    for gradient in gradients:
        by_update, slots = optimizer.update(by_update, gradient, slots, optimizer.lr)
        by_step = optimizer.step(by_step, gradient)
        assert bits((by_step, optimizer.slots)) == bits((by_update, slots))


def test_update_changes_neither_its_arguments_nor_the_optimizer(optimizer):
    weights, [gradient, *_] = data()
    slots = optimizer.init(weights)
    before, state = bits((weights, gradient, slots)), dict(vars(optimizer))
    optimizer.update(weights, gradient, slots, optimizer.lr)
    assert bits((weights, gradient, slots)) == before
    assert vars(optimizer) == state


def test_reset_makes_the_next_step_a_first_step(optimizer):
    weights, gradients = data()
    first = steps(optimizer, weights, gradients)
    optimizer.reset()
    assert optimizer.slots is None
    assert bits(steps(optimizer, weights, gradients)) == bits(first)


@pytest.mark.parametrize(("make", "number"), NUMBERS)
def test_a_new_hyper_parameter_counts_at_once_and_compiles_nothing(make, number, compilations):
    weights, [*first, last] = data(shape=(5, 7))
    unchanged, changed = make(), make()
    if number == "initial_accumulator":  # counts where the slots begin
        first = []
    steps(unchanged, steps(unchanged, weights, first), [last])
    unchanged.reset()
    compilations.clear()
    weights_then = steps(unchanged, weights, first)
    assert bits(steps(changed, weights, first)) == bits(weights_then)
    setattr(changed, number, 0.625)
    assert bits(changed.step(weights_then, last)) != bits(unchanged.step(weights_then, last))
    assert compilations == []


def test_the_compilation_counter_counts(compilations):
    jax.jit(lambda x: x * 3 + 1)(jnp.ones((2, 9)))
    assert compilations


def test_the_learning_rate_of_update_may_be_a_number_or_an_array(optimizer, compilations):
    weights, [gradient, *_] = data()
    slots = optimizer.init(weights)
    as_array = jnp.float32(0.1)
    expected = bits(optimizer.update(weights, gradient, slots, as_array))
    compilations.clear()
    assert bits(optimizer.update(weights, gradient, slots, 0.1)) == expected
    assert bits(optimizer.update(weights, gradient, slots, np.float64(0.1))) == expected
    assert compilations == []


def test_update_compiles_inside_jit_with_traced_hyper_parameters_to_the_same_bits(optimizer):
    """The kernel is one unit, fenced here from the rest of the program as from its constants."""
    weights, gradients = data()
    numbers = {name: value for name, value in vars(optimizer).items() if isinstance(value, float)}

    @jax.jit
    def compiled(weights, gradient, slots, traced):
        weights, gradient, slots, traced = jax.lax.optimization_barrier((weights, gradient, slots, traced))
        try:
            for name in numbers:
                setattr(optimizer, name, traced[name])
            return optimizer.update(weights, gradient, slots, traced["lr"])
        finally:
            for name, value in numbers.items():
                setattr(optimizer, name, value)

    arrays = {name: jnp.float32(value) for name, value in numbers.items()}
    eager = fenced = (weights, optimizer.init(weights))
    for gradient in gradients:
        eager = optimizer.update(eager[0], gradient, eager[1], optimizer.lr)
        fenced = compiled(fenced[0], gradient, fenced[1], arrays)
        assert bits(fenced) == bits(eager)


def test_a_deep_copy_goes_on_alone_and_compiles_nothing(optimizer, compilations):
    weights, gradients = data()
    steps(optimizer, weights, gradients)
    copied = copy.deepcopy(optimizer)
    compilations.clear()
    assert bits(copied.step(*data()[:1], gradients[0])) == bits(optimizer.step(*data()[:1], gradients[0]))
    assert compilations == []
    kept = bits(optimizer.slots)
    copied.step(weights, gradients[1])
    assert bits(optimizer.slots) == kept


@pytest.mark.parametrize("make", OWN.values(), ids=OWN)
def test_a_pickled_optimizer_goes_on_where_it_was(make):
    optimizer = make()
    weights, gradients = data()
    steps(optimizer, weights, gradients)
    restored = pickle.loads(pickle.dumps(optimizer))
    assert bits(restored.slots) == bits(optimizer.slots)
    assert bits(restored.step(weights, gradients[0])) == bits(optimizer.step(weights, gradients[0]))


def test_numpy_weights_and_gradients_do_too(optimizer):
    weights, [gradient, *_] = data()
    expected = copy.deepcopy(optimizer).step(weights, gradient)
    assert bits(optimizer.step(np.asarray(weights), np.asarray(gradient))) == bits(expected)


def test_a_zero_gradient_on_fresh_slots_moves_nothing(optimizer):
    weights, _ = data()
    assert bits(optimizer.step(weights, jnp.zeros_like(weights))) == bits(weights)


def test_a_zero_learning_rate_moves_nothing_but_the_slots(optimizer):
    weights, [gradient, *_] = data()
    optimizer.lr = 0.0
    assert bits(optimizer.step(weights, gradient)) == bits(weights)


@pytest.mark.parametrize("wrong", [(3, 1, 4), (2, 3, 4)])
def test_step_refuses_a_gradient_that_only_fits_by_broadcasting(optimizer, wrong):
    weights, _ = data()
    with pytest.raises(ValueError, match=r"gradient of the weights' shape.*Received: weights\.shape=\(3, 4\)"):
        optimizer.step(weights, jnp.ones(wrong))
    assert optimizer.slots is None


def test_step_refuses_weights_other_than_those_its_slots_were_made_for():
    optimizer = Adam()
    optimizer.step(*[jnp.ones((3, 4))] * 2)
    with pytest.raises(ValueError, match="one optimizer object for each array of weights"):
        optimizer.step(jnp.ones(4), jnp.ones(4))


def test_every_optimizer_passes_the_check(optimizer):
    assert isinstance(optimizer, Optimizer)
    check_optimizer(optimizer)
