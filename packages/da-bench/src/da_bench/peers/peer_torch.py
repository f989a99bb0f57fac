"""PyTorch on the CPU: eager, or `torch.compile`; a fused optimiser."""

import sys

import torch
from serve import HEADS, blocks, ends, positions, serve
from torch import nn


def fill(module, weight, bias):
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(weight.copy()))
        module.bias.copy_(torch.from_numpy(bias))
    return module


def linear(weight, bias):
    return fill(nn.Linear(*weight.shape), weight.T, bias)


def norm(scale, bias):
    return fill(nn.LayerNorm(len(scale)), scale, bias)


def convolution(weight, bias):
    size, _, n_in, n_out = weight.shape
    return fill(nn.Conv2d(n_in, n_out, size), weight.transpose(3, 2, 0, 1), bias)


class ChannelsFirst(nn.Module):
    def forward(self, x):
        return x.permute(0, 3, 1, 2)


class ChannelsLast(nn.Module):
    def forward(self, x):
        return x.permute(0, 2, 3, 1)


def mlp(maps):
    parts = [part for pair in maps[:-1] for part in (linear(*pair), nn.ReLU())]
    return nn.Sequential(*parts, linear(*maps[-1]))


def cnn(maps):
    parts = [part for pair in maps[:-1] for part in (convolution(*pair), nn.ReLU())]
    model = nn.Sequential(ChannelsFirst(), *parts, ChannelsLast(), nn.Flatten(), linear(*maps[-1]))
    return model.to(memory_format=torch.channels_last)


def encoder_layer(block):
    size, hidden = len(block["ln1.scale"]), len(block["ffn1.bias"])
    layer = nn.TransformerEncoderLayer(size, HEADS, hidden, 0.0, "gelu", batch_first=True, norm_first=True)
    with torch.no_grad():
        for kind, parameter in (("weight", layer.self_attn.in_proj_weight), ("bias", layer.self_attn.in_proj_bias)):
            arrays = [torch.from_numpy(block[f"attn.{name}.{kind}"].T.copy()) for name in ("query", "key", "value")]
            parameter.copy_(torch.cat(arrays))
    fill(layer.self_attn.out_proj, block["attn.output.weight"].T, block["attn.output.bias"])
    fill(layer.linear1, block["ffn1.weight"].T, block["ffn1.bias"])
    fill(layer.linear2, block["ffn2.weight"].T, block["ffn2.bias"])
    fill(layer.norm1, block["ln1.scale"], block["ln1.bias"])
    fill(layer.norm2, block["ln2.scale"], block["ln2.bias"])
    return layer


class Transformer(nn.Module):
    def __init__(self, weights, time):
        super().__init__()
        first, last_norm, last = ends(weights)
        self.first, self.last = (linear(part["weight"], part["bias"]) for part in (first, last))
        self.norm = norm(last_norm["scale"], last_norm["bias"])
        self.layers = nn.Sequential(*(encoder_layer(block) for block in blocks(weights)))
        self.register_buffer("positions", torch.from_numpy(positions(time, len(first["bias"]))))

    def forward(self, x):
        return self.last(self.norm(self.layers(self.first(x) + self.positions)).mean(1))


def make(task):
    if task.kind == "transformer":
        model = Transformer(task.weights, task.X.shape[1])
    else:
        model = {"mlp": mlp, "cnn": cnn}[task.kind](task.maps)
    if task.optimizer == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), task.lr, fused=True)
    else:
        optimizer = torch.optim.Adam(model.parameters(), task.lr, fused=True)
    loss_of = nn.MSELoss() if task.loss == "mse" else nn.CrossEntropyLoss()
    dtype = "float32" if task.loss == "mse" else "int64"
    batches = [(torch.from_numpy(x), torch.from_numpy(y.astype(dtype))) for x, y in task.batches]

    def forward(x, y):
        return loss_of(model(x), y)

    compiled = torch.compile(forward) if sys.argv[2] == "compiled" else forward

    def train(epochs):
        losses = []
        for _ in range(epochs):
            total = torch.zeros(())
            for x, y in batches:
                optimizer.zero_grad(set_to_none=True)
                loss = compiled(x, y)
                loss.backward()
                optimizer.step()
                total += loss.detach()
            losses.append(total.item() / task.steps)
        return losses

    return train


serve(make)
