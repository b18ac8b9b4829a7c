"""Features: hidden states of the vision tower, in the memory of their device, shared with other libraries."""

from __future__ import annotations

import contextlib
import ctypes
import os
import weakref
from collections.abc import Callable
from typing import Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from fovea._arguments import TorchType, integer
from fovea._bar import Bar
from fovea._errors import Error
from fovea._library import library
from fovea._runs import Run, Window

FeatureType = Literal["f16", "f32"]
Layer = Literal["last", "penultimate", "pooled"] | SupportsIndex

# Types in the order of the engine's enumeration.
TYPES = ("f32", "f16")
_NUMPY_TYPES = (np.dtype(np.float32), np.dtype(np.float16))
_NAMES_OF_TYPES = {
    "f32": 0,
    "float32": 0,
    "torch.float32": 0,
    "f16": 1,
    "float16": 1,
    "torch.float16": 1,
}

_DLPACK_CPU, _DLPACK_CUDA = 1, 2
_CAPSULE = b"dltensor"  # must outlive all capsules, which point to it


def feature_type(value: FeatureType | npt.DTypeLike | TorchType) -> int:
    """Returns the engine's number for "f16", numpy.float16, torch.float16 and the like."""
    name = value if isinstance(value, str) else str(value)
    if name not in _NAMES_OF_TYPES:
        with contextlib.suppress(TypeError):
            name = str(np.dtype(value))  # type: ignore[arg-type]
    if name not in _NAMES_OF_TYPES:
        raise ValueError(f'dtype must be "f16" or "f32", or the equivalent of numpy or torch, not {value!r}')
    return _NAMES_OF_TYPES[name]


def layer_name(layer: Layer) -> bytes:
    """Returns the engine's name for a layer."""
    if isinstance(layer, str):
        if layer not in ("last", "penultimate", "pooled"):
            raise ValueError(f'layer must be "last", "penultimate", "pooled" or an integer, not {layer!r}')
        return layer.encode()
    try:
        return str(integer(layer, "layer", -(1 << 31))).encode()
    except TypeError:
        raise TypeError(
            f'layer must be "last", "penultimate", "pooled" or an integer, not {type(layer).__name__}'
        ) from None


class Features:
    """Features of images: numbers [images, tokens, hidden], or [images, hidden] of the pooled ones, in the memory of
    the device that computed them.

    `numpy.asarray` and `numpy()` give an array: a view where the device is the CPU, else a copy. `torch.from_dlpack`
    and the like take it as it is, without a copy, on a GPU too; all work on it is done, so that no stream needs to
    wait. The memory goes when the object and all that was made of it are gone, and not with the Encoder."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        """Wraps the engine's object of a run that has ended."""
        self._handle = handle
        self._pid = os.getpid()
        self._free = weakref.finalize(self, _free, handle, self._pid)
        self._free.atexit = False  # freed by the end of the process
        shape = (ctypes.c_int64 * 3)()
        rank = library.fovea_features_shape(handle, shape)
        self._shape = tuple(shape[:rank])
        self._dtype = _NUMPY_TYPES[library.fovea_features_type(handle)]
        self._cuda_device: int = library.fovea_features_cuda_device(handle)

    @property
    def shape(self) -> tuple[int, ...]:
        """(images, tokens, hidden), or (images, hidden) for pooled features."""
        return self._shape

    @property
    def ndim(self) -> int:
        """3, or 2 for pooled features."""
        return len(self._shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """numpy.float16 or numpy.float32."""
        return self._dtype

    @property
    def device(self) -> str:
        """The device of the numbers: "cpu" or "cuda:N", as torch names it."""
        return "cpu" if self._cuda_device < 0 else f"cuda:{self._cuda_device}"

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        return f"<fovea.Features {list(self._shape)} {self._dtype} on {self.device}>"

    def numpy(self) -> npt.NDArray[Any]:
        """The numbers on the host: a view of the memory where it is the host's, else a copy."""
        self._require_here()
        if self._cuda_device >= 0:
            copy = np.empty(self._shape, self._dtype)
            library.fovea_features_copy(self._handle, copy.ctypes.data, copy.nbytes)
            return copy
        size = library.fovea_features_bytes(self._handle)
        if size == 0:
            return np.empty(self._shape, self._dtype)
        memory = (ctypes.c_char * size).from_address(library.fovea_features_data(self._handle))
        memory._owner = self  # arrays keep `memory` alive, and this keeps what it views
        return np.frombuffer(memory, self._dtype).reshape(self._shape)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = self.numpy()
        if copy is False and (self._cuda_device >= 0 or (dtype is not None and np.dtype(dtype) != array.dtype)):
            raise ValueError(f"these features are {self._dtype} on {self.device}: an array of them needs a copy")
        if dtype is not None:
            array = array.astype(dtype, copy=bool(copy))
        elif copy and self._cuda_device < 0:
            array = array.copy()
        return array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_DLPACK_CPU, 0) if self._cuda_device < 0 else (_DLPACK_CUDA, self._cuda_device)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Returns a DLPack capsule. `stream` is ignored, because the numbers are complete."""
        self._require_here()
        here = self.__dlpack_device__()
        if dl_device is not None and tuple(map(int, dl_device)) != here:
            if tuple(map(int, dl_device)) != (_DLPACK_CPU, 0) or copy is False:
                raise BufferError(f"these features are on {self.device} and are not moved to {dl_device}")
            return self.numpy().__dlpack__()
        if copy:
            if self._cuda_device >= 0:
                raise BufferError("copy the tensor that is made of these features instead")
            return self.numpy().copy().__dlpack__()
        managed = ctypes.c_void_p()
        library.fovea_features_dlpack(self._handle, ctypes.byref(managed))
        return _new_capsule(managed, _CAPSULE, _delete_capsule)

    def _require_here(self) -> None:
        if os.getpid() != self._pid:
            raise Error("these features were computed before the process forked, and their memory is the parent's")


def finished_features(window: Window, start: Callable[[Run], ctypes.c_void_p], bar: Bar) -> Features:
    """Waits for the run that `start` starts, and raises the reason when it ended early."""
    run, started = Run(window, np.empty((0, 0), np.float32)), None
    try:
        started = start(run)
        run.wait(bar)
        for failure in run.failures():
            raise failure
        result = Features(started)
        started = None
        return result
    finally:
        run.close()  # stops the run unless it has ended
        if started is not None:
            library.fovea_features_free(started)


def _free(handle: ctypes.c_void_p, pid: int) -> None:
    if os.getpid() == pid:
        library.fovea_features_free(handle)


class _Managed(ctypes.Structure):
    """The fields of DLManagedTensor up to its deleter."""


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# The tensor: data, device (two numbers), ndim, dtype (four bytes), shape, strides, byte_offset.
_Managed._fields_ = [("tensor", ctypes.c_byte * 48), ("owner", ctypes.c_void_p), ("deleter", _DELETER)]

# The destructor of capsules, which frees the tensor unless a consumer has taken it. Its argument is not a py_object,
# because no reference to an object that is being freed may be counted.
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _DESTRUCTOR)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def _delete(capsule: int) -> None:
    if _is_valid(capsule, _CAPSULE):  # else a consumer has renamed the capsule, and owns the tensor
        managed = _get_pointer(capsule, _CAPSULE)
        _Managed.from_address(managed).deleter(managed)


_delete_capsule = _DESTRUCTOR(_delete)  # kept alive here, because capsules do not
