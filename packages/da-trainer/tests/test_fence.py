"""The fence: a compiled program with eager's bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_trainer import bits_equal, exact_jit
from jax import lax

X = jax.random.normal(jax.random.PRNGKey(3), (200, 77)) * 3
Y = jax.random.normal(jax.random.PRNGKey(4), (200, 77))
W = jax.random.normal(jax.random.PRNGKey(5), (77,))


@jax.jit
def layer_norm(x, scale, bias):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5) * scale + bias


@jax.jit
def adam(w, g, m, v, t, lr, b1=0.9, b2=0.999, eps=1e-8):
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    return w - lr * (m / (1 - b1**t)) / (jnp.sqrt(v / (1 - b2**t)) + eps), m, v


def conv_clip(x, y):
    image, kernel = x[:, :64].reshape(200, 8, 8, 1), y[:9, :8].reshape(3, 3, 1, 8)

    def out(k):
        return lax.conv_general_dilated(image, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    gradient = jax.vjp(out, kernel)[1](jnp.tanh(out(kernel)))[0]
    return gradient / jnp.sqrt((gradient * gradient).sum()), (gradient * gradient).sum()


EXPRESSIONS = {
    "division by a constant": lambda x, y: x / 3.0,
    "mean of rows": lambda x, y: x.mean(-1),
    "mean of a product": lambda x, y: (x * y).mean() * 3.3 / 7,
    "integer power": lambda x, y: x**3,
    "float power": lambda x, y: jnp.abs(x) ** 1.7,
    "unit": lambda x, y: layer_norm(x, W, W * 2),
    "units that share a subexpression": lambda x, y: layer_norm(layer_norm(x, W, W) * y + x, W, W),
    "adam as a unit": lambda x, y: adam(x, y, y * 0.1, y * y, jnp.float32(3), jnp.float32(1e-3)),
    "adam with Python scalars": lambda x, y: adam(x, y, y * 0.1, y * y, 3.0, 1e-3, 0.9, 0.999, 1e-8),
    "adam operation by operation": lambda x, y: adam.__wrapped__(x, y, y * 0.1, y * y, 3.0, jnp.float32(1e-3)),
    "softmax": lambda x, y: jax.nn.softmax(x),
    "log-softmax": lambda x, y: jax.nn.log_softmax(x),
    "variance": lambda x, y: (x.var(0), x.std(1)),
    "silu and softplus": lambda x, y: (jax.nn.silu(x), jax.nn.softplus(y)),
    "sums": lambda x, y: (x * y + x).sum(0) * 0.1 + y.sum(0),
    "cumulative sum": lambda x, y: jnp.cumsum(x, 0),
    "clip": lambda x, y: x * jnp.minimum(1.0, 1.3 / (jnp.sqrt((x * x).sum() + (y * y).sum()) + 1e-6)),
    "products": lambda x, y: (x @ y.T, jnp.einsum("bij,bkj->bik", x.reshape(10, 20, 77), y.reshape(10, 20, 77))),
    "random numbers": lambda x, y: jax.random.truncated_normal(jax.random.PRNGKey(0), -2, 2, (50, 3)),
    "typed random keys": lambda x, y: x * jax.random.bernoulli(jax.random.key(0), 0.7, x.shape) / 0.7,
    "vjp": lambda x, y: jax.vjp(lambda a: jax.nn.gelu(a) * jnp.sin(a), x)[1](y),
    "gradient": lambda x, y: jax.grad(lambda a: jax.nn.logsumexp(a * y, -1).mean() / 3)(x),
    "scan": lambda x, y: lax.scan(lambda c, a: (jnp.tanh(c * 0.3 + a), c), x[0], y),
    "while and cond": lambda x, y: lax.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, lax.cond(c[0] % 2 == 0, jnp.sin, jnp.tanh, c[1] * 1.1)), (0, x)
    ),
    "vmap": lambda x, y: jax.vmap(lambda a, b: (a * b).sum() / 3 + a.mean())(x, y),
    "checkpoint": lambda x, y: jax.grad(jax.checkpoint(lambda a: jnp.tanh(a * y / 3).mean()))(x),
    "layout of a convolution's gradient": conv_clip,
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_compiled_bits_equal_eager_bits(name):
    function = EXPRESSIONS[name]
    differences = bits_equal(function(X, Y), exact_jit(function)(X, Y)).differences
    assert not differences, f"{name} is rounded otherwise when compiled by jax {jax.__version__}: {differences}"


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float64])
@pytest.mark.parametrize("name", ["unit", "softmax", "gradient", "mean of a product"])
def test_other_dtypes(name, dtype):
    with jax.enable_x64(dtype == jnp.float64):
        x, y = X.astype(dtype), Y.astype(dtype)
        function = EXPRESSIONS[name]
        assert bits_equal(function(x, y), exact_jit(function)(x, y))


def test_plain_jit_is_why_there_is_a_fence():
    function = EXPRESSIONS["adam operation by operation"]
    assert not bits_equal(function(X, Y), jax.jit(function)(X, Y))


def test_barriers_are_in_the_program():
    assert "optimization_barrier" in exact_jit(lambda x: x * 0.1 + 1.0).lower(X).as_text()


def test_donated_arguments_are_given_away():
    x = jnp.ones((64, 64))
    exact_jit(lambda a: a * 2.0, donate_argnums=0)(x)
    assert x.is_deleted()


@pytest.mark.parametrize(
    ("a", "b", "differences"),
    [
        ({"w": np.zeros(2)}, {"w": np.zeros(2)}, {}),
        ({"w": np.array([np.nan])}, {"w": np.array([np.nan])}, {}),
        ({"w": np.zeros(2)}, {"w": np.array([0.0, -0.0])}, {"['w']": "1 of 2 entries differ, by at most 0"}),
        ({"w": np.zeros(2)}, {"w": np.zeros(2, np.float32)}, {"['w']": "float64[2] and float32[2]"}),
        ({"w": np.zeros(2)}, {"v": np.zeros(2)}, {"['v']": "on one side only", "['w']": "on one side only"}),
    ],
)
def test_bits_equal_says_where(a, b, differences):
    comparison = bits_equal(a, b)
    assert comparison.differences == differences
    assert bool(comparison) == (not differences)


def test_bits_equal_takes_random_keys():
    assert bits_equal(jax.random.key(1), jax.random.key(1))
    assert not bits_equal(jax.random.key(1), jax.random.key(2))
