"""Which layer is running: paths in errors, passes, observers, threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import (
    MSE,
    Dense,
    InstanceNorm,
    Layer,
    Param,
    ReLU,
    Residual,
    Sequential,
    Sigmoid,
    innermost,
    label_of,
    mlp,
    observe,
)


class Seen(list):
    def __call__(self, layer, direction, output):
        self.append((label_of(layer), direction, output.shape))


def test_observer_sees_inner_layers_first():
    model, seen = Sequential(Dense(4, 6, 0), Residual(ReLU())), Seen()
    with observe(seen):
        model.backward(model.forward(jnp.ones((2, 4)), training=True))
    assert seen == [
        ("layers.0 (Dense)", "forward", (2, 6)),
        ("layers.1.inner (ReLU)", "forward", (2, 6)),
        ("layers.1 (Residual)", "forward", (2, 6)),
        ("Sequential", "forward", (2, 6)),
        ("layers.1.inner (ReLU)", "backward", (2, 6)),
        ("layers.1 (Residual)", "backward", (2, 6)),
        ("layers.0 (Dense)", "backward", (2, 4)),
        ("Sequential", "backward", (2, 4)),
    ]


def test_observer_sees_losses():
    seen, loss = Seen(), MSE()
    with observe(seen):
        loss.forward(jnp.ones(2), jnp.zeros(2))
        loss.backward()
    assert seen == [("MSE", "forward", ()), ("MSE", "backward", (2,))]


def test_observer_sees_a_call_of_super_once():
    seen = Seen()
    with observe(seen):
        InstanceNorm(4).forward(jnp.ones((2, 3, 4)))
    assert seen == [("InstanceNorm", "forward", (2, 3, 4))]


def test_observer_ends_with_its_block_and_an_inner_one_takes_its_place():
    outer, inner, layer, x = Seen(), Seen(), ReLU(), jnp.ones(2)
    with observe(outer):
        with pytest.raises(AttributeError), observe(inner):
            layer.forward("no array")
        with observe(inner):
            layer.forward(x)
        layer.forward(x)
    layer.forward(x)
    assert (len(outer), len(inner)) == (1, 1)


def test_observer_may_stop_the_pass():
    def stop(layer, direction, output):
        raise StopIteration(label_of(layer))

    model = Sequential(ReLU(), ReLU())
    with observe(stop), pytest.raises(StopIteration, match=r"layers\.0 \(ReLU\)"):
        model.forward(jnp.ones(2))
    assert label_of(model.layers[0]) == "ReLU"  # nothing is running any more
    np.testing.assert_array_equal(model.forward(jnp.ones(2)), 1)


def test_error_is_noted_once_and_by_the_innermost_layer():
    class Broken(Layer):
        def forward(self, x, training=False):
            return x.no_such_attribute

    model = Sequential(Residual(Residual(Broken())))
    with pytest.raises(AttributeError) as caught:
        model.forward(jnp.ones(2))
    assert caught.value.__notes__ == ["In layers.0.inner.inner (Broken), forward."]


def test_what_a_layer_must_write():
    class Empty(Layer):
        pass

    with pytest.raises(NotImplementedError, match=r"^Empty must write forward\(x, training=False\)"):
        Sequential(Empty()).forward(jnp.ones(2))
    with pytest.raises(NotImplementedError, match=r"^Empty must write backward\(g\)"):
        Sequential(Empty()).backward(jnp.ones(2))


def test_forward_may_come_from_a_class_that_is_no_layer():
    class Mixin:
        def forward(self, x, training=False):
            return self.inner.forward(self.inner.forward(x, training), training)

        def backward(self, g):
            return self.inner.backward(self.inner.backward(g))

    class Mixed(Mixin, Layer):
        def __init__(self):
            self.inner = Sigmoid()

    layer, x = Mixed(), jnp.array([0.5])
    layer.forward(x, training=True)
    once = Sigmoid().forward(x)
    twice = Sigmoid().forward(once)
    np.testing.assert_allclose(layer.backward(jnp.ones(1)), once * (1 - once) * twice * (1 - twice), rtol=1e-6)


def test_forward_may_be_inherited_past_a_layer_without_one():
    class Writes(Layer):
        def forward(self, x, training=False):
            return 2 * x

    class Options(Layer):
        pass

    class Both(Options, Writes):
        pass

    np.testing.assert_array_equal(Both().forward(jnp.ones(2)), 2)


def test_next_pass_drops_what_an_error_left():
    class Sometimes(Layer):
        broken = True

        def forward(self, x, training=False):
            if self.broken:
                raise ZeroDivisionError
            return x

        def backward(self, g):
            return g

    model = Sequential(Dense(4, 6, 0), Sometimes())
    with pytest.raises(ZeroDivisionError):
        model.forward(jnp.full((1, 4), 100.0), training=True)
    model.layers[1].broken = False
    model.forward(jnp.ones((1, 4)), training=True)
    model.backward(jnp.ones((1, 6)))
    np.testing.assert_array_equal(model.layers[0].weight.grad, 1)
    with pytest.raises(RuntimeError, match=r"^layers\.0 \(Dense\): backward needs"):
        model.backward(jnp.ones((1, 6)))


def test_param_shared_by_two_layers_gets_the_sum(pure, x64):
    model = Sequential(Dense(4, 4, 0), Sigmoid(), Dense(4, 4, 1))
    model.layers[2].weight = model.layers[0].weight
    x, g = jnp.arange(8.0).reshape(2, 4) / 8, jnp.array([[1.0, -2.0, 3.0, -4.0], [0.5, 0.0, -1.0, 2.0]])

    weight = model.layers[0].weight
    _, pullback = jax.vjp(pure(model), {"layers.0.weight": weight.value}, x)
    expected, expected_gx = pullback(g)
    model.forward(x, training=True)
    np.testing.assert_allclose(model.backward(g), expected_gx, rtol=1e-10)
    np.testing.assert_allclose(weight.grad, expected["layers.0.weight"], rtol=1e-10)


def test_users_layer_may_keep_an_attribute():
    class Square(Layer):
        def forward(self, x, training=False):
            self.x = x
            return x * x

        def backward(self, g):
            return 2 * self.x * g

    model = Sequential(Square(), Square())
    model.forward(jnp.array([3.0]), training=True)
    np.testing.assert_array_equal(model.backward(jnp.ones(1)), [4 * 27.0])


def test_users_layer_in_a_model():
    class Scale(Layer):
        def __init__(self):
            self.anything = {"factor": Param(2.0, role="scale")}

        def forward(self, x, training=False):
            if training:
                self.keep(x)
            return x * self.anything["factor"].value

        def backward(self, g):
            (x,) = self.take()
            self.anything["factor"].add_grad((g * x).sum())
            return g * self.anything["factor"].value

    model = Sequential(Scale(), Scale())
    model.forward(jnp.array([3.0]), training=True)
    assert model.backward(jnp.ones(1)).tolist() == [4.0]
    assert [(param.name, float(param.grad)) for param in model.params()] == [
        ("layers.0.anything.factor", 6.0),
        ("layers.1.anything.factor", 6.0),
    ]


def test_threads_evaluate_one_model_at_the_same_time():
    model, x = mlp([4, 6, 4], 0), jnp.arange(8.0).reshape(2, 4)
    expected = np.asarray(model.forward(x))
    start = threading.Barrier(4)

    def work(index):
        start.wait()
        for _ in range(50):
            np.testing.assert_array_equal(model.forward(x), expected)
            with pytest.raises(ValueError, match=r"^layers\.0 \(Dense\): x must have shape"):
                model.forward(jnp.ones((2, 3)))
        return label_of(model.layers[0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == ["Dense"] * 4


def test_threads_train_a_model_each():
    def train(seed):
        model, loss = mlp([4, 6, 4], seed), MSE()
        for _ in range(20):
            loss.forward(model.forward(jnp.ones((2, 4)), training=True), jnp.zeros((2, 4)))
            model.backward(loss.backward())
        return [np.asarray(param.grad) for param in model.params()]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(train, range(4)))
    for seed, gradients in enumerate(together):
        for a, b in zip(gradients, train(seed), strict=True):
            np.testing.assert_array_equal(a, b)


def test_forward_in_a_thread_and_backward_in_another():
    model, x = mlp([4, 6, 4], 0), jnp.ones((2, 4))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(model.forward, x, training=True).result()
    assert model.backward(jnp.ones((2, 4))).shape == (2, 4)


def test_observer_sees_its_own_thread_only():
    seen, layer = Seen(), ReLU()
    with observe(seen), ThreadPoolExecutor(1) as pool:
        pool.submit(layer.forward, jnp.ones(2)).result()
    assert seen == []


@pytest.mark.parametrize(
    ("returned", "came"),
    [(lambda g: None, "NoneType"), (lambda g: g.sum(0), r"\(4,\)"), (lambda g: g[:, :2], r"\(3, 2\)")],
)
def test_backward_that_returns_no_gradient_of_its_input_is_named(returned, came):
    class Bad(Dense):
        def backward(self, g):
            return returned(super().backward(g))

    model = Sequential(Dense(4, 4, 0), Bad(4, 4, 1), Dense(4, 2, 2))
    x = jnp.ones((3, 4))
    model.forward(x, training=True)
    refusal = (
        rf"^layers\.1 \(Bad\): backward must return the gradient of the input, of shape \(3, 4\)\. .*returned={came}"
    )
    with pytest.raises(ValueError, match=refusal):
        model.backward(jnp.ones((3, 2)))


def test_first_layer_may_have_no_gradient_of_its_input():
    class First(Dense):
        def backward(self, g):
            super().backward(g)

    model = Sequential(First(4, 4, 0), Dense(4, 2, 2))
    model.forward(jnp.ones((3, 4)), training=True)
    assert model.backward(jnp.ones((3, 2))) is None


def test_innermost_is_the_layer_that_runs():
    seen = []

    class Look(Layer):
        def forward(self, x, training=False):
            seen.append(innermost())
            return x

    look = Look()
    Sequential(Dense(4, 4, 0), look).forward(jnp.ones((3, 4)))
    assert seen == [look]
    assert innermost() is None
