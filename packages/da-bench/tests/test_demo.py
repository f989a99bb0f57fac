import dataclasses

from click.testing import CliRunner
from da_bench import draw_demo, main, run_demo


def test_demo_of_a_few_digits(few_digits, tmp_path, capsys):
    comparison = run_demo(epochs=2, split=few_digits)
    assert comparison.same_bits
    assert comparison.loss_difference == comparison.parameter_difference == 0
    assert len(comparison.loop.losses) == len(comparison.compiled.accuracies) == 2
    assert comparison.loop.compile_seconds == 0 < comparison.compiled.compile_seconds
    assert not comparison.passed  # nothing is learned from 100 images in two epochs
    assert "Every loss and every parameter has the same bits" in str(comparison)
    assert "The test accuracy is below 0.95." in str(comparison)
    assert "epoch 2/2" in capsys.readouterr().err
    assert draw_demo(comparison, tmp_path / "demo.png").stat().st_size > 10_000


def test_demo_says_where_bits_differ(few_digits):
    comparison = run_demo(epochs=2, progress=False, split=few_digits)
    differing = dataclasses.replace(comparison, same_bits=False, loss_difference=1e-7)
    assert not differing.passed
    assert "do NOT have the same bits" in str(differing)
    assert "loss histories:     1e-07" in str(differing)


def test_the_command_trains_draws_and_passes(tmp_path):
    path = tmp_path / "picture.png"
    outcome = CliRunner().invoke(main, ["demo", "--epochs", "20", "--no-progress", "--picture", str(path)])
    assert outcome.exit_code == 0, outcome.output
    assert f"picture: {path}" in outcome.output
    assert path.exists()


def test_the_command_fails_where_little_is_learned(tmp_path):
    outcome = CliRunner().invoke(main, ["demo", "--epochs", "2", "--no-progress", "--picture", str(tmp_path / "p.png")])
    assert outcome.exit_code == 1
    assert "The test accuracy is below 0.95." in outcome.output
