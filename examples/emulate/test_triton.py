"""The test of a Triton kernel on a machine without a GPU: it needs the packages fovea, numpy, pytest and triton."""

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def normalize(x, y, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    is_there = column < columns
    first = tl.program_id(0) * columns
    values = tl.load(x + first + column, mask=is_there, other=0.0)
    deviations = tl.where(is_there, values - tl.sum(values) / columns, 0.0)
    variance = tl.sum(deviations * deviations) / columns
    tl.store(y + first + column, deviations * tl.rsqrt(variance + 1e-6), mask=is_there)


@pytest.mark.parametrize("architecture", [80, 90, 100])
def test_rows_are_normalized(emu, architecture):
    types = {"x": "*fp32", "y": "*fp32", "columns": "i32", "BLOCK": "constexpr"}
    source = ASTSource(normalize, types, constexprs={"BLOCK": 1024})
    kernel = triton.compile(source, target=GPUTarget("cuda", architecture, 32))
    x = np.random.default_rng(0).normal(3, 2, (7, 777)).astype(np.float32)
    y = np.zeros_like(x)
    emu.check_triton(kernel, 7, x, emu.out(y), 777)  # raises where there is a race or the like
    centred = x - x.mean(axis=1, keepdims=True, dtype=np.float64)
    np.testing.assert_allclose(y, centred / centred.std(axis=1, keepdims=True), atol=1e-5)
