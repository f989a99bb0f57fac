"""What a training step is. Both executors run this one body: the loop eagerly, the compiled step by tracing it."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from da_layers import Param, name_place
from da_optim import clipping_scale, decoupled_decay, l2_decay, scale_gradient, sum_of_squares

from ._values import Parts, read_values, write_values

Decay = Literal["l2", "decoupled"]


class Rates(NamedTuple):
    """The numbers of a step that may differ from step to step; float32 scalars.

    Attributes:
        lr: learning rate, the schedule's multiplier included.
        eta: the schedule's multiplier.
        weight_decay: lambda, or None for no decay.
        clip_norm: largest norm of all gradients together, or None for no clipping.
    """

    lr: Any
    eta: Any
    weight_decay: Any | None
    clip_norm: Any | None


class Options(NamedTuple):
    """What a step does, the same for all steps of an epoch.

    Attributes:
        decay: "l2" or "decoupled".
        skip_nonfinite: leave a step out whose loss or gradient is not finite.
    """

    decay: Decay
    skip_nonfinite: bool


class Outcome(NamedTuple):
    """What a step tells: its loss, and whether loss and gradients were finite; of many steps, an entry for each."""

    loss: Any
    finite: Any


# Called at the end of each phase of a step, with its name, the path of the Param that it worked on, and what it gave.
Watch = Callable[[str, str, Any], None]


def train_step(parts: Parts, batch: Any, rates: Rates, options: Options, watch: Watch) -> Outcome:
    """One step on the batch (x, y) or (x, y, sample_weight): moves the Params, Buffers, Keys and slots of `parts`."""
    x, *target = batch
    before = read_values(parts) if options.skip_nonfinite else None
    parts.zero_grads()
    params = parts.trained

    prediction = parts.model.forward(x, training=True)
    watch("prediction", "", prediction)
    loss = _loss(parts, prediction, target)
    _model_backward(parts, x, _loss_backward(parts, prediction))

    finite = _all_finite(loss, [param.grad for param in params.values()])
    if rates.clip_norm is not None:
        scale, norm = clipping_scale(parts.over_params(sum_of_squares), rates.clip_norm)
        finite = finite & jnp.isfinite(norm)
        for path, param in params.items():
            param.set_grad(scale_gradient(param.grad, scale))
            watch("clip", path, {"gradient": param.grad})
    for path, param in params.items():
        lr, weight_decay = _own_rates(parts, path, rates)
        if weight_decay is not None and decays(param):
            if options.decay == "decoupled":
                param.value = decoupled_decay(param.value, rates.eta, weight_decay)
            else:
                param.set_grad(l2_decay(param.grad, param.value, weight_decay))
            watch("decay", path, {"value": param.value, "gradient": param.grad})
        _update(param, parts.optimizer, lr)
        watch("update", path, {"value": param.value, **param.slots(parts.optimizer)})

    if before is not None:
        write_values(parts, _choose(finite, read_values(parts), before))
        watch("skip", "", read_values(parts))
    return Outcome(loss, finite)


def evaluation_step(parts: Parts, batch: Any, watch: Watch) -> jax.Array:
    """The loss on the batch (x, y) or (x, y, sample_weight), nothing moved."""
    x, *target = batch
    loss = _loss(parts, prediction_step(parts, (x,), watch), target)
    parts.loss.forget()
    return loss


def prediction_step(parts: Parts, batch: Any, watch: Watch) -> Any:
    """The model's output for the batch (x,), nothing moved."""
    (x,) = batch
    prediction = parts.model.forward(x, training=False)
    watch("prediction", "", prediction)
    return prediction


def unwatched(phase: str, path: str, values: Any) -> None:
    """A watch that does nothing."""


def _update(param: Param, optimizer: Any, lr: Any) -> None:
    try:
        param.update(optimizer, lr)
    except Exception as error:
        name_place(error, f"{type(optimizer).__name__}.update on {param.label}")
        raise


def _own_rates(parts: Parts, path: str, rates: Rates) -> tuple[jax.Array, jax.Array | None]:
    """The learning rate and lambda of a Param, float32 scalars; None for no decay."""
    group = parts.group(path)
    lr = rates.lr if group.lr_scale == 1 else rates.lr * parts.scalars[group.lr_scale]
    if group.weight_decay is None:
        return lr, rates.weight_decay
    return lr, parts.scalars[group.weight_decay] if group.weight_decay else None


def _loss(parts: Parts, prediction: Any, target: Sequence[Any]) -> jax.Array:
    y, *weights = target
    loss = parts.loss.forward(prediction, y, **({"sample_weight": weights[0]} if weights else {}))
    shape = getattr(loss, "shape", type(loss).__name__)
    parts.loss.require(shape == (), "forward must return a scalar array, the mean over the samples", returned=shape)
    return loss


def _loss_backward(parts: Parts, prediction: Any) -> Any:
    g = parts.loss.backward()
    shape, returned = getattr(prediction, "shape", None), getattr(g, "shape", None)
    parts.loss.require(
        shape == returned, f"backward must return the gradient of the prediction, of shape {shape}", returned=returned
    )
    return g


def _model_backward(parts: Parts, x: Any, g: Any) -> None:
    g = parts.model.backward(g)
    shape = getattr(x, "shape", None)
    returned = getattr(g, "shape", shape)
    parts.model.require(
        g is None or returned == shape,
        f"backward must return the gradient of the input, of shape {shape}",
        returned=returned,
    )


def decays(param: Param) -> bool:
    """Whether weight decay acts on `param`: on weights that are trained, not on biases and scales."""
    return param.role == "weight" and param.trainable


@jax.jit
def _all_finite(loss: jax.Array, gradients: list[jax.Array]) -> jax.Array:
    # x - x is 0, or NaN where x is not finite; its sum is XLA's fastest pass over an array.
    return jnp.stack([(array - array).sum() == 0 for array in (loss, *gradients)]).all()


@jax.jit
def _choose(condition: jax.Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
