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


class struct:
    """Stands for a struct that is passed by value and contains addresses of arrays.

    Its members are what arguments are, in their order, each at a multiple of its alignment, as C++ lays them out; `bytes`
    have none. A struct without addresses may be `bytes` or an item of a structured NumPy array.
    """

    def __init__(self, *members: Argument) -> None:
        self.members = members

    def fields(self) -> list[tuple[int, Argument]]:
        """Returns each member behind its offset."""
        return self._layout()[0]

    def _layout(self) -> tuple[list[tuple[int, Argument]], int, int]:
        """The members behind their offsets, the size, and the alignment."""
        fields, end, largest = [], 0, 1
        for member in self.members:
            if isinstance(member, struct):
                _, size, alignment = member._layout()
            elif isinstance(member, TensorMap):
                size, alignment = 128, 64
            elif isinstance(member, (bytes, bytearray)):
                size, alignment = len(member), 1
            elif isinstance(member, np.void):
                size, alignment = member.nbytes, member.dtype.alignment
            else:
                size = alignment = member.nbytes if isinstance(member, np.generic) else 8  # an address
            offset = -(-end // alignment) * alignment
            fields.append((offset, member))
            end, largest = offset + size, max(largest, alignment)
        return fields, -(-end // largest) * largest, largest


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
        cooperative: whether all its blocks run at a time, as `grid.sync()` needs.
    """

    kernel: str
    grid: Size
    block: Size
    arguments: Sequence[Argument]
    cluster: Size = 1
    shared: int = 0
    dependent: bool = False
    cooperative: bool = False


@dataclasses.dataclass(frozen=True)
class Expected:
    """What arrays should have after the launches, by the positions of arguments: each array, and what is wanted."""

    arrays: Mapping[int, tuple[np.ndarray[Any, Any], Any]]
    rtol: float
    atol: float


def expected_of(arguments: Sequence[Argument], expect: Any, rtol: float, atol: float) -> Expected:
    """Returns what is expected: of each argument that a mapping names by its position, or else of the only array.

    Raises:
        TypeError, ValueError: an argument is no array, or another shape is expected; or it is not clear of which.
    """
    arrays = {
        index: argument.array if isinstance(argument, out) else argument
        for index, argument in enumerate(arguments)
        if isinstance(argument, (np.ndarray, out))
    }
    if expect is None:
        wanted = {}
    elif isinstance(expect, Mapping):
        wanted = dict(expect)
    else:
        outs = [index for index in arrays if isinstance(arguments[index], out)] or list(arrays)
        if len(outs) != 1:
            raise ValueError(
                "expect: several arguments are arrays; wrap the result in out(), or pass {position: array}"
            )
        wanted = {outs[0]: expect}
    for index, array in wanted.items():
        if index not in arrays:
            raise TypeError(f"expect: there is no argument {index} that is an array; positions count from 0")
        if np.shape(array) not in ((), arrays[index].shape):
            raise ValueError(f"expect: argument {index} has the shape {arrays[index].shape}, not {np.shape(array)}")
    return Expected({index: (arrays[index], array) for index, array in wanted.items()}, rtol, atol)


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
                    "cooperative": launch.cooperative,
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
        if isinstance(argument, struct):
            return {"struct": [{"at": offset, **self._argument(index, member)} for offset, member in argument.fields()]}
        if isinstance(argument, (bytes, bytearray)):
            return {"bytes": bytes(argument).hex()}
        if isinstance(argument, np.void):
            return {"bytes": argument.tobytes().hex()}
        if isinstance(argument, np.generic) and argument.dtype.name in _TYPES:
            bits = f"0x{int.from_bytes(argument.tobytes(), 'little'):x}"
            return {f"u{8 * argument.dtype.itemsize}": bits}
        raise TypeError(
            f"argument {index} is a {type(argument).__name__}; expected a NumPy array, a NumPy scalar such as "
            "numpy.int32(3) or numpy.float32(3), bytes, pointers(), struct(), or a TensorMap"
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

    def expect(self, expected: Expected) -> None:
        """Has every schedule compare what is in an argument's array with what should be there. Launches come first."""
        for index, (array, wanted) in expected.arrays.items():
            name = self._buffer(index, array)
            buffer = self._buffers[name]
            if "compare" in buffer:
                raise ValueError(f"expect: argument {index} is an array for which another argument expects something")
            content = np.broadcast_to(np.asarray(wanted), array.shape).astype(array.dtype)
            content.tofile(self._folder / f"{name}.expected")
            buffer["compare"] = {"file": f"{name}.expected"}
            if expected.rtol or expected.atol:
                buffer["compare"] |= {"relative": expected.rtol, "absolute": expected.atol}

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
