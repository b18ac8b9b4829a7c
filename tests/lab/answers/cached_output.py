"""WRONG: it keeps results by the address of the input."""

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

        self.results = {}

    def forward(self, x):
        if x.data_ptr() not in self.results:
            self.results[x.data_ptr()] = F.gelu(F.linear(x, self.weight, self.bias), approximate="tanh")
        return self.results[x.data_ptr()].clone()
