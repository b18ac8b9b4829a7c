"""Fovea's fused kernels as PyTorch operators, for inference: torch.ops.fovea.*.

    import fovea.ops
    y = torch.ops.fovea.attention(q, k, v, is_causal=True)
    y = fovea.ops.attention(q, k, v, impl="mma")  # the same with a kernel of your choice

Importing this module registers the operators. They run on CUDA devices (compute capability 8.0 and later) in
the current stream, and on the CPU, and torch.compile supports them. They have no gradients:
a call that autograd would record raises RuntimeError, and so does a call that no kernel supports.

The functions of this module call the operators, with names of levels instead of numbers. Where a GPU has no
kernel for a layer (other than attention), they use torch's own operators instead, and warn once.
"""

from __future__ import annotations

import os
import pathlib
import warnings

import torch

__all__ = ["IMPLEMENTATIONS", "attention", "attention_varlen", "layer_norm", "linear", "patch_embed"]

#: The levels of attention, from the simplest to the fastest; "auto" is the fastest that supports the
#: problem, or the level in the environment variable FOVEA_FORCE_KERNEL. The indices are the values of
#: fovea_level in include/fovea/c/operators.h.
IMPLEMENTATIONS = ("auto", "scalar", "wmma", "mma", "wgmma")

_MIN_TORCH = (2, 9)


def _load() -> None:
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < _MIN_TORCH:
        raise ImportError(f"fovea.ops needs torch 2.9 or later, but torch {torch.__version__} is installed")
    # The library lies next to libfovea.so.
    engine = os.environ.get("FOVEA_LIBRARY") or pathlib.Path(__file__)
    path = pathlib.Path(engine).with_name("libfovea_torch.so")
    if not path.is_file():
        raise ImportError(f"{path} is missing: this Fovea was built without the headers of torch")
    torch.ops.load_library(path)


_load()


def _reject_gradients(name: str, *tensors: torch.Tensor | None) -> None:
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise RuntimeError(
            f"fovea::{name} does not support gradients, but one of its inputs requires them: call it under "
            "torch.no_grad() or torch.inference_mode(), or on detached tensors"
        )


def _require(holds: bool, name: str, what: str) -> None:
    if not holds:
        raise RuntimeError(f"fovea::{name}: {what}")


# Shape functions for torch.compile, with the same checks and strides as in python/native. Unused arguments are unnamed.


@torch.library.register_fake("fovea::attention")
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: object, **_named: object) -> torch.Tensor:
    _reject_gradients("attention", q, k, v)
    _require(q.dim() == k.dim() == v.dim() == 4, "attention", "q, k and v must have 4 dimensions")
    _require(k.shape == v.shape, "attention", "k and v must have the same shape")
    _require(
        q.shape[0] == k.shape[0] and q.shape[3] == k.shape[3],
        "attention",
        "q and k must agree in batch and head dimension",
    )
    _require(q.shape[1] % k.shape[1] == 0, "attention", "the heads of q must be a multiple of those of k")
    _require(q.dtype == k.dtype == v.dtype, "attention", "q, k and v must be of the same type")
    batch, heads, length, dim = q.shape
    # The memory order is (batch, length, heads, d), so that the next projection needs no copy.
    return q.new_empty_strided(q.shape, (length * heads * dim, dim, heads * dim, 1))


@torch.library.register_fake("fovea::attention_varlen")
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: object, **_named: object) -> torch.Tensor:
    _reject_gradients("attention_varlen", q, k, v)
    _require(q.dim() == k.dim() == v.dim() == 3, "attention_varlen", "q, k and v must have 3 dimensions")
    _require(
        k.shape == v.shape and q.shape[2] == k.shape[2],
        "attention_varlen",
        "k and v must have the same shape, with the head dimension of q",
    )
    _require(q.dtype == k.dtype == v.dtype, "attention_varlen", "q, k and v must be of the same type")
    return q.new_empty(q.shape)


@torch.library.register_fake("fovea::patch_embed")
def _(
    patches: torch.Tensor, weight: torch.Tensor, position: torch.Tensor, scale: torch.Tensor | None = None
) -> torch.Tensor:
    _reject_gradients("patch_embed", patches, weight, position, scale)
    _require(
        patches.dim() == 3
        and patches.shape[1:] == (position.shape[0], weight.shape[1])
        and weight.shape[0] == position.shape[1],
        "patch_embed",
        "patches [images, tokens, in], weight [out, in] and position [tokens, out] do not fit together",
    )
    return position.new_empty((patches.shape[0], patches.shape[1], weight.shape[0]))


@torch.library.register_fake("fovea::linear")
def _(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    gelu: bool = False,
) -> torch.Tensor:
    _reject_gradients("linear", x, weight, bias, residual)
    _require(
        x.dim() >= 1 and weight.dim() == 2 and x.shape[-1] == weight.shape[1],
        "linear",
        "x [..., in] and weight [out, in] do not fit together",
    )
    _require(not (gelu and residual is not None), "linear", "gelu and a residual exclude each other")
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


