"""Handwritten digits, 8x8 pixels, by four networks: mlp, resnet_mlp, cnn and transformer_encoder."""

import sys

import jax
import numpy as np
from _both import main
from da_layers import Layer, SoftmaxCrossEntropy, cnn, mlp, resnet_mlp, transformer_encoder
from da_optim import Adam, CosineLR
from da_trainer import Trainer
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

images, labels = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    (images / 16).astype(np.float32), labels, test_size=360, random_state=0, stratify=labels
)

# The network, the shape of a sample, and epochs.
NETWORKS = {
    "mlp": (lambda: mlp([64, 128, 10], 0), (64,), 60),
    "resnet_mlp": (lambda: resnet_mlp(64, 64, 128, 2, 10, 0, dropout=0.2), (64,), 60),
    "cnn": (lambda: cnn(1, [32, 64, 64], 10, 0, dropout=0.3), (8, 8, 1), 40),
    "transformer_encoder": (lambda: transformer_encoder(8, 64, 4, 128, 2, 10, 0, dropout=0.1), (8, 8), 60),
}


def train(name: str, compiled: bool) -> tuple[Trainer, str, float]:
    """Trains one of the networks; its accuracy on the 360 digits that it has not seen."""
    make, shape, epochs = NETWORKS[name]
    model: Layer = make()
    trainer = Trainer(model, SoftmaxCrossEntropy(label_smoothing=0.1), Adam(3e-3), CosineLR(epochs), compile=compiled)
    trainer.fit(X.reshape(-1, *shape), y, epochs, batch_size=64, key=jax.random.key(0))
    predicted = trainer.predict(X_test.reshape(-1, *shape)).argmax(-1)
    accuracy = float((np.asarray(predicted) == y_test).mean())
    return trainer, f"test accuracy {accuracy:.4f}", accuracy


if __name__ == "__main__":
    chosen = sys.argv.pop(1) if len(sys.argv) > 1 and sys.argv[1] in NETWORKS else None
    for network in [chosen] if chosen else NETWORKS:
        print(f"{network}:")
        main(f"digits, {network}", lambda compiled, network=network: train(network, compiled))
