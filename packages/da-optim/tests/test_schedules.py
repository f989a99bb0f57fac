import math
import pickle

import pytest
from da_optim import (
    ConstantLR,
    CosineLR,
    CosineWarmRestarts,
    ExponentialLR,
    JoinedLR,
    LinearWarmup,
    NoamSchedule,
    OneCycleLR,
    PiecewiseLR,
    PolynomialLR,
    ReduceOnPlateau,
    Schedule,
    StepLR,
)

SCHEDULES = [
    ConstantLR(),
    StepLR(2, gamma=0.5),
    ExponentialLR(0.9),
    PolynomialLR(5, power=2.0, end=0.1),
    CosineLR(5, end=0.1),
    CosineWarmRestarts(2, factor=2, end=0.1),
    LinearWarmup(3, start=0.1, after=CosineLR(5)),
    NoamSchedule(3),
    OneCycleLR(9),
    PiecewiseLR({2: 0.5, 4.5: 0.1}),
    JoinedLR(CosineLR(3), 2.5, ExponentialLR(0.9)),
    ReduceOnPlateau(),
]


def half_cosine(progress, end=0.0):
    return end + 0.5 * (1 - end) * (1 + math.cos(progress * math.pi))


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        (ConstantLR(), {0: 1, 0.5: 1, 1e6: 1}),
        (StepLR(2), {0: 1, 1.99: 1, 2: 0.1, 3.5: 0.1, 4: 0.01, 2000: 0}),
        (StepLR(0.5, gamma=2), {0: 1, 0.49: 1, 0.5: 2, 1.75: 8}),
        (ExponentialLR(0.9), {0: 1, 0.5: math.sqrt(0.9), 1: 0.9, 10: 0.9**10}),
        (ExponentialLR(1.1), {0: 1, 2: 1.21}),
        (PolynomialLR(4), {0: 1, 1: 0.75, 3: 0.25, 4: 0, 9: 0}),
        (PolynomialLR(4, power=3, end=0.2), {0: 1, 2: 0.2 + 0.8 / 8, 4: 0.2, 9: 0.2}),
        (PolynomialLR(4, power=0.5), {0: 1, 3: 0.5, 4: 0, 9: 0}),
        (CosineLR(6), {0: 1, 2: 0.75, 3: 0.5, 4: 0.25, 6: 0, 100: 0}),
        (CosineLR(6, end=0.1), {0: 1, 1.5: half_cosine(0.25, 0.1), 3: 0.55, 6: 0.1, 100: 0.1}),
        (CosineWarmRestarts(4), {0: 1, 1: half_cosine(0.25), 2: 0.5, 3.5: half_cosine(7 / 8), 4: 1, 402: 0.5}),
        (
            CosineWarmRestarts(1, factor=2, end=0.1),
            {0: 1, 0.5: 0.55, 1: 1, 2: 0.55, 3: 1, 4: half_cosine(0.25, 0.1), 5: 0.55, 7: 1, 1023: 1, 1535: 0.55},
        ),
        (CosineWarmRestarts(0.3, factor=1.5), {0: 1, 0.15: 0.5, 0.3: 1, 0.525: 0.5, 0.75: 1, 1.425: 1}),
        (LinearWarmup(4), {0: 0, 1: 0.25, 3.5: 0.875, 4: 1, 100: 1}),
        (LinearWarmup(4, start=0.2), {0: 0.2, 2: 0.6, 4: 1, 100: 1}),
        (LinearWarmup(2, after=CosineLR(4)), {0: 0, 1: 0.5, 2: 1, 4: 0.5, 6: 0, 9: 0}),
        (LinearWarmup(0, after=CosineLR(4)), {0: 1, 2: 0.5, 4: 0}),
        (NoamSchedule(4), {0: 0, 1: 0.25, 4: 1, 9: 2 / 3, 16: 0.5, 400: 0.1}),
        (PiecewiseLR({}), {0: 1, 9: 1}),
        (PiecewiseLR({3: 0.1, 1.5: 0.5}), {0: 1, 1.49: 1, 1.5: 0.5, 2.9999999999999996: 0.1, 3: 0.1, 50: 0.1}),
        (JoinedLR(CosineLR(4), 2, ExponentialLR(0.5)), {0: 1, 1: half_cosine(0.25), 2: 1, 3: 0.5, 5: 0.125}),
        (JoinedLR(ConstantLR(), 2, JoinedLR(StepLR(1), 2, ConstantLR())), {1: 1, 2: 1, 3: 0.1, 4: 1, 9: 1}),
        (OneCycleLR(10), {0: 0.04, 1.5: 0.52, 3: 1, 6.5: half_cosine(0.5, 4e-6), 10: 4e-6, 99: 4e-6}),
        (OneCycleLR(4, rise=0.5, start=0, end=0), {0: 0, 1: 0.5, 2: 1, 3: 0.5, 4: 0}),
        (OneCycleLR(4, rise=0), {0: 1, 4: 4e-6}),
        (OneCycleLR(4, rise=1), {0: 0.04, 2: 0.52, 4: 4e-6}),
    ],
)
def test_values_follow_the_formula(schedule, values):
    for epoch, expected in values.items():
        assert schedule.multiplier(epoch) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_noam_is_the_paper_divided_by_its_peak():
    d_model, warmup_steps, steps_per_epoch = 512, 4000, 100
    schedule, lr = NoamSchedule(warmup_steps / steps_per_epoch), (d_model * warmup_steps) ** -0.5
    for step in (1, 100, 3999, 4000, 4001, 100_000):
        paper = d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
        assert lr * schedule(step / steps_per_epoch) == pytest.approx(paper, rel=1e-12)


