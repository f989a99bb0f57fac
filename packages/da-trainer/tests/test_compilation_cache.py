"""Compiled programs kept in a folder: a second process compiles nothing."""

import json
import subprocess
import sys
import textwrap

import pytest
from da_layers import MSE, mlp
from da_optim import SGD
from da_trainer import Trainer

PROGRAM = """
    import json, sys
    import jax, numpy as np
    from da_layers import SoftmaxCrossEntropy, mlp
    from da_optim import Adam
    from da_trainer import Trainer

    events = {"cache_hits": 0, "cache_misses": 0}

    def count(event, **_):
        name = event.rpartition("/")[2]
        if name in events:
            events[name] += 1

    jax.monitoring.register_event_listener(count)
    X = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    model = mlp([4, 6, 3], jax.random.PRNGKey(0))
    trainer = Trainer(model, SoftmaxCrossEntropy(), Adam(0.01), compile=True, cache_dir=sys.argv[1])
    trainer.fit(X, np.arange(20) % 3, 2, 8, X_val=X, y_val=np.arange(20) % 3)
    trainer.predict(X)
    print(json.dumps(events | {"loss": trainer.history_["train_loss"]}))
"""


def test_second_process_compiles_nothing(tmp_path):
    runs = []
    for _ in range(2):
        outcome = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / "new" / "cache")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert outcome.returncode == 0, outcome.stderr
        runs.append(json.loads(outcome.stdout))
    first, second = runs
    assert first["cache_misses"] > 5
    assert second["cache_misses"] == 0
    assert second["cache_hits"] >= first["cache_misses"]
    assert first["loss"] == second["loss"]


def test_cache_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cache_dir must be a folder\. Received: cache_dir='.*file'"):
        Trainer(mlp([4, 4], 0), MSE(), SGD(0.1), cache_dir=str(tmp_path / "file"))
    with pytest.raises(ValueError, match=r"cache_dir must be a folder\. Received: cache_dir=3"):
        Trainer(mlp([4, 4], 0), MSE(), SGD(0.1), cache_dir=3)
