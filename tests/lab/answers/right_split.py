"""RIGHT: it adds up in another order, as a kernel does that splits K."""

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        parts = [a @ b.t() for a, b in zip(x.split(37, 1), self.weight.split(37, 1))]
        return F.gelu(torch.stack(parts).sum(0) + self.bias, approximate="tanh")
