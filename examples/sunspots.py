"""A series one step ahead: the yearly number of sunspots, 1700 to 2008, by recurrent_net."""

import jax
import numpy as np
from _both import main
from da_layers import MSE, recurrent_net
from da_optim import Adam, CosineLR
from da_trainer import Trainer
from statsmodels.datasets import sunspots

WINDOW, TEST_YEARS = 24, 80
spots = sunspots.load_pandas().data["SUNACTIVITY"].to_numpy()
series = (np.sqrt(spots) / 10).astype(np.float32)
X = np.stack([series[i : i + WINDOW] for i in range(len(series) - WINDOW)])[..., None]
# What the next year adds to the last.
y = np.diff(series)[WINDOW - 1 :, None]
X_test, y_test, X, y = X[-TEST_YEARS:], y[-TEST_YEARS:], X[:-TEST_YEARS], y[:-TEST_YEARS]


def in_spots(step: np.ndarray) -> np.ndarray:
    """The number of sunspots that a step from the last year leads to."""
    return (10 * (X_test[:, -1] + step)) ** 2


def train(compiled: bool) -> tuple[Trainer, str, float]:
    """Trains on the years before 1929; the error in the 80 years after, against that of the last year's value."""
    trainer = Trainer(recurrent_net(1, 32, 1, 0, "gru"), MSE(), Adam(3e-3), CosineLR(150), compile=compiled)
    trainer.fit(X, y, 150, batch_size=32, key=jax.random.key(0))
    truth = spots[-TEST_YEARS:, None]
    error, last = (
        float(np.sqrt(((in_spots(step) - truth) ** 2).mean())) for step in (np.asarray(trainer.predict(X_test)), 0)
    )
    better = 1 - error / last
    return trainer, f"error {error:.1f} sunspots, {better:.0%} less than the last value's {last:.1f}", better


if __name__ == "__main__":
    main("sunspots, recurrent_net", train)
