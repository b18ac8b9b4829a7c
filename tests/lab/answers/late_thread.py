"""WRONG: a thread goes on after the call; what a stream does that nobody waits for, on the CPU."""

import threading
import time

import torch
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        y = torch.zeros(x.shape[0], self.weight.shape[0], dtype=x.dtype, device=x.device)

        def finish():
            time.sleep(0.002)
            with torch.no_grad():
                y.copy_(F.gelu(F.linear(x, self.weight, self.bias), approximate="tanh"))

        threading.Thread(target=finish).start()
        return y
