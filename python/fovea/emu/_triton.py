"""Launches of kernels that Triton has compiled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fovea.emu._launch import Argument, Launch, Size, TensorMap, out, pointers

_SCALARS: dict[str, type[np.generic]] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u1": np.bool_, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "fp16": np.float16, "fp32": np.float32, "f32": np.float32,
    "fp64": np.float64,
}  # fmt: skip
_SWIZZLES = ("none", "32B", "64B", "128B")  # in the order of Triton's numbers


def _descriptor(name: str, argument: Argument, meta: Mapping[str, Any] | None) -> list[Argument]:
    """Returns what a kernel takes for a tensor descriptor: a map and the sizes, or on old GPUs a pointer and the sizes."""
    array = argument.array if isinstance(argument, out) else argument
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is a tensor descriptor: pass a NumPy array, not a {type(array).__name__}")
    strides = [stride // array.itemsize for stride in array.strides]
    sizes = [*map(np.int32, array.shape), *map(np.int64, strides)]
    if meta is None:
        return [argument, *map(np.int64, array.shape), *map(np.int64, strides), np.bool_(0), np.bool_(0), *sizes]
    if meta.get("fp4_padded") or meta.get("is_im2col"):
        raise TypeError(f"{name}: tensor descriptors of 4-bit floats and of convolutions are not supported")
    return [TensorMap(argument, meta["block_size"][::-1], _SWIZZLES[meta["swizzle"]]), *sizes]


def _argument(name: str, kind: object, argument: Argument) -> Argument:
    if isinstance(kind, str) and kind in _SCALARS:
        return _SCALARS[kind](argument)
    if isinstance(argument, (np.ndarray, np.generic, out, pointers)):
        return argument
    raise TypeError(f"{name} has the type {kind} in Triton: pass a NumPy array, or a NumPy scalar of its size")


def _scratch(size: int, programs: int) -> Argument:
    return out(np.zeros(size * programs, np.uint8)) if size else np.uint64(0)


def triton_launch(compiled: Any, grid: Size, arguments: Sequence[Argument]) -> Launch:
    """Returns the launch of a compiled kernel with the arguments that are no `tl.constexpr`.

    Raises:
        TypeError: there are too few or too many arguments, or one has another type.
    """
    metadata = compiled.metadata
    kinds = {name: kind for name, kind in compiled.src.signature.items() if kind != "constexpr"}
    if len(arguments) != len(kinds):
        raise TypeError(f"{metadata.name} takes {len(kinds)} arguments ({', '.join(kinds)}), not {len(arguments)}")
    metas = iter(getattr(metadata, "tensordesc_meta", None) or ())
    words: list[Argument] = []
    for (name, kind), argument in zip(kinds.items(), arguments, strict=True):
        if isinstance(kind, str) and kind.startswith("tensordesc"):
            words += _descriptor(name, argument, next(metas, None))
        else:
            words.append(_argument(name, kind, argument))
    size = [int(grid)] if isinstance(grid, (int, np.integer)) else [int(part) for part in grid]
    blocks = getattr(metadata, "num_ctas", 1)
    size[0] *= blocks
    # Versions of Triton differ in how many addresses of scratch memory come last.
    entry = re.search(rf"\.entry\s+{re.escape(metadata.name)}\s*\(([^)]*)\)", compiled.asm["ptx"])
    missing = (entry[1].count(".param") if entry else 0) - len(words)
    scratch = [getattr(metadata, f"{kind}_scratch_size", 0) for kind in ("global", "profile")]
    if not 0 <= missing <= len(scratch):
        raise TypeError(f"{metadata.name}: its PTX has {missing} parameters more than the {len(words)} known ones")
    words += [_scratch(bytes_, int(np.prod(size))) for bytes_ in scratch[:missing]]
    return Launch(
        metadata.name, size, 32 * metadata.num_warps, words, cluster=blocks, shared=metadata.shared,
        dependent=bool(getattr(metadata, "launch_pdl", False)),
    )  # fmt: skip
