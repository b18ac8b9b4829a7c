"""Counterparts of torch.nn.functional, with torch's signatures."""

from __future__ import annotations

import torch

from fovea import _kernels
from fovea.ops import warn_once

__all__ = ["scaled_dot_product_attention"]

_MAX_HEAD_DIM = 128
_GPU_TYPES = (torch.float16, torch.bfloat16)
_CPU_TYPES = (*_GPU_TYPES, torch.float32)


@torch.compiler.assume_constant_result
def _why_no_kernels(device_index: int) -> str:
    return _kernels.missing_attention_reason(device_index)


def _unsupported_feature(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    dropout_p: float,
    scale: float | None,
    enable_gqa: bool,
) -> str:
    """Returns the feature of a call that Fovea's kernels do not support, or "". The text contains no sizes, so that
    each feature is reported only once."""
    tensors = (query, key, value)
    if any(type(t) is not torch.Tensor and type(t) is not torch.nn.Parameter for t in tensors):
        return "subclasses of torch.Tensor"
    if attn_mask is not None:
        return "an attention mask"
    if dropout_p > 0:
        return "dropout"
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return "gradients"
    if any(t.dim() != 4 for t in tensors):
        return "tensors without 4 dimensions"
    if key.shape != value.shape or query.shape[-1] != key.shape[-1] or query.shape[0] != key.shape[0]:
        return "values whose shape differs from that of the keys, or broadcast batches"
    if query.shape[1] != key.shape[1] and not enable_gqa:
        return "broadcast heads without enable_gqa"
    if key.shape[1] == 0 or query.shape[1] % key.shape[1] != 0 or key.shape[2] == 0:
        return "an empty key, or heads that are not a multiple of those of the key"
    if scale is not None and not scale > 0:
        return "a scale that is not positive"
    if any(t.dtype != query.dtype or t.device != query.device for t in tensors):
        return "operands of different types or devices"
    if query.device.type == "cpu":
        return "" if query.dtype in _CPU_TYPES else f"{query.dtype} on the CPU"
    if query.device.type != "cuda":
        return f"the device {query.device.type}"
    if query.dtype not in _GPU_TYPES:
        return f"{query.dtype} on a GPU"
    if query.shape[-1] % 8 != 0 or query.shape[-1] > _MAX_HEAD_DIM:
        return "head dimensions other than multiples of 8 up to 128"
    why = _why_no_kernels(query.device.index)
    return f"on this GPU ({why})" if why else ""


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Computes torch.nn.functional.scaled_dot_product_attention with Fovea's kernels.

    query is [batch, heads, length, d]; key and value are [batch, kv_heads, keys, d]. Calls that the kernels do
    not support (dropout, masks, gradients, types and sizes without a kernel) are computed by torch, with one
    warning per reason. The environment variable FOVEA_FORCE_KERNEL forces a level of kernels.
    """
    reason = _unsupported_feature(query, key, value, attn_mask, dropout_p, scale, enable_gqa)
    if not reason:
        return torch.ops.fovea.attention(query, key, value, is_causal, scale)
    warn_once(f"fovea.nn.functional.scaled_dot_product_attention does not support {reason}: torch computes it")
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )
