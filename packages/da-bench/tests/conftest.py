import pytest
from da_bench import Split, Workload, normal_mlp, transformer
from da_bench._cli import PLANS


@pytest.fixture
def tiny_mlp() -> Workload:
    return normal_mlp(layers=2, width=8, batch=4)


@pytest.fixture
def tiny_plans(monkeypatch, tiny_mlp):
    """The command measures small models in place of the real ones."""
    small = {
        "mlp": lambda: tiny_mlp,
        "digits": lambda: tiny_mlp,
        "transformer": lambda: transformer(blocks=1, d_model=8, time=4, batch=4),
    }
    for name, make in small.items():
        monkeypatch.setitem(PLANS, name, PLANS[name]._replace(make=make, epochs=1))


@pytest.fixture
def few_digits(monkeypatch) -> Split:
    from da_bench import digits_split

    return Split(*(part[:100] for part in digits_split()))
