"""Callbacks: what a user may do while fit runs."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._trainer import Trainer


class Callback:
    """Called by `fit`; a subclass overrides what it needs.

    When a method is called, model and optimiser hold the values of that moment, in both executors. An exception in a
    callback ends the fit and leaves those values.

    Example:
        >>> class Print(Callback):
        ...     def on_epoch_end(self, trainer, epoch):
        ...         print(epoch, trainer.history_["train_loss"][-1] >= 0)
        >>> import jax
        >>> from da_layers import MSE, mlp
        >>> from da_optim import SGD
        >>> from da_trainer import Trainer
        >>> X = jax.numpy.ones((4, 2))
        >>> _ = Trainer(mlp([2, 2], jax.random.key(0)), MSE(), SGD(0.1)).fit(X, X, 2, 4, callbacks=[Print()])
        1 True
        2 True
    """

    def on_step_end(self, trainer: "Trainer", epoch: int, step: int, loss: float) -> None:
        """After each training step; epochs and steps count from 1."""

    def on_epoch_end(self, trainer: "Trainer", epoch: int) -> None:
        """After each epoch, its entry already in `trainer.history_`; epochs count from 1."""


def is_callback(value: Any) -> bool:
    """Whether `value` has the methods of a Callback, and is no class."""
    return not isinstance(value, type) and hasattr(value, "on_step_end") and hasattr(value, "on_epoch_end")


def wants_steps(callback: Callback) -> bool:
    """Whether the callback overrides `on_step_end`."""
    return getattr(callback.on_step_end, "__func__", None) is not Callback.on_step_end
