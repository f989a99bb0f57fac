"""Measures the memory of a step of 24 transformer blocks, with and without Checkpoint; writes checkpoint_cpu.json."""

import json
from pathlib import Path

import jax
from da_bench import file_name, machine
from da_layers import MSE, Checkpoint, Layer, Sequential, TransformerBlock
from da_optim import SGD
from da_trainer import Trainer, bits_equal

BLOCKS, SIZE, HEADS, TIME, BATCH = 24, 64, 4, 64, 8


def trained(checkpointed: bool, compiled: bool) -> Trainer:
    """Two steps on random numbers."""
    X = jax.random.normal(jax.random.key(1), (2 * BATCH, TIME, SIZE))
    blocks: list[Layer] = [TransformerBlock(SIZE, HEADS, 4 * SIZE, seed, dropout=0.1) for seed in range(BLOCKS)]
    model = Sequential([Checkpoint(block) for block in blocks] if checkpointed else blocks)
    return Trainer(model, MSE(), SGD(0.01), compile=compiled).fit(X, X, 1, BATCH)


def main() -> None:
    """The temporary memory of the program, as XLA tells it, and whether all bits are the same in all four runs."""
    runs = {(kept, mode): trained(kept, mode) for kept in (False, True) for mode in (False, True)}
    values = [list(trainer.model.state_dict().values()) for trainer in runs.values()]
    content = {
        "measurement": "checkpoint",
        "machine": machine(),
        "model": f"{BLOCKS} blocks of size {SIZE}, {TIME} tokens, batch {BATCH}, dropout 0.1",
        "temporary_bytes": {
            "without": runs[False, True].temporary_bytes,
            "each block in a Checkpoint": runs[True, True].temporary_bytes,
        },
        "same bits in all four runs": all(bool(bits_equal(values[0], other)) for other in values[1:]),
    }
    Path(__file__).with_name(file_name("checkpoint")).write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
