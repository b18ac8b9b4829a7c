"""Lists the GPU kernels in libfovea.so with their resources, and finds the kernel for a problem."""

from __future__ import annotations

import ctypes
import dataclasses

import torch

import fovea.ops
from fovea._arguments import integer
from fovea._errors import Error
from fovea._library import fields, library, text

_TYPES = {torch.float16: 3, torch.bfloat16: 4, torch.float32: 5}  # fovea_type
_CAUSAL_FIRST = 1  # fovea_causal


class _Strides(ctypes.Structure):
    _fields_ = fields(ctypes.c_int64, "batch head row")


class _AttentionArgs(ctypes.Structure):
    """Mirrors fovea_attention_args."""

    _fields_ = [
        *fields(ctypes.c_void_p, "q k v o"),
        *fields(_Strides, "q_strides k_strides v_strides o_strides"),
        *fields(ctypes.c_int64, "batch heads kv_heads queries keys head_dim"),
        ("scale", ctypes.c_double),
        *fields(ctypes.c_int32, "causal type level"),
        *fields(ctypes.c_void_p, "cu_seqlens_q cu_seqlens_k"),
    ]


class _Place(ctypes.Structure):
    """Mirrors fovea_place."""

    _fields_ = [*fields(ctypes.c_int32, "device threads"), ("stream", ctypes.c_void_p)]


class _Choice(ctypes.Structure):
    """Mirrors fovea_attention_choice."""

    _fields_ = [
        *(("level", ctypes.c_char_p), ("kernel", ctypes.c_char * 64)),
        *(("threads", ctypes.c_int32), ("shared_bytes", ctypes.c_int64)),
    ]


class _Kernel(ctypes.Structure):
    """Mirrors fovea_kernel."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        *fields(ctypes.c_int32, "arch registers shared_bytes stack_bytes spill_store_bytes spill_load_bytes"),
    ]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One kernel for one architecture (90 for sm_90a), with the resources that ptxas reported in the build.

    Registers, and bytes of stack and spills, are per thread; bytes of static shared memory are per CTA."""

    name: str
    arch: int
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int


@dataclasses.dataclass(frozen=True)
class Choice:
    """The kernel for a problem: its level and name, and its threads and bytes of dynamic shared memory per CTA."""

    level: str
    kernel: str
    threads: int
    shared_bytes: int


def _call(function: str, *arguments: object) -> None:
    call = getattr(library, function)
    call.restype = ctypes.c_int
    if call(*arguments) != 0:
        raise Error(text(library.fovea_last_error()))


def kernels() -> list[Kernel]:
    """Returns all kernels, or [] when the library was built without the CUDA compiler."""
    result = []
    for index in range(library.fovea_kernel_count()):
        kernel = _Kernel()
        _call("fovea_kernel_get", ctypes.c_int32(index), ctypes.byref(kernel))
        spills = kernel.spill_store_bytes + kernel.spill_load_bytes
        sizes = (kernel.registers, kernel.shared_bytes, kernel.stack_bytes, spills)
        result.append(Kernel(text(kernel.name), kernel.arch, *sizes))
    return result


def _choose(args: _AttentionArgs, device_index: int) -> _Choice:
    choice = _Choice()
    place = _Place(device=integer(device_index, "device_index", 0), threads=1, stream=None)
    _call("fovea_attention_choose", ctypes.byref(args), ctypes.byref(place), ctypes.byref(choice))
    return choice


def missing_attention_reason(device_index: int) -> str:
    """Returns the reason why a GPU has no attention kernels, or "" when it has."""
    sizes = dict.fromkeys(("batch", "heads", "kv_heads", "queries", "keys"), 1)
    # The level is explicit, because the environment may force another; every GPU with kernels supports mma.
    args = _AttentionArgs(
        **sizes, head_dim=64, scale=1.0, type=_TYPES[torch.float16], level=fovea.ops.IMPLEMENTATIONS.index("mma")
    )
    for operand in "qkvo":
        setattr(args, operand, 16)  # a dummy address, which is not read
    try:
        _choose(args, device_index)
    except Error as error:
        return str(error)
    return ""


def choose(q: torch.Tensor, k: torch.Tensor, is_causal: bool = False, impl: str = "auto") -> Choice:
    """Returns the kernel that fovea.ops.attention runs for these CUDA tensors; v has the shape of k.

    Raises fovea.Error with the reason when the implementation does not support the GPU or the problem."""
    batch, heads, queries, dim = q.shape
    args = _AttentionArgs(
        batch=batch,
        heads=heads,
        kv_heads=k.shape[1],
        queries=queries,
        keys=k.shape[2],
        head_dim=dim,
        scale=dim**-0.5,
        causal=_CAUSAL_FIRST if is_causal else 0,
        type=_TYPES[q.dtype],
        level=fovea.ops.IMPLEMENTATIONS.index(impl),
    )
    for name, tensor in (("q", q), ("k", k), ("v", k), ("o", q)):
        setattr(args, name, tensor.data_ptr())
        strides = _Strides(batch=tensor.stride(0), head=tensor.stride(1), row=tensor.stride(2))
        setattr(args, f"{name}_strides", strides)
    choice = _choose(args, q.device.index)
    return Choice(text(choice.level), text(choice.kernel), choice.threads, choice.shared_bytes)
