"""Regression on a table: the progression of diabetes from ten measurements of a patient, by resnet_mlp."""

import jax
import numpy as np
from _both import main
from da_layers import MSE, resnet_mlp
from da_optim import Adam, CosineLR
from da_trainer import Trainer
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

measurements, progression = load_diabetes(return_X_y=True)
X, X_test, y, y_test = train_test_split(measurements, progression, test_size=100, random_state=0)
# To mean 0 and deviation 1 over the training samples.
X, X_test = (((part - X.mean(0)) / X.std(0)).astype(np.float32) for part in (X, X_test))
target = ((y - y.mean()) / y.std()).astype(np.float32)[:, None]


def train(compiled: bool) -> tuple[Trainer, str, float]:
    """Trains; R^2 on the 100 patients that it has not seen."""
    model = resnet_mlp(10, 32, 64, 1, 1, 0, dropout=0.3)
    trainer = Trainer(model, MSE(), Adam(1e-3), CosineLR(60), weight_decay=1e-3, decay="decoupled", compile=compiled)
    trainer.fit(X, target, 60, batch_size=32, key=jax.random.key(0))
    predicted = np.asarray(trainer.predict(X_test))[:, 0] * y.std() + y.mean()
    r2 = float(1 - ((predicted - y_test) ** 2).mean() / ((y_test - y.mean()) ** 2).mean())
    return trainer, f"R^2 of {r2:.3f} on the test set", r2


if __name__ == "__main__":
    main("diabetes, resnet_mlp", train)
