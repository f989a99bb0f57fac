"""A language model of characters, on the English of Python's own manual, by transformer_lm."""

import math
from pydoc_data.topics import topics

import jax
import jax.numpy as jnp
import numpy as np
from _both import main
from da_layers import SoftmaxCrossEntropy, transformer_lm
from da_optim import Adam, CosineLR, LinearWarmup
from da_trainer import Trainer

# As long as what it is to write.
LENGTH, EPOCHS = 304, 8
text = "\n".join(topics[name] for name in sorted(topics))
alphabet = sorted(set(text))
codes = np.array([alphabet.index(character) for character in text])
# The last tenth is held out.
border = len(codes) * 9 // 10


def windows(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Windows of characters, and the characters that follow each."""
    count = (len(part) - 1) // LENGTH
    return tuple(part[start:][: count * LENGTH].reshape(count, LENGTH) for start in (0, 1))


def train(compiled: bool) -> tuple[Trainer, str, float]:
    """Trains; bits for a held-out character, and 300 characters of its own."""
    (X, y), (X_test, y_test) = windows(codes[:border]), windows(codes[border:])
    model = transformer_lm(len(alphabet), 128, 4, 256, 3, 0)
    schedule = LinearWarmup(0.5, after=CosineLR(EPOCHS))
    trainer = Trainer(model, SoftmaxCrossEntropy(), Adam(3e-3), schedule, clip_norm=1.0, compile=compiled)
    trainer.fit(X, y, EPOCHS, batch_size=16, key=jax.random.key(0), progress=True)
    bits = trainer.evaluate(X_test, y_test, batch_size=16) / math.log(2)
    start = jnp.array([[alphabet.index(character) for character in "The "]])
    written, again = (model.generate(start, 300, jax.random.key(1), 0.7, cached) for cached in (True, False))
    print("".join(alphabet[code] for code in np.asarray(written)[0]))
    print("the same characters without the cache:", bool((written == again).all()))
    return trainer, f"{bits:.3f} bits for a held-out character", bits


if __name__ == "__main__":
    main("Python's manual, transformer_lm", train)
