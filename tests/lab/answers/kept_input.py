"""WRONG: it keeps the first x, which is right for as long as inputs come in the same memory."""

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

        self.x = None

    def forward(self, x):
        if self.x is None:
            self.x = x
        return F.gelu(F.linear(self.x, self.weight, self.bias), approximate="tanh")
