import pytest
from da_bench import claims


def result(model="mlp", over_loop=2.0, over_operations=4.0, differences=(0.0, 0.0, 0.0, 0.0), same=True):
    steps = ("1", "10", "50", "200")
    return {
        "model": model,
        "ratios": {"compiled / loop": over_loop, "compiled / loop, operation by operation": over_operations},
        "comparison": {
            "steps": 200,
            "relative_difference": dict(zip(steps, differences, strict=False)),
            "same_bits": {"losses": same, "parameters": same},
        },
    }


def test_loss_claim_holds_and_says_that_the_bits_are_the_same():
    claim = claims([result(), result("transformer")], "cpu")[0]
    assert claim.verdict == "holds"
    assert str(claim).startswith(
        "The loss of the compiled step is within 0.0001 of the loop at steps 1, 10, 50 and 200: holds"
    )
    assert "mlp: difference 0, 0, 0 and 0 at steps 1, 10, 50 and 200" in str(claim)
    assert "have the same bits" in str(claim)


def test_loss_claim_does_not_hold_at_one_step_of_one_model():
    claim = claims([result(), result("transformer", differences=(0, 3.42e-6, 6e-8, 2.52e-3), same=False)], "cpu")[0]
    assert claim.verdict == "does not hold"
    assert dict(claim.verdicts) == {"mlp": "holds", "transformer": "does not hold"}
    assert "0.00252" in str(claim)
    assert "NOT the same bits" in str(claim)


def test_loss_claim_is_not_measured_where_a_step_was_not_run():
    assert claims([result(differences=(0.0, 0.0))], "cpu")[0].verdict == "not measured"


def test_loss_claim_does_not_hold_for_nan():
    assert claims([result(differences=(float("nan"), 0, 0, 0))], "cpu")[0].verdict == "does not hold"


@pytest.mark.parametrize(("ratio", "verdict"), [(3.0, "holds"), (2.99, "does not hold")])
def test_gpu_claim(ratio, verdict):
    _, on_gpu, on_cpu = claims([result(over_loop=5.0), result("transformer", over_loop=ratio)], "gpu")
    assert on_gpu.verdict == verdict
    assert f"transformer: {ratio:.2f}x" in str(on_gpu)
    assert str(on_cpu).endswith("not measured")


@pytest.mark.parametrize(("ratio", "verdict"), [(1.5, "holds"), (1.49, "does not hold")])
def test_cpu_claim_is_judged_operation_by_operation_and_reports_the_loop(ratio, verdict):
    _, on_gpu, on_cpu = claims([result(over_operations=ratio, over_loop=1.17)], "cpu")
    assert on_cpu.verdict == verdict
    assert f"{ratio:.2f}x, and 1.17x the loop as it is" in str(on_cpu)
    assert str(on_gpu).endswith("not measured")
