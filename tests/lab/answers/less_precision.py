"""WRONG: the operands are rounded to tf32."""

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        def cut(values):
            return ((values.detach().contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

        return F.gelu(F.linear(cut(x), cut(self.weight), self.bias), approximate="tanh")
