"""What attention does beside the contract: memory, padding, caches and generation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import MultiHeadAttention, TransformerBlock, transformer_lm


@pytest.fixture
def x():
    return jax.random.normal(jax.random.key(1), (2, 5, 8))


def test_memory_equals_vjp(x64):
    layer = MultiHeadAttention(8, 2, 0, key_value_heads=1)
    x, memory = (jnp.asarray(np.random.default_rng(seed).normal(size=(2, time, 8))) for seed, time in ((1, 5), (2, 3)))
    y, pullback = jax.vjp(lambda x, memory: layer.forward(x, memory=memory), x, memory)
    g = jnp.cos(y)
    layer.forward(x, training=True, memory=memory)
    for actual, expected in zip(layer.backward(g), pullback(g), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


def test_padding_has_no_part_in_the_result(x):
    layer = MultiHeadAttention(8, 2, 0)
    mask = jnp.array([[True, True, True, False, False]] * 2)
    y = layer.forward(x, training=True, mask=mask)
    np.testing.assert_allclose(y[:, :3], layer.forward(x[:, :3]), rtol=1e-5, atol=1e-6)
    g = jnp.zeros_like(y).at[:, :3].set(1)
    gx = layer.backward(g)
    assert not np.asarray(gx[:, 3:]).any()
    layer.forward(x[:, :3], training=True)
    np.testing.assert_allclose(gx[:, :3], layer.backward(g[:, :3]), rtol=1e-5, atol=1e-6)


def test_a_sample_that_is_all_padding_stays_finite(x):
    layer = MultiHeadAttention(8, 2, 0)
    y = layer.forward(x, training=True, mask=jnp.zeros((2, 5), bool))
    assert np.isfinite(y).all()
    assert np.isfinite(layer.backward(y)).all()


def test_mask_equals_vjp(x64):
    layer, mask = MultiHeadAttention(8, 4, 0, causal=True), jnp.array([[True] * 3, [False, True, True]])
    x = jnp.asarray(np.random.default_rng(1).normal(size=(2, 3, 8)))
    y, pullback = jax.vjp(lambda x: layer.forward(x, mask=mask), x)
    layer.forward(x, training=True, mask=mask)
    np.testing.assert_allclose(layer.backward(y), pullback(y)[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"memory": jnp.ones((2, 3, 7))},
            r"memory must have shape \(batch, time, 8\)\. Received: memory\.shape=\(2, 3, 7\)",
        ),
        ({"memory": jnp.ones((3, 4, 8))}, r"memory must have the batch of x, 2\. Received: memory\.shape=\(3, 4, 8\)"),
        ({"mask": jnp.ones((2, 5))}, r"mask must be bool of shape \(2, 5\)\. Received: .*mask\.dtype=float32"),
        ({"mask": jnp.ones((2, 4), bool)}, r"mask must be bool of shape \(2, 5\)\. Received: mask\.shape=\(2, 4\)"),
    ],
)
def test_wrong_arguments_are_named(x, arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(8, 2, 0).forward(x, **arguments)


def test_a_causal_layer_takes_no_memory(x):
    with pytest.raises(
        ValueError, match=r"a causal or rotary layer attends to x alone. Received: memory.shape=\(2, 5, 8\)"
    ):
        MultiHeadAttention(8, 2, 0, causal=True).forward(x, memory=x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"heads": 3}, "heads must divide d_model. Received: heads=3, d_model=8"),
        ({"heads": 4, "key_value_heads": 3}, "key_value_heads must divide heads. Received: key_value_heads=3, heads=4"),
        ({"heads": 8, "rotary": True}, "rotary must have heads of an even size. Received: size=1"),
    ],
)
def test_numbers_that_do_not_divide_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(8, key=0, **arguments)


@pytest.mark.parametrize(
    "layer",
    [
        MultiHeadAttention(8, 4, 0, causal=True, key_value_heads=2, rotary=True),
        TransformerBlock(8, 2, 16, 0, causal=True, rotary=True),
        TransformerBlock(8, 2, 16, 0, causal=True, norm="post", gated=True),
    ],
    ids=["attention", "pre", "post"],
)
def test_steps_with_a_cache_give_what_forward_gives(x, layer):
    cache, outputs = layer.start(2, 6), []
    for part in (x[:, :2], x[:, 2:3], x[:, 3:]):
        y, cache = layer.step(part, cache)
        outputs.append(y)
    np.testing.assert_allclose(jnp.concatenate(outputs, 1), layer.forward(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"x must have 1 tokens at most, as the cache has room\. Received: time=2"):
        layer.step(x[:, :2], cache)


def test_a_cache_of_another_layer_or_batch_is_refused(x):
    layer = MultiHeadAttention(8, 4, 0, causal=True, key_value_heads=2)
    for other, batch in ((MultiHeadAttention(8, 4, 0, causal=True), 2), (layer, 3)):
        refusal = r"cache must be of this layer and of the batch of x, of shape \(2, capacity, 4\)\. Received: cache"
        with pytest.raises(ValueError, match=refusal):
            layer.step(x, other.start(batch, 8))


def test_a_traced_step_without_room_gives_nan(x):
    layer = MultiHeadAttention(8, 2, 0, causal=True)
    step = jax.jit(layer.step)
    y, cache = step(x, layer.start(2, 6))
    assert jnp.isfinite(y).all()
    y, _ = step(x, cache)
    assert jnp.isnan(y).all()


def test_a_cache_needs_a_causal_layer():
    with pytest.raises(ValueError, match=r"a cache needs a causal layer\. Received: causal=False"):
        MultiHeadAttention(8, 2, 0).start(1, 4)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("stacked", [False, True])
def test_a_language_model_writes_the_same_with_a_cache_and_without(temperature, stacked):
    model = transformer_lm(11, 16, 4, 24, 2, 0, key_value_heads=2, stacked=stacked)
    tokens = jnp.array([[1, 2, 3], [4, 5, 6]])
    texts = [model.generate(tokens, 12, 7, temperature, cached) for cached in (True, False)]
    np.testing.assert_array_equal(*texts)
    np.testing.assert_array_equal(texts[0][:, :3], tokens)
    assert texts[0].shape == (2, 15)


def test_a_prompt_of_small_integers_is_no_narrower_than_the_text():
    model, prompt = transformer_lm(300, 8, 2, 16, 1, 0), np.array([[1, 2]])
    texts = [model.generate(jnp.asarray(prompt, dtype), 20, 3) for dtype in ("uint8", "int32")]
    np.testing.assert_array_equal(*texts)
    assert texts[0].max() > 255


def test_what_cannot_be_written_is_said():
    model = transformer_lm(11, 16, 4, 24, 1, 0)
    with pytest.raises(ValueError, match=r"tokens must have shape \(batch, time\). Received: tokens.shape=\(3,\)"):
        model.generate(jnp.array([1, 2, 3]), 2, 0)
    with pytest.raises(ValueError, match=r"tokens must be integers\. Received: tokens\.dtype=float32"):
        model.generate(jnp.ones((1, 2)), 2, 0)
    for tokens in ([[1, 11]], [[-1, 2]]):
        with pytest.raises(ValueError, match=r"tokens must be from 0 to 10\. Received: lowest=.*, highest="):
            model.generate(jnp.array(tokens), 2, 0)
    with pytest.raises(ValueError, match=r"temperature must be 0 or more\. Received: temperature=-1"):
        model.generate(jnp.array([[1]]), 2, 0, temperature=-1)
    with pytest.raises(ValueError, match=r"blocks must be an integer of 1 or more\. Received: blocks=0"):
        transformer_lm(11, 16, 4, 24, 0, 0)
