"""RIGHT on a GPU: bias and GELU in a kernel of its own, in Triton."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def bias_gelu(product, bias, output, count, columns, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    h = tl.load(product + index, inside) + tl.load(bias + index % columns, inside)
    bent = 2 * 0.7978845608028654 * h * (1 + 0.044715 * h * h)
    tl.store(output + index, h * tl.sigmoid(bent), inside)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        product = x @ self.weight.t()
        output = torch.empty_like(product)
        grid = (triton.cdiv(product.numel(), 1024),)
        bias_gelu[grid](product, self.bias, output, product.numel(), product.shape[1], BLOCK=1024)
        return output