def test_last_values_are_reached_exactly():
    assert CosineLR(0.7, end=0.3)(0.7) == 0.3
    assert PolynomialLR(0.7, end=0.3)(0.7) == 0.3
    assert LinearWarmup(0.7)(0.7) == NoamSchedule(0.7)(0.7) == 1.0


@pytest.mark.parametrize("n", [3, 7, 10])
@pytest.mark.parametrize("steps_per_period", [1, 2, 5])
def test_periods_begin_at_the_step_that_lies_on_the_boundary(n, steps_per_period):
    """With n steps in an epoch the period is a fraction that floating point may not hold."""
    step_lr = StepLR(steps_per_period / n, gamma=0.5)
    restarts = CosineWarmRestarts(steps_per_period / n)
    for step in range(40 * n):
        epoch = step // n + (step % n) / n
        assert step_lr(epoch) == 0.5 ** (step // steps_per_period)
        progress = step % steps_per_period / steps_per_period
        assert restarts(epoch) == pytest.approx(half_cosine(progress), abs=1e-10)


@pytest.mark.parametrize("n", [3, 7, 10])
def test_epochs_summed_step_by_step_may_fall_just_short_of_a_boundary(n):
    step_lr, restarts = StepLR(3, gamma=0.5), CosineWarmRestarts(1, factor=2)
    epoch = 0.0
    for _ in range(3 * n):
        epoch += 1 / n
    assert epoch == pytest.approx(3)
    for near in (epoch, 3.0, math.nextafter(3, 0), math.nextafter(3, 4)):
        assert step_lr(near) == 0.5
        assert restarts(near) == pytest.approx(1, abs=1e-12)


def test_an_epoch_truly_before_the_boundary_is_before_it():
    assert StepLR(3, gamma=0.5)(3 - 1e-9) == 1.0
    assert CosineWarmRestarts(3)(3 - 1e-9) == pytest.approx(0)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
class TestEverySchedule:
    def test_calling_it_is_its_multiplier(self, schedule):
        for epoch in (0, 0.25, 1, 2.9999999999999996, 7.5):
            assert schedule(epoch) == schedule.multiplier(epoch)
            assert type(schedule(epoch)) is float

    def test_it_never_leaves_zero_to_one(self, schedule):
        assert all(0 <= schedule(step / 7) <= 1 for step in range(200))

    @pytest.mark.parametrize("epoch", [-1, -1e-9, math.nan, math.inf, None, "1"])
    def test_the_epoch_must_be_finite_and_not_negative(self, schedule, epoch):
        with pytest.raises(ValueError, match=r"^epoch must be a finite number >= 0\. Received: epoch="):
            schedule(epoch)

    def test_it_pickles(self, schedule):
        assert pickle.loads(pickle.dumps(schedule))(2.5) == schedule(2.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StepLR(0), r"step_size must be a finite number > 0\. Received: step_size=0$"),
        (lambda: StepLR(1, gamma=0), r"gamma must be a finite number > 0\. Received: gamma=0$"),
        (lambda: ExponentialLR(-1), r"gamma must be a finite number > 0\. Received: gamma=-1$"),
        (lambda: PolynomialLR(0), r"epochs must be a finite number > 0\. Received: epochs=0$"),
        (lambda: PolynomialLR(1, power=0), r"power must be a finite number > 0\. Received: power=0$"),
        (lambda: PolynomialLR(1, end=2), r"end must be a number in \[0, 1\]\. Received: end=2$"),
        (lambda: CosineLR(None), r"epochs must be a finite number > 0\. Received: epochs=None$"),
        (lambda: CosineLR(1, end=-1), r"end must be a number in \[0, 1\]\. Received: end=-1$"),
        (lambda: CosineWarmRestarts(-1), r"first_period must be a finite number > 0\. Received: first_period=-1$"),
        (lambda: CosineWarmRestarts(1, 0.5), r"factor must be a finite number >= 1\. Received: factor=0\.5$"),
        (lambda: CosineWarmRestarts(1, end=2), r"end must be a number in \[0, 1\]\. Received: end=2$"),
        (lambda: LinearWarmup(-1), r"epochs must be a finite number >= 0\. Received: epochs=-1$"),
        (lambda: LinearWarmup(1, start=2), r"start must be a number in \[0, 1\]\. Received: start=2$"),
        (
            lambda: LinearWarmup(1, after=0.5),
            r"after must be an object with multiplier\(epoch\)\. Received: after=0\.5$",
        ),
        (lambda: OneCycleLR(0), r"epochs must be a finite number > 0\. Received: epochs=0$"),
        (lambda: OneCycleLR(1, rise=2), r"rise must be a number in \[0, 1\]\. Received: rise=2$"),
        (lambda: OneCycleLR(1, start=-1), r"start must be a number in \[0, 1\]\. Received: start=-1$"),
        (lambda: OneCycleLR(1, end=2), r"end must be a number in \[0, 1\]\. Received: end=2$"),
        (lambda: PiecewiseLR([1]), r"factors must be a dict of factors by epoch\. Received: factors=\[1\]$"),
        (lambda: PiecewiseLR({0: 1}), r"epoch must be a finite number > 0\. Received: epoch=0$"),
        (lambda: PiecewiseLR({1: -1}), r"factor must be a finite number >= 0\. Received: factor=-1$"),
        (
            lambda: JoinedLR(1, 1, ConstantLR()),
            r"first must be an object with multiplier\(epoch\)\. Received: first=1$",
        ),
        (lambda: JoinedLR(ConstantLR(), 1, 2), r"second must be an object .*\. Received: second=2$"),
        (lambda: JoinedLR(ConstantLR(), 0, ConstantLR()), r"epochs must be a finite number > 0\. Received: epochs=0$"),
        (lambda: ReduceOnPlateau(1), r"factor must be a number in \[0, 1\)\. Received: factor=1$"),
        (lambda: ReduceOnPlateau(patience=0), r"patience must be an integer >= 1\. Received: patience=0$"),
        (lambda: ReduceOnPlateau(patience=1.0), r"patience must be an integer >= 1\. Received: patience=1\.0$"),
        (lambda: ReduceOnPlateau(min_delta=-1), r"min_delta must be a finite number >= 0\. Received: min_delta=-1$"),
        (lambda: ReduceOnPlateau(end=2), r"end must be a number in \[0, 1\]\. Received: end=2$"),
        (lambda: NoamSchedule(0), r"warmup must be a finite number > 0\. Received: warmup=0$"),
    ],
)
def test_constructors_say_what_they_require(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_plateau_is_patience_epochs_without_a_lower_loss():
    schedule, etas = ReduceOnPlateau(factor=0.5, patience=2, min_delta=0.1, end=0.2), []
    for epoch, loss in enumerate((1.0, 0.95, 0.8, 0.8, math.nan, 0.8, 0.6, 0.6, 0.6, 0.6, 0.6)):
        schedule.observe(epoch + 1, loss)
        etas.append(schedule(0))
    assert etas == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.2]


