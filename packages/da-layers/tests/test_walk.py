"""What belongs to a model."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from da_layers import Buffer, Dense, Key, Layer, Param, ReLU, Residual, Sequential, children, has_attributes, walk


def param():
    return Param(jnp.zeros(2))


class Holder(Layer):
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Plain:
    def __init__(self, inner):
        self.inner = inner


class HandSlotted:
    __slots__ = ("inner", "later")

    def __init__(self, inner):
        self.inner = inner


class BelowSlotted(HandSlotted):
    """Has slots of its base and attributes of its own."""

    def __init__(self, inner):
        self.own = inner


@dataclass
class Record:
    inner: Any


@dataclass(slots=True)
class Slotted:
    inner: Any
    later: Any = None


Pair = namedtuple("Pair", ["left", "right"])


@pytest.mark.parametrize(
    ("hold", "path"),
    [
        (lambda p: p, "x"),
        (lambda p: [1, p], "x.1"),
        (lambda p: (p,), "x.0"),
        (lambda p: deque([p]), "x.0"),
        (lambda p: Pair(None, p), "x.1"),
        (lambda p: {"a": p}, "x.a"),
        (lambda p: {3: p}, "x.3"),
        (lambda p: OrderedDict(a=p), "x.a"),
        (lambda p: defaultdict(list, a=[p]), "x.a.0"),
        (Plain, "x.inner"),
        (Record, "x.inner"),
        (Slotted, "x.inner"),
        (HandSlotted, "x.inner"),
        (BelowSlotted, "x.own"),
        (lambda p: SimpleNamespace(inner=p), "x.inner"),
        (lambda p: Holder(_private=p), "x._private"),
        (lambda p: [{"a": (Plain(SimpleNamespace(deep=[p])),)}], "x.0.a.0.inner.deep.0"),
    ],
)
def test_variables_are_found_under_any_name(hold, path):
    found = param()
    layer = Holder(x=hold(found))
    assert list(layer.variables()) == [path]
    assert layer.params() == [found]
    assert found.name == path


def test_order_is_that_of_the_attributes():
    layer = Holder(z=param(), a=[param(), param()], m=Holder(b=param()))
    assert list(layer.variables()) == ["z", "a.0", "a.1", "m.b"]


def test_shared_variables_and_layers_count_once():
    shared, dense = param(), Dense(4, 6, 0)
    layer = Holder(a=shared, b=[shared], c={"d": shared}, first=dense, second=dense)
    assert list(layer.variables()) == ["a", "first.weight", "first.bias"]
    assert len(layer.params()) == 3
    assert list(layer.layers_by_path()) == ["", "first"]


def test_cycles_end():
    layer = Holder(p=param())
    layer.me, layer.list = layer, []
    layer.list.append(layer.list)
    layer.child = Holder(parent=layer, q=param())
    assert list(layer.variables()) == ["p", "child.q"]


def test_layers_by_path_starts_with_the_layer_itself():
    model = Sequential(Residual(ReLU()), ReLU())
    assert list(model.layers_by_path()) == ["", "layers.0", "layers.0.inner", "layers.1"]
    assert model.layers_by_path()[""] is model


def test_names_follow_the_model_that_was_asked_last():
    inner = Dense(4, 6, 0)
    model = Sequential(inner)
    model.variables()
    assert inner.weight.name == "layers.0.weight"
    inner.variables()
    assert inner.weight.name == "weight"


@pytest.mark.parametrize("clash", [{1: param(), "1": param()}, {"a.b": param(), "a": {"b": param()}}])
def test_two_variables_with_one_path_are_an_error(clash):
    with pytest.raises(ValueError, match=r"^Holder: every Variable must have a path of its own\. Received: path=x\."):
        Holder(x=clash).variables()


def test_kinds_of_variables():
    layer = Holder(a=param(), b=Buffer(0), c=Key(0))
    assert list(layer.variables()) == ["a", "b", "c"]
    assert layer.params() == [layer.a]


@pytest.mark.parametrize(
    "foreign", [jnp.ones(2), np.ones(2), 1, "text", None, Dense, jax.jit(lambda x: x), np, jax, print]
)
def test_the_walk_stays_out_of_foreign_objects(foreign):
    assert list(walk(foreign)) == [("", foreign)]
    assert not has_attributes(foreign)
    assert list(children(foreign)) == []


def test_what_is_kept_is_no_part_of_the_layer():
    layer = ReLU()
    before = [path for path, _ in walk(layer)]
    layer.forward(jnp.ones(2), training=True)
    assert [path for path, _ in walk(layer)] == before


def test_unset_slots_are_left_out():
    record = Slotted.__new__(Slotted)
    assert list(children(record)) == []


def test_prefix_starts_every_path():
    assert [path for path, _ in walk(Residual(ReLU()), "loss")] == ["loss", "loss.inner"]
