"""The fence: a compiled program with eager's bits."""

import importlib

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from da_trainer import bits_equal, exact_jit
from da_trainer._fence import digest, has_callbacks
from jax import lax
from jax.experimental import io_callback

X = jax.random.normal(jax.random.PRNGKey(3), (200, 77)) * 3
Y = jax.random.normal(jax.random.PRNGKey(4), (200, 77))
W = jax.random.normal(jax.random.PRNGKey(5), (77,))
SQUARE = X[:60, :60] @ X[:60, :60].T + 60 * jnp.eye(60)


@jax.jit
def gelu_backward(x, g):
    return g * (0.5 * (1 + lax.erf(x * 0.7071067811865476)) + x * jnp.exp(-0.5 * x * x) * 0.3989422804014327)


@jax.jit
def layer_norm(x, scale, bias):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5) * scale + bias


@jax.jit
def adam(w, g, m, v, t, lr, b1=0.9, b2=0.999, eps=1e-8):
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    return w - lr * (m / (1 - b1**t)) / (jnp.sqrt(v / (1 - b2**t)) + eps), m, v


@jax.jit
def scaled(x, c):
    return x / c + c * x


def conv(x, kernel, groups=1):
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


def images(x):
    return x[:, :64].reshape(50, 8, 8, 4)


@jax.jit
def kernel_gradient(x, kernel, g):
    return jax.linear_transpose(lambda k: conv(x, k), kernel)(g)[0]


@jax.jit
def clip(gradient):
    norm = jnp.sqrt((gradient * gradient).sum())
    return gradient * jnp.minimum(1.0, 0.01 / norm), norm


def conv_group_norm_clip(x, y):
    """A sum over a convolution's gradient: the layout that XLA likes for it must not change the order of the sum."""
    kernel = y[:36, :8].reshape(3, 3, 4, 8)
    maps = conv(images(x), kernel).reshape(50, 64, 2, 4)
    normal = (maps - maps.mean((1, 3), keepdims=True)) * lax.rsqrt(maps.var((1, 3), keepdims=True) + 1e-5)
    return clip(kernel_gradient(images(x), kernel, jnp.tanh(normal.reshape(50, 8, 8, 8))))


def pooled(x, y):
    maps = conv(images(x), y[:9, :8].reshape(3, 3, 1, 8), groups=4)
    return lax.reduce_window(maps, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 3


@jax.custom_jvp
def with_jvp(x):
    return x * 0.1 + jnp.sin(x) / 3


with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), tangents[0] * 0.1 + jnp.cos(primals[0]) / 3))


@jax.custom_vjp
def with_vjp(x):
    return x * 0.1 + jnp.sin(x) / 3 * x


with_vjp.defvjp(lambda x: (with_vjp(x), x), lambda x, g: (g * 0.1 + x / 3 * g,))


@jax.custom_batching.custom_vmap
def with_vmap(x, y):
    return x * 0.1 + y / 3 - jnp.sin(x) * y


@with_vmap.def_vmap
def _(size, batched, x, y):
    return with_vmap(x, y), True


def root(x, y):
    return lax.custom_root(
        lambda v: v * 3 - y, y, lambda f, v: v * 0.1 - f(v) / 3, lambda g, b: b / g(jnp.ones_like(b))
    )


def linear_solve(x, y):
    return lax.custom_linear_solve(
        lambda v: SQUARE @ v * 0.3 + v / 7, y[0, :60], lambda f, b: f(b) / 3 + b * 0.1, symmetric=True
    )


@jax.jit
def row_products(a, b):
    return (a * b).sum(-1) / 3


