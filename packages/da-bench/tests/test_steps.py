import pytest
from da_bench import StepRunner, digits, digits_split, normal_mlp, steps_by_hand, transformer
from da_bench._timing import in_turn
from da_trainer import bits_equal


@pytest.mark.parametrize("mode", [False, True])
def test_a_runner_does_the_steps_of_the_loop_by_hand(tiny_mlp, mode):
    by_hand, by_runner = tiny_mlp.trainer(False), tiny_mlp.trainer(mode)
    losses = steps_by_hand(by_hand, *tiny_mlp.data(), 6)
    runner = StepRunner(by_runner, *tiny_mlp.data())  # one step
    assert runner.run(3) == 3
    runner.load()
    runner.step()
    runner.step()
    runner.store()
    assert len(losses) == 6
    assert bits_equal(by_hand.model.state_dict(), by_runner.model.state_dict())


def test_things_are_timed_in_turn_and_back():
    calls = []
    rates = in_turn({name: lambda name=name: calls.append(name) or 5 for name in "AB"}, sessions=3)
    assert calls == list("ABBAAB")
    assert len(rates["A"]["sessions"]) == 3


def test_the_workloads_are_those_that_the_tables_name():
    assert normal_mlp().name == "mlp 4x512, batch 256"
    assert [array.shape for array in normal_mlp().data()] == [(256, 512), (256, 512)]
    assert transformer().name == "transformer 4x256, seq 128, batch 32"
    assert [array.shape for array in transformer().data()] == [(32, 128, 64), (32,)]
    assert digits().batch_size == 64


def test_digits_are_split_without_overlap():
    split = digits_split()
    assert [part.shape for part in split] == [(1437, 64), (1437,), (360, 64), (360,)]
    assert split.X.dtype == "float32"
    assert 0 <= split.X.min() < split.X.max() <= 1
    assert bits_equal(split, digits_split())
