"""Computes every layer and loss of the table of cases with PyTorch, and writes what came of it for the tests to read.

Run where torch, jax and pytest are installed: hatch -e torch-reference run python scripts/torch_reference.py
"""

import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as torch's own documentation does
from torch import Tensor

TESTS = Path(__file__).parents[1] / "packages" / "da-layers" / "tests"
# (Params and Buffers by path, input, the layer for its plain attributes) -> output
Formula = Callable[[dict[str, Tensor], Tensor, Any], Tensor]


def first(x: Tensor) -> Tensor:
    """Channels from the last axis to the second, where torch has them."""
    return x.movedim(-1, 1)


def last(x: Tensor) -> Tensor:
    """And back."""
    return x.movedim(1, -1)


def window(weight: Tensor) -> Tensor:
    """(*size, in, out) to torch's (out, in, *size)."""
    return weight.movedim((-1, -2), (0, 1))


def linear(p: dict[str, Tensor], x: Tensor, name: str = "") -> Tensor:
    return F.linear(x, p[f"{name}weight"].T, p.get(f"{name}bias"))


def conv(p: dict[str, Tensor], x: Tensor, layer: Any, name: str = "") -> Tensor:
    part = layer.window
    sizes = p[f"{name}weight"].shape[:-2]
    pads: list[int] = []
    for pair in reversed(part.pads(tuple(x.shape[1:-1]), tuple(sizes))):
        pads += pair
    options = {"stride": part.stride, "dilation": part.dilation, "groups": part.groups}
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(sizes)]
    return last(function(F.pad(first(x), pads), window(p[f"{name}weight"]), p.get(f"{name}bias"), **options))


def conv_transpose(p: dict[str, Tensor], x: Tensor, layer: Any) -> Tensor:
    part = layer.window
    function = {1: F.conv_transpose1d, 2: F.conv_transpose2d}[len(part.stride)]
    # (*size, out, in) to torch's (in, out, *size), and all of the places, of which padding cuts some off.
    y = last(function(first(x), window(p["weight"]), p["bias"], part.stride))
    for axis, (length, cut) in enumerate(zip(layer.lengths(tuple(x.shape[1:-1])), cuts(layer), strict=True), 1):
        y = y.narrow(axis, cut, length)
    return y