# One array as two operands, also under another name.
TWINS = {
    "itself": lambda x: (x, x),
    "one computation done twice": lambda x: (x * 0.3, x * 0.3),
    "one unit called twice": lambda x: (jax.nn.softmax(x), jax.nn.softmax(x)),
    "reshaped to and fro": lambda x: (x, x.ravel().reshape(x.shape)),
    "stop_gradient": lambda x: (x, lax.stop_gradient(x)),
    "all its rows": lambda x: (x, x[:200]),
    "stacked": lambda x: (x, jnp.stack([x])[0]),
    "tiled once": lambda x: (x, jnp.tile(x, (1, 1))),
    "written into zeros": lambda x: (x, jnp.zeros_like(x).at[:].set(x)),
    "scanned": lambda x: (x, lax.scan(lambda c, row: (c, row), 0, x)[1]),
    "either branch": lambda x: (x, lax.cond(x[0, 0] > 0, lambda a: a, lambda a: a, x)),
    "through a unit": lambda x: (x, jax.jit(lambda a: a)(x)),
    "equal constants": lambda x: (np.full(x.shape, 0.3, x.dtype), np.full(x.shape, 0.3, x.dtype)),
    "a checkpoint": lambda x: (x, jax.checkpoint(lambda a: a)(x)),
    "times one in a unit": lambda x: (x, jax.jit(lambda a: a * 1.0)(x)),
    "negated twice in a unit": lambda x: (x, jax.jit(lambda a: lax.neg(lax.neg(a)))(x)),
    "split off in a unit": lambda x: (x, jax.jit(lambda a: jnp.concatenate([a, a + 1])[: len(a)])(x)),
    "as bits and back in a unit": lambda x: (
        x,
        jax.jit(lambda a: lax.bitcast_convert_type(lax.bitcast_convert_type(a, jnp.int32), jnp.float32))(x),
    ),
    "a product turned round": lambda x: (x * (x + 1), jax.jit(lambda a, b: b * a)(x, x + 1)),
    "times equal constants": lambda x: (x * jnp.array(0.3), x * jnp.array(0.3)),
    "times constants of two kinds": lambda x: (x * 0.3, x * np.float32(0.3)),
}

KEY, RAW_KEY = jax.random.key(0), jax.random.PRNGKey(0)

