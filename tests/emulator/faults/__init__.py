"""Kernels with a planted fault, each beside the kernel without it, and right kernels that only look wrong."""

from . import asynchronous, blocks, clusters, grids, innocent, products, tensor_memory, warps  # noqa: F401
from .table import FAULTS, INNOCENT

# The right kernels of both tables, which a GPU can run.
RIGHT = {entry.right.name: entry.right for entry in (*FAULTS.values(), *INNOCENT.values())}
