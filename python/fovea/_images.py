"""Converts all supported kinds of images to encoded bytes or pixels for the engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Union

import numpy as np
import numpy.typing as npt

from fovea._library import ENCODED, FILE, IMAGE, PIXELS

if TYPE_CHECKING:
    from PIL.Image import Image as PILImage
else:
    PILImage = Any  # PIL is not imported unless the caller has imported it

_DLPACK_CPU = 1


class SupportsDLPack(Protocol):
    """An array or tensor of any library."""

    def __dlpack__(self, *arguments: Any, **named: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, Any]: ...


class SupportsRead(Protocol):
    """A file opened in binary mode, or io.BytesIO."""

    def read(self, size: int = ..., /) -> bytes: ...


ImageLike = Union[
    str, "os.PathLike[str]", bytes, bytearray, memoryview, SupportsRead, PILImage, npt.NDArray[np.uint8], SupportsDLPack
]


class Image(NamedTuple):
    """An image in the engine's form; `data` is a one-dimensional uint8 array or view."""

    kind: int
    data: np.ndarray
    width: int = 0
    height: int = 0


class Unreadable(Exception):
    """An image of a supported kind whose pixels cannot be read."""


def is_borrowed(item: Any) -> bool:
    """Returns whether `convert` uses the item without copying pixels."""
    if isinstance(item, np.ndarray):
        return item.dtype == np.uint8 and item.ndim == 3 and item.shape[2] == 3 and item.flags.c_contiguous
    return isinstance(item, (str, os.PathLike, bytes, bytearray, memoryview))


def is_single(item: Any) -> bool:
    """Returns whether an iterable is one image rather than several."""
    if isinstance(item, np.ndarray):
        return item.dtype.kind not in "OSU" and item.ndim in (2, 3)
    if hasattr(item, "read"):
        return True
    return _is_a(item, "PIL.Image", "Image") or (hasattr(item, "__dlpack__") and getattr(item, "ndim", 3) <= 3)


def as_float_array(item: Any) -> np.ndarray | None:
    """Returns a floating-point array or torch tensor as an array; None for anything else."""
    if _is_a(item, "torch", "Tensor") and item.is_floating_point():
        return np.asarray(item.detach().cpu().float().numpy())
    return item if isinstance(item, np.ndarray) and item.dtype.kind == "f" else None


def as_host_array(items: Any) -> Any:
    """Copies a tensor of images to the host in one transfer; returns other objects unchanged."""
    if isinstance(items, np.ndarray) or not hasattr(items, "__dlpack__"):
        return items
    return _tensor_array(items) if _is_a(items, "torch", "Tensor") else _dlpack_array(items)


def source_path(item: Any) -> str | None:
    """Returns the path of an image that was given as a path or an open file, for messages."""
    if hasattr(item, "read"):
        item = getattr(item, "name", None)
    return os.fsdecode(item) if isinstance(item, (str, os.PathLike)) else None


def are_paths(items: Sequence[Any]) -> bool:
    return all(isinstance(item, (str, os.PathLike)) for item in items)


def make_path_table(paths: Sequence[Any]) -> tuple[np.ndarray, Any]:
    """Returns the engine's table of files, and the memory of all names, which must outlive it. For long lists this is
    ten times as fast as `make_table`."""
    table, joined = make_byte_table([os.fsencode(path) for path in paths], IMAGE)
    table["kind"] = FILE
    return table, joined


def make_byte_table(items: Sequence[bytes], form: np.dtype[Any]) -> tuple[np.ndarray, Any]:
    """Returns a table with the `data` and `size` of the items, and the memory that must outlive it."""
    joined = _bytes(b"".join(items))
    table = np.zeros(len(items), form)
    table["size"] = np.fromiter(map(len, items), np.uint64, len(items))
    table["data"] = joined.ctypes.data + np.cumsum(table["size"]) - table["size"]
    return table, joined


def make_table(images: Sequence[Image]) -> np.ndarray:
    """Returns the engine's table of converted images."""
    table = np.zeros(len(images), IMAGE)
    if images:
        kinds, data, widths, heights = zip(*images, strict=True)
        table["kind"], table["width"], table["height"] = kinds, widths, heights
        table["data"] = [array.ctypes.data for array in data]
        table["size"] = [array.size for array in data]
    return table


