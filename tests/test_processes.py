"""The same seed gives the same bits in another process."""

import os
import subprocess
import sys

PROGRAM = """
import hashlib, jax, numpy as np
from da_layers import MSE, BatchNorm, Dense, Dropout, Sequential
from da_optim import Adam
from da_trainer import Trainer

X = jax.random.normal(jax.random.key(1), (20, 4))
for mode in (False, True):
    model = Sequential(Dense(4, 6, jax.random.key(0)), BatchNorm(6), Dropout(0.5, 3), Dense(6, 4, jax.random.key(2)))
    trainer = Trainer(model, MSE(), Adam(0.01), compile=mode).fit(X, X, 2, 8, key=jax.random.key(5))
    arrays = [jax.random.key_data(v) if v.dtype.kind == "V" or "key" in str(v.dtype) else v
              for v in model.state_dict().values()]
    print(hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in arrays)).hexdigest(), trainer.history_)
"""


def test_same_bits_in_two_processes_and_both_executors():
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 2
    assert outputs[0][0] == outputs[0][1]
