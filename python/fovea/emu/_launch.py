"""Launch files for the program, made of the arguments of calls."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: A size in up to three dimensions, x first.
Size = int | Sequence[int]

_TYPES = {
    "uint8": "u8", "int8": "s8", "bool": "u8", "uint16": "u16", "int16": "s16", "float16": "f16", "uint32": "u32",
    "int32": "s32", "float32": "f32", "uint64": "u64", "int64": "s64", "float64": "f64", "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
}  # fmt: skip


class out:  # a name like a function's: it wraps an argument
    """Wraps an array whose content does not exist for the kernel yet: to read it before it is written is a finding.

    The array gets what the kernel has written, like any other array.
    """

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array


class pointers:
    """Stands for an array in global memory of the addresses of arrays, as batches of products take them."""

    def __init__(self, *arrays: np.ndarray[Any, Any] | out) -> None:
        self.arrays = arrays


@dataclasses.dataclass(frozen=True)
class TensorMap:
    """A tensor map (CUtensorMap) over an array, for a `__grid_constant__` parameter.

    Attributes:
        array: the tensor in global memory, up to five dimensions.
        box: elements that the TMA copies at once, innermost dimension first.
        swizzle: "none", "32B", "64B" or "128B"; "128B_ATOM_32B" or "128B_ATOM_64B" for sm_100.
        fill: of elements outside of the tensor: "zero" or "nan".
        element_strides: steps between elements, innermost first; 1 where not given.
    """

    array: np.ndarray[Any, Any] | out
    box: Sequence[int]
    swizzle: str = "none"
    fill: str = "zero"
    element_strides: Sequence[int] | None = None


#: Arguments of kernels: arrays are buffers in global memory, NumPy's scalars and bytes are passed by value.
Argument = Any


@dataclasses.dataclass
class Launch:
    """One launch of a kernel.

    Attributes:
        kernel: name in the PTX or in C++, without template arguments if it is unique; "" is the only kernel.
        grid: number of blocks.
        block: number of threads per block.
        arguments: one for each parameter.
        cluster: number of blocks per cluster.
        shared: bytes of dynamic shared memory.
        dependent: whether it is a programmatic dependent launch.
    """

    kernel: str
    grid: Size
    block: Size
    arguments: Sequence[Argument]
    cluster: Size = 1
    shared: int = 0
    dependent: bool = False


def _size(size: Size) -> int | list[int]:
    return int(size) if isinstance(size, (int, np.integer)) else [int(part) for part in size]


class LaunchFile:
    """Writes arrays and a launch file to a folder, and reads what the kernels have written."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._arrays: list[np.ndarray[Any, Any]] = []
        self._buffers: dict[str, dict[str, Any]] = {}

    def json(self, launches: Sequence[Launch]) -> dict[str, Any]:
        """Returns the document for the launches, after it has written the files that the document names."""
        return {
            "launches": [
                {
                    **({"kernel": launch.kernel} if launch.kernel else {}),
                    "grid": _size(launch.grid),
                    "block": _size(launch.block),
                    "cluster": _size(launch.cluster),
                    "shared_bytes": launch.shared,
                    "dependent": launch.dependent,
                    "arguments": [self._argument(i, argument) for i, argument in enumerate(launch.arguments)],
                }
                for launch in launches
            ],
            "buffers": self._buffers,
        }

    def _argument(self, index: int, argument: Argument) -> Mapping[str, Any]:
        if isinstance(argument, (np.ndarray, out)):
            return {"buffer": self._buffer(index, argument)}
        if isinstance(argument, pointers):
            return {"buffer": self._pointers(index, argument)}
        if isinstance(argument, TensorMap):
            return {"tensor_map": self._tensor_map(index, argument)}
        if isinstance(argument, (bytes, bytearray)):
            return {"bytes": bytes(argument).hex()}
        if isinstance(argument, np.void):
            return {"bytes": argument.tobytes().hex()}
        if isinstance(argument, np.generic) and argument.dtype.name in _TYPES:
            bits = f"0x{int.from_bytes(argument.tobytes(), 'little'):x}"
            return {f"u{8 * argument.dtype.itemsize}": bits}
        raise TypeError(
            f"argument {index} is a {type(argument).__name__}; expected a NumPy array, a NumPy scalar such as "
            "numpy.int32(3) or numpy.float32(3), bytes, pointers(), or a TensorMap"
        )

    def _buffer(self, index: int, argument: np.ndarray[Any, Any] | out) -> str:
        array = argument.array if isinstance(argument, out) else argument
        if not isinstance(array, np.ndarray):
            raise TypeError(f"argument {index}: out() takes a NumPy array, not a {type(array).__name__}")
        if not array.flags.c_contiguous or not array.flags.writeable or array.size == 0:
            raise ValueError(f"argument {index}: the array must be C-contiguous and writable, and not empty")
        for number, known in enumerate(self._arrays):
            if known.ctypes.data == array.ctypes.data and known.nbytes == array.nbytes:
                return f"b{number}"
        name = f"b{len(self._arrays)}"
        self._arrays.append(array)
        type_name = _TYPES.get(array.dtype.name)
        shape = list(array.shape) if type_name and array.shape else [array.nbytes if not type_name else 1]
        buffer: dict[str, Any] = {"type": type_name or "u8", "shape": shape, "write": f"{name}.out"}
        if not isinstance(argument, out):
            array.tofile(self._folder / f"{name}.in")
            buffer["content"] = {"file": f"{name}.in"}
        self._buffers[name] = buffer
        return name

    def _pointers(self, index: int, argument: pointers) -> str:
        addresses = [{"buffer": self._buffer(index, array)} for array in argument.arrays]
        name = f"pointers{len(self._buffers)}"
        self._buffers[name] = {"type": "u64", "content": {"addresses": addresses}}
        return name

    def _tensor_map(self, index: int, argument: TensorMap) -> dict[str, Any]:
        json = {
            "buffer": self._buffer(index, argument.array),
            "box": [int(size) for size in argument.box],
            "swizzle": argument.swizzle,
            "fill": argument.fill,
        }
        if argument.element_strides is not None:
            json["element_strides"] = [int(stride) for stride in argument.element_strides]
        return json

    def read_results(self) -> None:
        """Copies what the kernels have written to the arrays."""
        for number, array in enumerate(self._arrays):
            content = np.fromfile(self._folder / f"b{number}.out", np.uint8)
            array.reshape(-1).view(np.uint8)[:] = content