def convert(item: Any, copies: bool = False) -> Image:
    """Converts one image; with `copies`, the result never borrows memory that others may write to. Raises
    TypeError or ValueError when the item is not an image, Unreadable when it is one but cannot be read."""
    if isinstance(item, (str, os.PathLike)):
        return Image(FILE, _bytes(os.fsencode(item)))
    if isinstance(item, (bytes, bytearray, memoryview)):
        return Image(ENCODED, _bytes(bytes(item) if copies else item))
    if isinstance(item, np.ndarray):
        return _from_array(item, copies)
    if _is_a(item, "PIL.Image", "Image"):
        return _from_pil(item)
    if _is_a(item, "torch", "Tensor"):
        return _from_array(_tensor_array(item), copies)
    if hasattr(item, "__dlpack__"):
        return _from_array(_dlpack_array(item), copies)
    if hasattr(item, "read"):
        return Image(ENCODED, _bytes(_read_file(item)))
    raise TypeError(
        f"{type(item).__name__} is not an image: pass a path, bytes of an image file, an open file, a PIL image, "
        "or uint8 pixels [height, width, 3] as an array or tensor"
    )


def _is_a(item: Any, module: str, name: str) -> bool:
    """Does the same as isinstance(), without importing the module of the class."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(item, getattr(loaded, name))


def _bytes(data: Any) -> np.ndarray:
    if isinstance(data, memoryview) and not data.contiguous:
        data = data.tobytes()
    return np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)


def _read_file(file: Any) -> bytes:
    """Returns all bytes of an open file, which is rewound first if possible."""
    try:
        if getattr(file, "seekable", bool)():
            file.seek(0)
        content = file.read()
    except (OSError, ValueError) as error:  # ValueError: the file is closed
        raise Unreadable(f"cannot read: {error}") from error
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"read() of this {type(file).__name__} returned {type(content).__name__}, not bytes: open images in mode "
            "'rb'"
        )
    return bytes(content)


def _from_array(pixel_array: np.ndarray, copies: bool = False) -> Image:
    """Converts an array [height, width] or [height, width, 1] (gray), or with 2 channels (gray and alpha), 3 (RGB) or 4
    (RGB and alpha). Alpha is dropped and gray repeated, as for files."""
    array = pixel_array
    shape = "x".join(map(str, array.shape))
    if array.dtype != np.uint8:
        raise ValueError(f"pixels must be uint8, 0 to 255, not {array.dtype}: scale them and convert")
    if array.ndim == 2:
        array = array[:, :, np.newaxis]
    if array.ndim != 3 or array.shape[2] not in (1, 2, 3, 4):
        hint = ""
        if array.ndim == 3 and array.shape[0] in (1, 3, 4):
            hint = "; channels come last: transpose with array.transpose(1, 2, 0)"
        raise ValueError(f"pixels must be [height, width] or [height, width, 1 to 4], not {shape}{hint}")
    height, width, channels = array.shape
    if height == 0 or width == 0:
        raise ValueError(f"{shape} pixels are not an image: both sides must be at least 1")
    if max(height, width) >= 1 << 31:
        raise ValueError(f"{shape} pixels are too many: a side must be below 2^31")
    if channels < 3:
        array = np.repeat(array[:, :, :1], 3, axis=2)
    pixels = np.ascontiguousarray(array[:, :, :3])
    if copies and np.may_share_memory(pixels, pixel_array):
        pixels = pixels.copy()
    return Image(PIXELS, pixels.reshape(-1), width, height)


def _from_pil(image: Any) -> Image:
    """Returns the pixels in the form in which the engine decodes images: upright, RGB."""
    from PIL import ImageOps

    try:
        try:
            upright = ImageOps.exif_transpose(image)
        except Exception:  # unreadable metadata is ignored, as in files
            upright = image
        rgb = np.asarray(upright.convert("RGB"))
    except Exception as error:  # Pillow's decoders raise exceptions of many types
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    return _from_array(rgb)


def _tensor_array(tensor: Any) -> np.ndarray:
    """Returns a torch tensor as an array on the host."""
    if str(tensor.dtype) != "torch.uint8":  # numpy lacks some of torch's types
        raise ValueError(f"pixels must be uint8, 0 to 255, not {tensor.dtype}: scale them and convert")
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array


def _dlpack_array(item: Any) -> np.ndarray:
    """Returns an object that supports DLPack as an array on the host."""
    if item.__dlpack_device__()[0] == _DLPACK_CPU:
        return np.from_dlpack(item)
    try:
        return np.from_dlpack(item, device="cpu")
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise ValueError(
            f"this {type(item).__name__} is not in the host's memory and cannot be copied "
            f"there ({error}): convert it to a numpy array first"
        ) from error
