"""WRONG: the last rows of the output are as the memory was."""

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        y = torch.empty(x.shape[0], self.weight.shape[0], dtype=x.dtype, device=x.device)
        y[:256] = F.gelu(F.linear(x[:256], self.weight, self.bias), approximate="tanh")
        return y
