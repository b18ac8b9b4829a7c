"""WRONG: the rows after the last whole block of 128 get those of the block before."""

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        y = F.gelu(F.linear(x, self.weight, self.bias), approximate="tanh")
        whole = x.shape[0] // 128 * 128
        y[whole:] = y[whole - 128 : x.shape[0] - 128]
        return y
