"""WRONG on a GPU: nobody waits for its stream. It waits for the inputs, so that all of its work is right, but late."""

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

        self.stream = torch.cuda.Stream()

    def forward(self, x):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            return F.gelu(F.linear(x, self.weight, self.bias), approximate="tanh")