EXPRESSIONS = {
    "division by a constant": lambda x, y: x / 3.0,
    "division by a constant array": lambda x, y: lax.div(x, np.full(x.shape, 80, x.dtype)),
    "mean of rows": lambda x, y: x.mean(-1),
    "mean of all": lambda x, y: (x * y).mean(),
    "mean of 80 rows": lambda x, y: (x[:80, :10] * y[:80, :10]).mean(),
    "mean of a product": lambda x, y: (x * y).mean() * 3.3 / 7,
    "integer power": lambda x, y: x**3,
    "float powers": lambda x, y: (jnp.abs(x) ** 0.5, jnp.abs(x) ** 1.7),
    "a sum of products": lambda x, y: x * 2 + y * 3,
    "unit": lambda x, y: (layer_norm(x, W, W * 2), gelu_backward(x, y)),
    "units that share a subexpression": lambda x, y: layer_norm(layer_norm(x, W, W) * y + x, W, W),
    "unit of a Python scalar": lambda x, y: (scaled(x, 3.3), scaled(x, jnp.float32(3.3))),
    "adam as a unit": lambda x, y: adam(x, y, y * 0.1, y * y, jnp.float32(3), jnp.float32(1e-3)),
    "adam with Python scalars": lambda x, y: adam(x, y, y * 0.1, y * y, 3.0, 1e-3, 0.9, 0.999, 1e-8),
    "adam operation by operation": lambda x, y: adam.__wrapped__(x, y, y * 0.1, y * y, 3.0, jnp.float32(1e-3)),
    "softmax": lambda x, y: jax.nn.softmax(x),
    "log-softmax": lambda x, y: jax.nn.log_softmax(x),
    "log-sum-exp": lambda x, y: (jax.nn.logsumexp(x, -1), jnp.logaddexp(x, y)),
    "cross-entropy of labels": lambda x, y: (
        -(jax.nn.log_softmax(x) * jax.nn.one_hot(jnp.arange(200) % 77, 77)).sum(-1).mean()
    ),
    "variance": lambda x, y: (x.var(0), x.std(1)),
    "activations": lambda x, y: (jax.nn.silu(x), jax.nn.softplus(y), jnp.tanh(x)),
    "sums": lambda x, y: (x * y + x).sum(0) * 0.1 + y.sum(0),
    "cumulative sum": lambda x, y: jnp.cumsum(x, 0),
    "norm": lambda x, y: jnp.linalg.norm(x),
    "clip": lambda x, y: x * jnp.minimum(1.0, 1.3 / (jnp.sqrt((x * x).sum() + (y * y).sum()) + 1e-6)),
    "products": lambda x, y: (x @ y.T, jnp.einsum("bij,bkj->bik", x.reshape(10, 20, 77), y.reshape(10, 20, 77))),
    "linear algebra": lambda x, y: (jnp.linalg.solve(SQUARE, y[:60]), jnp.linalg.cholesky(SQUARE) / 3),
    "gather, scatter and sort": lambda x, y: (x.at[jnp.arange(9) % 4].add(y[:9] / 3), jnp.sort(x * 0.1 + y / 3)),
    "random numbers, raw key": lambda x, y: (
        jax.random.normal(RAW_KEY, (50, 3)),
        jax.random.truncated_normal(RAW_KEY, -2, 2, (50, 3)),
    ),
    "random numbers, typed key": lambda x, y: x * jax.random.bernoulli(KEY, 0.7, x.shape) / 0.7,
    "split keys": lambda x, y: jax.vmap(lambda key: jax.random.normal(key, (9,)) / 3)(jax.random.split(KEY, 4)),
    "vjp": lambda x, y: jax.vjp(lambda a: jax.nn.gelu(a) * jnp.sin(a), x)[1](y),
    "vjp of a mean": lambda x, y: jax.vjp(lambda a: jax.nn.relu(a).mean(), x)[1](jnp.float32(1.3)),
    "jvp": lambda x, y: jax.jvp(lambda a: jnp.sin(a * 0.1) * a / 3, (x,), (y,)),
    "gradient": lambda x, y: jax.grad(lambda a: jax.nn.logsumexp(a * y, -1).mean() / 3)(x),
    "scan": lambda x, y: lax.scan(lambda c, a: (jnp.tanh(c * 0.3 + a), c), x[0], y),
    "while and cond": lambda x, y: lax.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, lax.cond(c[0] % 2 == 0, jnp.sin, jnp.tanh, c[1] * 1.1)), (0, x)
    ),
    "vmap": lambda x, y: jax.vmap(lambda a, b: (a * b).sum() / 3 + a.mean())(x, y),
    "checkpoint": lambda x, y: jax.checkpoint(lambda a: (a * 0.1 + jnp.sin(a) / 3).mean(0))(x),
    "gradient of a checkpoint": lambda x, y: jax.grad(jax.checkpoint(lambda a: jnp.tanh(a * y / 3).mean()))(x),
    "function with a jvp of its own": lambda x, y: jax.vmap(with_jvp)(x),
    "function with a vjp of its own": lambda x, y: (with_vjp(x), jax.vjp(with_vjp, x)[1](y)),
    "function with a vmap of its own": lambda x, y: (with_vmap(x, y), jax.vmap(with_vmap)(x, y)),
    "root": root,
    "linear solve": linear_solve,
    "callback": lambda x, y: jax.pure_callback(lambda a: np.asarray(a) * 2, jax.typeof(x), x) * 0.1 + y / 3,
    "exact_jit as a unit": lambda x, y: exact_jit(lambda a: jnp.tanh(a * 0.1) + a / 3)(x) * 0.1 + y / 3,
    "convolution and pooling": pooled,
    "vjp of a convolution": lambda x, y: jax.vjp(conv, images(x), y[:36, :8].reshape(3, 3, 4, 8))[1](
        jnp.repeat(images(y), 2, -1) / 3
    ),
    "convolution, group norm, clip": conv_group_norm_clip,
    "gradient without the value": lambda x, y: jax.grad(lambda a: jnp.sqrt(jnp.abs(a) + 1).sum())(x),
    "hessian": lambda x, y: jax.hessian(lambda a: ((a * 0.3 + a / 3) ** 3).sum())(W[:33]),
}


