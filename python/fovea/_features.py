"""Features: hidden states of the vision tower in device memory, which other libraries can use through DLPack."""

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
_TYPE_NUMBERS = {
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
    """Returns the engine's number for a type such as "f16", numpy.float16 or torch.float16."""
    name = value if isinstance(value, str) else str(value)
    if name not in _TYPE_NUMBERS:
        with contextlib.suppress(TypeError):
            name = str(np.dtype(value))  # type: ignore[arg-type]
    if name not in _TYPE_NUMBERS:
        raise ValueError(f'dtype must be "f16" or "f32", or the equivalent of numpy or torch, not {value!r}')
    return _TYPE_NUMBERS[name]


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
    """Features of images, [images, tokens, hidden] or, for pooled features, [images, hidden], in the memory of the
    device that computed them.

    `numpy.asarray` and `numpy()` return an array: a view where the device is the CPU, else a copy. `torch.from_dlpack`
    and similar functions need no copy, not even on a GPU; the features are complete, so that no stream has to wait. The
    memory is independent of the Encoder, and is freed with the last object that refers to it."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        """Wraps the engine's features of a completed run."""
        self._handle = handle
        self._pid = os.getpid()
        self._free = weakref.finalize(self, _free, handle, self._pid)
        self._free.atexit = False  # the end of the process frees the memory
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
        """Number of dimensions: 3, or 2 for pooled features."""
        return len(self._shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values: numpy.float16 or numpy.float32."""
        return self._dtype

    @property
    def device(self) -> str:
        """The device that holds the values: "cpu" or "cuda:N", as torch names it."""
        return "cpu" if self._cuda_device < 0 else f"cuda:{self._cuda_device}"

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        return f"<fovea.Features {list(self._shape)} {self._dtype} on {self.device}>"

    def numpy(self) -> npt.NDArray[Any]:
        """Returns the values as an array: a view where they are in host memory, else a copy."""
        self._require_here()
        if self._cuda_device >= 0:
            copy = np.empty(self._shape, self._dtype)
            library.fovea_features_copy(self._handle, copy.ctypes.data, copy.nbytes)
            return copy
        size = library.fovea_features_bytes(self._handle)
        if size == 0:
            return np.empty(self._shape, self._dtype)
        memory = (ctypes.c_char * size).from_address(library.fovea_features_data(self._handle))
        memory._owner = self  # arrays keep `memory` alive, and `memory` keeps the features
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
        """Returns a DLPack capsule. `stream` is ignored, because the values are complete."""
        self._require_here()
        own_device = self.__dlpack_device__()
        if dl_device is not None and tuple(map(int, dl_device)) != own_device:
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


def compute_features(window: Window, start: Callable[[Run], ctypes.c_void_p], bar: Bar) -> Features:
    """Runs `start` and waits for the result. Raises the error of the run if it failed."""
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
        run.close()  # stops the run if it is still active
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
# because ctypes would take a reference to a capsule that is being destroyed.
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _DESTRUCTOR)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def _delete(capsule: int) -> None:
    if _is_valid(capsule, _CAPSULE):  # a consumer that takes the tensor renames the capsule
        managed = _get_pointer(capsule, _CAPSULE)
        _Managed.from_address(managed).deleter(managed)


_delete_capsule = _DESTRUCTOR(_delete)  # kept alive here, because capsules do not