class Listens(ConstantLR):
    def __init__(self):
        super().__init__()
        self.heard = []

    def observe(self, epoch, loss):
        self.heard.append((epoch, loss))


def test_the_loss_goes_to_the_schedule_whose_epoch_it_was():
    first, second, after = Listens(), Listens(), Listens()
    joined, warmed = JoinedLR(first, 2, JoinedLR(ConstantLR(), 1, second)), LinearWarmup(2.5, after=after)
    for epoch in range(1, 6):
        joined.observe(epoch, 0.1 * epoch)
        warmed.observe(epoch, 0.1 * epoch)
    assert first.heard == [(1, 0.1), (2, 0.2)]
    assert second.heard == [(1, 0.4), (2, 0.5)]
    JoinedLR(first, 0.3 / 0.1, second).observe(3, 0.0)
    assert first.heard.pop() == (3, 0.0)
    assert after.heard == [(0.5, 0.1 * 3), (1.5, 0.4), (2.5, 0.5)]


def test_schedules_that_go_by_the_epoch_alone_do_not_listen():
    for schedule in (ConstantLR(), JoinedLR(ConstantLR(), 1, ConstantLR()), LinearWarmup(1)):
        assert schedule.observe is None


def test_a_subclass_writes_its_multiplier_and_can_be_called():
    class Halves(Schedule):
        def multiplier(self, epoch):
            return 1.0 if epoch < 2 else 0.5

    assert [Halves()(1), LinearWarmup(1, after=Halves())(4)] == [1.0, 0.5]