def assert_same(name, function, *args):
    differences = bits_equal(function(*args), exact_jit(function)(*args)).differences
    assert not differences, f"{name}: jax {jax.__version__} rounds it otherwise when it is compiled: {differences}"


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_compiled_bits_equal_eager_bits(name):
    assert_same(name, EXPRESSIONS[name], X, Y)


@pytest.mark.parametrize("twins", TWINS)
@pytest.mark.parametrize("columns", [3, 4, 77])
def test_one_array_as_two_operands(twins, columns):
    """Eager hands over two arrays: a kernel that reads one twice may round otherwise."""
    x = jnp.abs(X[:, :columns])
    assert_same(twins, lambda a: row_products(*TWINS[twins](a)), x)
    assert_same(twins, lambda a: jnp.einsum("ij,ij->i", *TWINS[twins](a)), x)


def test_what_only_a_callback_uses_keeps_its_unit_whole():
    seen = []
    unit = jax.jit(lambda a: (jnp.sqrt(a), 2 / jnp.sqrt(a)))

    def function(x):
        io_callback(lambda a: seen.append(np.asarray(a)), None, unit(x)[1], ordered=True)
        return x.sum()

    x = jnp.abs(X)
    function(x)
    exact_jit(function)(x)
    jax.effects_barrier()
    assert bits_equal(*seen)


def test_what_is_no_array_passes():
    ref = jax.new_ref(jnp.ones(3))

    def function(ref, x):
        ref[...] = x * 2
        token = jax.jit(lambda a: (lax.after_all(lax.create_token()), a * 2)[1])
        return token(x)

    np.testing.assert_array_equal(exact_jit(function)(ref, jnp.ones(3)), 2)
    np.testing.assert_array_equal(ref[...], 2)
    with jax.numpy_dtype_promotion("strict"):
        unit = jax.jit(lambda a: (a > 1, a * 2))
        np.testing.assert_array_equal(exact_jit(lambda a: unit(a)[1])(jnp.ones(3)), 2)
    with pytest.raises(TypeError, match="not a valid JAX type"):
        exact_jit(lambda a: "a")(X)


def test_operands_are_copied_and_results_kept_only_where_it_matters():
    def text(function):
        return exact_jit(function).lower(X).as_text()

    assert "select" not in text(lambda x: row_products(x, x * 2))
    assert text(lambda x: row_products(x, x)).count("stablehlo.select") == 1
    products = jax.jit(lambda x: (x @ x.T, x * 3))
    assert "select" not in text(lambda x: products(x)[1])
    shared = jax.jit(lambda x: (jnp.sqrt(x), 2 / jnp.sqrt(x)))
    assert text(lambda x: shared(x)[1]).count("stablehlo.select") == 1
    assert "select" not in text(lambda x: shared(x))
    assert "sqrt" not in text(lambda x: (shared(x), x)[1])


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float64])
@pytest.mark.parametrize("name", ["unit", "gradient", "gradient without the value"])
def test_other_dtypes(name, dtype):
    with jax.enable_x64(dtype == jnp.float64):
        assert_same(f"{name} in {dtype.__name__}", EXPRESSIONS[name], X.astype(dtype), Y.astype(dtype))


@pytest.mark.parametrize(
    "names",
    [
        ("jax._src.core", "Trace", "Tracer", "TraceTag", "take_current_trace", "set_current_trace", "jaxprs_in_params"),
        ("jax.experimental.layout", "Layout", "with_layout_constraint"),
        ("jax.lax", "optimization_barrier"),
    ],
    ids=lambda names: names[0],
)
def test_the_names_inside_jax_that_the_fence_uses_exist(names):
    module, *attributes = names
    missing = [name for name in attributes if not hasattr(importlib.import_module(module), name)]
    assert not missing, f"jax {jax.__version__} has moved {missing} out of {module}: da_trainer/_fence.py needs them"


