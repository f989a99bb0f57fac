"""PyTorch on the CPU: eager, or `torch.compile`; a fused Adam where there is one."""

import sys

import torch
from serve import serve


def make(task):
    parts = []
    for weight, bias in task.weights:
        linear = torch.nn.Linear(*weight.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight.T.copy()))
            linear.bias.copy_(torch.from_numpy(bias))
        parts += [linear, torch.nn.ReLU()]
    model = torch.nn.Sequential(*parts[:-1])
    if task.optimizer == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), task.lr, fused=True)
    else:
        optimizer = torch.optim.Adam(model.parameters(), task.lr, fused=True)
    loss_of = torch.nn.MSELoss() if task.loss == "mse" else torch.nn.CrossEntropyLoss()
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