def cuts(layer: Any) -> list[int]:
    padding = layer.window.padding
    along = zip(layer.size, layer.window.stride, strict=True)
    return [max(n - s, 0) // 2 if padding == "same" else padding if isinstance(padding, int) else 0 for n, s in along]


def pool(function: Any, **options: Any) -> Formula:
    def pooled(p: dict[str, Tensor], x: Tensor, layer: Any) -> Tensor:
        return last(function(first(x), layer.size, layer.stride, **options))

    return pooled


def same_pool(kind: str) -> Formula:
    """Padding as of "same", which torch's pooling does not have at one end alone."""

    def pooled(p: dict[str, Tensor], x: Tensor, layer: Any) -> Tensor:
        import jax.numpy as jnp

        pads: list[int] = []
        for front, behind, _ in reversed(layer.frame(jnp.asarray(x.detach().numpy()))):
            pads += [front, behind]
        y, axes = first(x), len(pads) // 2
        if kind == "max":
            function = (F.max_pool1d, F.max_pool2d)[axes - 1]
            return last(function(F.pad(y, pads, value=-math.inf), layer.size, layer.stride))
        function = (F.avg_pool1d, F.avg_pool2d)[axes - 1]
        total, count = (function(F.pad(part, pads), layer.size, layer.stride) for part in (y, torch.ones_like(y)))
        return last(total / count)

    return pooled


def norm(p: dict[str, Tensor], x: Tensor, name: str = "") -> Tensor:
    return F.layer_norm(x, x.shape[-1:], p[f"{name}scale"], p[f"{name}bias"])


def rotated(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] / 10000 ** (torch.arange(half) / half)
    z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([z.real, z.imag], -1)


def attention(p: dict[str, Tensor], x: Tensor, layer: Any, name: str = "") -> Tensor:
    def heads(part: str) -> Tensor:
        return linear(p, x, f"{name}{part}.").unflatten(-1, (-1, layer.d_model // layer.heads)).transpose(1, 2)

    q, k, v = heads("query"), heads("key"), heads("value")
    if layer.rotary:
        q, k = rotated(q), rotated(k)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=layer.causal, enable_gqa=True)
    return linear(p, mixed.transpose(1, 2).flatten(2), f"{name}output.")


def gated(p: dict[str, Tensor], x: Tensor, name: str = "") -> Tensor:
    return linear(p, F.silu(linear(p, x, f"{name}gate.")) * linear(p, x, f"{name}up."), f"{name}down.")


def pre_norm_block(p: dict[str, Tensor], x: Tensor, layer: Any, name: str = "") -> Tensor:
    x = x + attention(p, norm(p, x, f"{name}ln1."), layer.attn, f"{name}attn.")
    h = norm(p, x, f"{name}ln2.")
    if layer.gated:
        return x + gated(p, h, f"{name}gated.")
    return x + linear(p, F.gelu(linear(p, h, f"{name}ffn1.")), f"{name}ffn2.")


def post_norm_block(p: dict[str, Tensor], x: Tensor, layer: Any) -> Tensor:
    h = norm(p, x + attention(p, x, layer.attn, "attn."), "ln1.")
    return norm(p, h + gated(p, h, "gated."), "ln2.")


def tokens(x: Tensor) -> Tensor:
    return x.abs().clamp(max=2).long()


def language_model(p: dict[str, Tensor], x: Tensor, layer: Any) -> Tensor:
    model, name = layer.layers[1], "layers.1."
    rows = p[f"{name}embedding.weight"]
    h = F.embedding(tokens(x), rows)
    for index, block in enumerate(model.blocks.layers):
        h = pre_norm_block(p, h, block, f"{name}blocks.layers.{index}.")
    return F.linear(norm(p, h, f"{name}norm."), rows)


def recurrent(kind: str) -> Formula:
    """torch.nn's layer with our Params, its gates in torch's order (an LSTM's: i, f, g, o)."""

    def run(p: dict[str, Tensor], x: Tensor, layer: Any) -> Tensor:
        def ordered(part: Tensor) -> Tensor:
            if kind != "LSTM":
                return part
            i, f, o, g = part.chunk(4, -1)
            return torch.cat([i, f, g, o], -1)

        both = len(layer.layers[0]) == 2
        options = {"num_layers": len(layer.layers), "batch_first": True, "bidirectional": both}
        module = getattr(torch.nn, kind)(layer.n_in, layer.n_out, **options)
        weights = {}
        for depth, cells in enumerate(layer.layers):
            for direction in range(len(cells)):
                name, end = f"layers.{depth}.{direction}.", f"_l{depth}{'_reverse' * direction}"
                bias = ordered(p[f"{name}bias"])
                weights[f"weight_ih{end}"] = ordered(p[f"{name}weight"]).T
                weights[f"weight_hh{end}"] = ordered(p[f"{name}recurrent"]).T
                weights[f"bias_ih{end}"] = bias
                weights[f"bias_hh{end}"] = p.get(f"{name}recurrent_bias", torch.zeros_like(bias))
        y, _ = torch.func.functional_call(module, weights, (x,))
        if layer.sequences:
            return y
        return torch.cat([y[:, -1, : layer.n_out], y[:, 0, layer.n_out :]], -1)

    return run


def positions(p: dict[str, Tensor], x: Tensor, layer: Any) -> Tensor:
    size = x.shape[-1]
    angles = torch.arange(x.shape[1])[:, None] / 10000 ** (torch.arange(0, size, 2) / size)
    return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def of_x(function: Callable[[Tensor], Tensor]) -> Formula:
    return lambda p, x, layer: function(x)


def group_norm(p: dict[str, Tensor], x: Tensor, layer: Any) -> Tensor:
    return last(F.group_norm(first(x), layer.groups, p["scale"], p["bias"]))


def batch_norm(p: dict[str, Tensor], x: Tensor, layer: Any) -> Tensor:
    return last(F.batch_norm(first(x), None, None, p["scale"], p["bias"], training=True))


LAYERS: dict[str, Formula] = {
    **dict.fromkeys(("Dense", "Dense-vector", "Dense-no-bias"), lambda p, x, layer: linear(p, x)),
    **dict.fromkeys(
        ("Conv2D Conv2D-stride Conv2D-valid Conv2D-dilated-groups Conv1D Conv1D-causal Conv3D DepthwiseConv2D").split(),
        conv,
    ),
    "SeparableConv2D": lambda p, x, layer: conv(
        p, conv(p, x, layer.depthwise, "depthwise."), layer.pointwise, "pointwise."
    ),
    **dict.fromkeys(("ConvTranspose1D", "ConvTranspose1D-cut", "ConvTranspose2D"), conv_transpose),
    **dict.fromkeys(("RNN", "RNN-last"), recurrent("RNN")),
    "GRU": recurrent("GRU"),
    **dict.fromkeys(("LSTM", "LSTM-both-ways"), recurrent("LSTM")),
    "ReLU": of_x(F.relu),
    "GELU": of_x(F.gelu),
    "GELU-tanh": of_x(lambda x: F.gelu(x, approximate="tanh")),
    "LeakyReLU": of_x(lambda x: F.leaky_relu(x, 0.1)),
    "ELU": of_x(lambda x: F.elu(x, 0.7)),
    "PReLU": lambda p, x, layer: F.prelu(x, p["slope"].reshape(1)),
    "PReLU-channels": lambda p, x, layer: last(F.prelu(first(x), p["slope"])),
    "SiLU": of_x(F.silu),
    "Softplus": of_x(F.softplus),
    "Mish": of_x(F.mish),
    "Softmax": of_x(lambda x: F.softmax(x, -1)),
    "Tanh": of_x(torch.tanh),
    "Sigmoid": of_x(torch.sigmoid),
    "LayerNorm": lambda p, x, layer: norm(p, x),
    "RMSNorm": lambda p, x, layer: F.rms_norm(x, x.shape[-1:], p["scale"], layer.epsilon),
    "MaxPool1D": pool(F.max_pool1d),
    "MaxPool2D": pool(F.max_pool2d),
    "AveragePool1D": pool(F.avg_pool1d),
    "AveragePool2D": pool(F.avg_pool2d),
    **dict.fromkeys(("MaxPool1D-overlap", "MaxPool2D-same"), same_pool("max")),
    "AveragePool2D-same": same_pool("average"),
    **dict.fromkeys(("GroupNorm", "InstanceNorm"), group_norm),
    **dict.fromkeys(("BatchNorm", "BatchNorm-image"), batch_norm),
    "GatedFeedForward": lambda p, x, layer: gated(p, x),
    "Parallel-Concat": lambda p, x, layer: torch.cat([linear(p, x, "layers.0.layers.0."), torch.tanh(x)], -1),
    "Lambda": of_x(torch.square),
    "TransformerLM": language_model,
    "Flatten": of_x(lambda x: x.flatten(1)),
    "GlobalAveragePool": of_x(lambda x: x.mean((1, 2))),
    "Embedding": lambda p, x, layer: F.embedding(tokens(x), p["layers.1.weight"]),
    "LearnedPositions": lambda p, x, layer: x + F.embedding(torch.arange(x.shape[1]), p["weight"]),
    "Reshape": of_x(lambda x: x.reshape(len(x), 2, -1)),
    "Checkpoint": lambda p, x, layer: torch.tanh(linear(p, x, "inner.layers.0.")),
    "TiedHead": lambda p, x, layer: F.linear(x, p["weight"]),
    "SinusoidalPositions": positions,
    **dict.fromkeys(("MultiHeadAttention", "MultiHeadAttention-causal"), attention),
    "TransformerBlock-post-norm": post_norm_block,
    "TransformerBlock-pre-norm": pre_norm_block,
    "Sequential": lambda p, x, layer: torch.tanh(linear(p, x, "layers.0.")),
    "Residual": lambda p, x, layer: x + linear(p, x, "inner."),
    "LayerStack": lambda p, x, layer: linear(p, linear(p, linear(p, x, "layers.0."), "layers.1."), "layers.2."),
    "AutoLayer": lambda p, x, layer: x * torch.sigmoid(p["beta"] * x),
}


def rows(z: Tensor, t: Tensor) -> Tensor:
    """The cross-entropy of rows or labels; torch has the classes in the second axis."""
    if z.ndim == 1:
        return F.cross_entropy(z[None], t.long()[None])
    return F.cross_entropy(first(z), first(t).to(z.dtype) if t.shape == z.shape else t.long())


def focal(gamma: float, alpha: float | None) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(z: Tensor, t: Tensor) -> Tensor:
        t = t.to(z.dtype)
        surprise = F.binary_cross_entropy_with_logits(z, t, reduction="none")
        right = torch.where(t == 1, torch.sigmoid(z), 1 - torch.sigmoid(z))
        weight = 1 if alpha is None else torch.where(t == 1, alpha, 1 - alpha)
        return (weight * (1 - right) ** gamma * surprise).mean()

    return loss


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Triplet": lambda z, t: F.triplet_margin_loss(z[:, 0], z[:, 1], z[:, 2], margin=0.7),
    "L1": F.l1_loss,
    "Huber": lambda z, t: F.huber_loss(z, t, delta=0.7),
    **dict.fromkeys(
        ("BCEWithLogits", "BCEWithLogits-shares"), lambda z, t: F.binary_cross_entropy_with_logits(z, t.to(z.dtype))
    ),
    "Hinge": lambda z, t: F.relu(1 - t * z).mean(),
    "Focal": focal(1.5, 0.3),
    "Focal-gamma-0": focal(0.0, None),
    "KLDivergence": lambda z, t: F.kl_div(F.log_softmax(z, -1), t, reduction="batchmean"),
    "CosineSimilarity": lambda z, t: (1 - F.cosine_similarity(z, t, -1)).mean(),
    "SoftmaxCrossEntropy-smooth": lambda z, t: F.cross_entropy(z, t.long(), label_smoothing=0.1),
    **dict.fromkeys(("MSE", "MSE-integers"), lambda z, t: F.mse_loss(z, t.to(z.dtype))),
    **dict.fromkeys(
        (
            "SoftmaxCrossEntropy SoftmaxCrossEntropy-one SoftmaxCrossEntropy-tokens SoftmaxCrossEntropy-bool "
            "SoftmaxCrossEntropy-rows SoftmaxCrossEntropy-weighted-rows"
        ).split(),
        rows,
    ),
}


def leaf(array: Any) -> Tensor:
    return torch.tensor(np.asarray(array, np.float32), requires_grad=True)


def main() -> None:
    """Writes torch_reference.npz beside the tests."""
    spec = importlib.util.spec_from_file_location("cases", TESTS / "conftest.py")
    if spec is None or spec.loader is None:
        sys.exit("the table of cases is not there")
    cases = importlib.util.module_from_spec(spec)
    sys.modules["cases"] = cases
    spec.loader.exec_module(cases)
    out: dict[str, Any] = {"version/torch": np.array(torch.__version__.partition("+")[0])}
    for case in cases.CASES:
        if case.name not in LAYERS:
            continue
        layer = case.build()
        p = {path: leaf(variable.value) for path, variable in layer.variables().items()}
        x = leaf(case.x())
        y = LAYERS[case.name](p, x, layer)
        g = torch.tensor(np.asarray(case.g(y.detach().numpy()), np.float32))
        y.backward(g)
        gx = torch.zeros_like(x) if x.grad is None else x.grad
        entry = {"x": x, "y": y, "g": g, "gx": gx}
        entry |= {f"value.{path}": value for path, value in p.items()}
        entry |= {f"gradient.{path}": value.grad for path, value in p.items() if value.grad is not None}
        out |= {f"{case.name}/{name}": value.detach().numpy() for name, value in entry.items()}
    for case in cases.LOSS_CASES:
        prediction, target = case.arrays()
        z = leaf(prediction)
        t = torch.tensor(target.astype(np.float32) if target.dtype.kind == "f" else target)
        loss = LOSSES[case.name](z, t)
        loss.backward()
        entry = {"prediction": z, "target": t, "loss": loss, "gradient": z.grad}
        out |= {f"{case.name}/{name}": value.detach().numpy() for name, value in entry.items()}
    np.savez_compressed(TESTS / "torch_reference.npz", allow_pickle=False, **out)
    print(f"{len({name.partition('/')[0] for name in out})} cases, torch {torch.__version__}")


if __name__ == "__main__":
    main()