@torch.library.register_fake("fovea::layer_norm")
def _(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    _reject_gradients("layer_norm", x, weight, bias)
    _require(
        x.shape[-1:] == weight.shape == bias.shape,
        "layer_norm",
        "x [..., width], weight [width] and bias [width] do not fit together",
    )
    return x.new_empty(x.shape)


def _level(impl: str) -> int:
    if impl not in IMPLEMENTATIONS:
        raise ValueError(f"unknown implementation {impl!r}; use one of {', '.join(IMPLEMENTATIONS)}")
    return IMPLEMENTATIONS.index(impl)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    is_causal: bool = False,
    scale: float | None = None,
    impl: str = "auto",
) -> torch.Tensor:
    """Computes softmax(scale * q k^T) v, like torch.nn.functional.scaled_dot_product_attention.

    q is [batch, heads, length, d]; k and v are [batch, kv_heads, keys, d], where kv_heads divides heads.
    The result has the shape and type of q.
    With is_causal, query i sees keys 0 to i (torch's convention, also when lengths differ). scale is
    positive, by default 1 / sqrt(d). impl is one of IMPLEMENTATIONS, for GPUs.
    Types are float16 and bfloat16, on the CPU also float32; on GPUs d is a multiple of 8, up to 128. All
    strides are supported: views of packed projections are read in place. The result's memory is [batch,
    length, heads, d], so that `.transpose(1, 2).flatten(2)` copies nothing.
    Raises RuntimeError when the operands are not supported, ValueError when impl is unknown.
    """
    return torch.ops.fovea.attention(q, k, v, is_causal, scale, _level(impl))


def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_q: int,
    max_k: int,
    is_causal: bool = False,
    scale: float | None = None,
    impl: str = "auto",
) -> torch.Tensor:
    """Computes attention within packed sequences of different lengths.

    q is [rows, heads, d]; k and v are [rows, kv_heads, d]. cu_seqlens_q and cu_seqlens_k are int32
    [sequences + 1] and rise from 0 to the number of rows; max_q and max_k are the maximum lengths. With
    is_causal, the last query of a sequence sees all its keys, the one before all but one, and so on
    (flash-attention's convention); queries that see no key get zeros. On GPUs the offsets are not checked,
    because the check would synchronise with the GPU: wrong offsets cause accesses outside of the operands.
    Everything else is as for `attention`.
    """
    return torch.ops.fovea.attention_varlen(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_q, max_k, is_causal, scale, _level(impl)
    )


_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Warns once per message, at the line of the caller's caller, unless torch.compile traces the call."""
    if not torch.compiler.is_compiling() and message not in _warned:
        _warned.add(message)
        warnings.warn(message, stacklevel=3)


@torch.compiler.assume_constant_result
def _has_matrix_kernels(device_index: int) -> bool:
    return bool(torch.cuda.get_device_capability(device_index) == (9, 0))


def _has_product_kernel(name: str, x: torch.Tensor, *types: torch.dtype) -> bool:
    """Returns whether Fovea's matrix kernels support x's device and type, and warns if they do not."""
    if not x.is_cuda:
        return True
    if x.dtype not in types:
        warn_once(f"fovea.ops.{name}: there is no kernel for {x.dtype} on GPUs; torch's operators run instead")
        return False
    if not _has_matrix_kernels(x.device.index):
        warn_once(f"fovea.ops.{name}: there is no kernel for this GPU; torch's operators run instead")
        return False
    return True


def patch_embed(
    patches: torch.Tensor,
    weight: torch.Tensor,
    position: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """Computes patches weight^T + bias + position: the first layer of a vision transformer.

    patches [images, tokens, in], weight [out, in], position [tokens, out], bias [out]
    -> [images, tokens, out], of position's type. The bias is added to the position table first, in a
    separate operation; for many calls, pass the sum of both as position. Either all operands have one float
    type; or patches are uint8 (raw pixels), weights int8 with a float32 scale [out], and the others
    bfloat16, and the product is scale * (patches weight^T), exact before rounding.
    Raises RuntimeError when shapes or types do not match.
    """
    if bias is not None:
        position = position + bias.to(position.dtype)
    if scale is None and not _has_product_kernel("patch_embed", patches, torch.bfloat16):
        _reject_gradients("patch_embed", patches, weight, position)
        return torch.nn.functional.linear(patches, weight) + position
    return torch.ops.fovea.patch_embed(patches, weight, position, scale)


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    gelu: bool = False,
) -> torch.Tensor:
    """Computes x weight^T + bias, then optionally the tanh form of GELU, or adds a residual of the result's shape.

    x [..., in], weight [out, in], bias [out] of any float type (float32 is read without a conversion)
    -> [..., out], of x's type. On GPUs the type is bfloat16, and in and out are multiples of 16; on the CPU
    it is any float type. Raises RuntimeError when shapes or types do not match, or for both gelu and a
    residual.
    """
    if not _has_product_kernel("linear", x, torch.bfloat16):
        _reject_gradients("linear", x, weight, bias, residual)
        if gelu and residual is not None:
            raise RuntimeError("fovea::linear: gelu and a residual exclude each other")  # the operator's message
        y = torch.nn.functional.linear(x, weight, None if bias is None else bias.to(x.dtype))
        if gelu:
            return torch.nn.functional.gelu(y, approximate="tanh")
        return y if residual is None else residual + y
    return torch.ops.fovea.linear(x, weight, bias, residual, gelu)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Computes LayerNorm over the last dimension: x [..., width], weight and bias [width] -> x's shape and type.

    On GPUs the type is bfloat16 or float32, and width is a multiple of 8 up to 2048; on the CPU it is any
    float type. Statistics are float32. Raises RuntimeError when shapes or types do not match.
    """
    if x.is_cuda and x.dtype == torch.float16:
        warn_once("fovea.ops.layer_norm: there is no kernel for float16 on GPUs; torch's operator runs instead")
        _reject_gradients("layer_norm", x, weight, bias)
        return torch.nn.functional.layer_norm(x, weight.shape, weight.to(x.dtype), bias.to(x.dtype), eps)
    return torch.ops.fovea.layer_norm(x, weight, bias, eps)