def test_what_the_fence_reads_of_a_lowered_program_exists():
    def function(x):
        return jax.pure_callback(lambda a: a, jax.typeof(x), x + W)

    lowered = jax.jit(function).lower(X)
    try:
        assert has_callbacks(lowered)
        assert digest(lowered) == digest(jax.jit(function).lower(X)) != digest(jax.jit(lambda x: x + 1).lower(X))
    except (AttributeError, KeyError) as error:
        pytest.fail(f"jax {jax.__version__} keeps constants or callbacks elsewhere: _fence.py must look there: {error}")


def test_plain_jit_is_why_there_is_a_fence():
    function = EXPRESSIONS["adam operation by operation"]
    assert not bits_equal(function(X, Y), jax.jit(function)(X, Y))


def test_there_is_a_barrier_behind_each_operation_and_before_each_unit_and_constant():
    def count(function):
        return exact_jit(function).lower(X).as_text().count("stablehlo.optimization_barrier")

    assert count(lambda x: x) == 0
    assert count(lambda x: lax.sin(x)) == 1
    assert count(lambda x: lax.sin(lax.cos(x))) == 2
    assert count(lambda x: lax.mul(x, X)) == 2
    assert count(jax.jit(lambda x: lax.sin(lax.cos(x)))) == 2


def test_exact_jit_is_differentiated_and_mapped():
    def function(x):
        return (jnp.sin(x * 0.1) * x / 3).sum()

    compiled = exact_jit(function)
    np.testing.assert_allclose(jax.grad(compiled)(X), jax.grad(function)(X), rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(compiled)(X), jax.vmap(function)(X), rtol=1e-5)


def test_exact_jit_takes_pytrees_and_keywords_and_keeps_the_name():
    def function(x, *, extra):
        return {"out": x["in"] / 3 + extra, "none": None, "number": 2}

    compiled = exact_jit(function)
    assert bits_equal(compiled({"in": X}, extra=Y), function({"in": X}, extra=Y) | {"number": jnp.int32(2)})
    assert compiled.__name__ == "function"


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


@pytest.mark.parametrize("leaf", ["text", object(), {1, 2}], ids=["text", "object", "set"])
def test_bits_equal_refuses_what_holds_no_numbers(leaf):
    with pytest.raises(ValueError, match=r"a and b must hold arrays, numbers and random keys\. Received: "):
        bits_equal({"w": leaf}, {"w": leaf})


def test_exact_jit_refuses_what_cannot_be_called():
    with pytest.raises(ValueError, match=r"function must be callable\. Received: function=None"):
        exact_jit(None)


def test_bits_equal_takes_random_keys():
    assert bits_equal(jax.random.key(1), jax.random.key(1))
    assert not bits_equal(jax.random.key(1), jax.random.key(2))


def test_trees_are_built_inside_a_trace():
    """Nodes of other libraries ask which trace they are made in."""

    class Node:
        def __init__(self, leaf):
            self.leaf = leaf
            self.state = jax.extend.core.get_opaque_trace_state()

    jax.tree_util.register_pytree_node(Node, lambda node: ((node.leaf,), None), lambda _, leaves: Node(*leaves))
    assert bits_equal(exact_jit(lambda node: Node(node.leaf / 3))(Node(X)).leaf, X / 3)


def test_bits_of_complex_numbers():
    assert bits_equal(np.complex64(1 + 2j), np.complex64(1 + 3j)).differences == {
        "": "1 of 1 entries differ, by at most 1"
    }


def test_a_shard_map_by_itself_is_refused_in_words_and_taken_in_a_jit():
    x, mesh = jnp.arange(4.0), jax.make_mesh((1,), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("devices")
    f = jax.shard_map(lambda x: x / 3, mesh=mesh, in_specs=spec, out_specs=spec)
    with pytest.raises(ValueError, match=r"jax\.shard_map must be inside a function under jax\.jit"):
        exact_jit(f)(x)
    assert bits_equal(exact_jit(jax.jit(f))(x), f(x))
