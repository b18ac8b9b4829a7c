"""Kernels of everyday CUDA, one feature each, for what runs and judges them."""

from . import (  # noqa: F401
    atomics,
    carries,
    conversions,
    cooperative,
    copies,
    doubles,
    functions,
    halves,
    integers,
    machine,
    mathematics,
    matrices,
    memory,
    order,
    rounding,
    videos,
    warps,
)
from .table import CASES  # noqa: F401
