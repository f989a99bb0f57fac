"""Imports and trains with the installed wheels, from outside the repository."""

import da_bench
import da_layers
import da_optim
import da_trainer
import jax

X = jax.random.normal(jax.random.PRNGKey(1), (256, 512))
y = jax.random.normal(jax.random.PRNGKey(2), (256, 512))
results = []
for mode in (False, True):
    model = da_layers.mlp([512] * 5, jax.random.PRNGKey(0))
    trainer = da_trainer.Trainer(model, da_layers.MSE(), da_optim.SGD(0.01), compile=mode)
    trainer.fit(X, y, epochs=3, batch_size=64)
    results.append((model.state_dict(), trainer.history_))

comparison = da_trainer.bits_equal(*results)
versions = [f"{package.__name__} {package.__version__}" for package in (da_layers, da_optim, da_trainer, da_bench)]
print(f"{', '.join(versions)} from {da_trainer.__file__}")
print(f"loop and compiled: {'the same bits' if comparison else comparison.differences}")
raise SystemExit(0 if comparison else 1)
