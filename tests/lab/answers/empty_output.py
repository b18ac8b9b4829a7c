"""WRONG: nobody writes the output."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        return torch.empty(x.shape[0], self.weight.shape[0], dtype=x.dtype, device=x.device)
