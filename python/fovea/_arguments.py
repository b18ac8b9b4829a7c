"""Checks and converts arguments for the engine."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import Any, Literal, Protocol, SupportsIndex, get_args

Precision = Literal["auto", "fp32", "bf16", "int8", "fp8", "mxfp8"]
TextClean = Literal["auto", "lower", "canonicalize", "none"]
Tower = Literal["images", "texts"]

# Names in the order of the engine's enumerations.
TEXT_CLEANS = get_args(TextClean)
TOWERS = get_args(Tower)

_TORCH_TYPES = {"torch.float32": "fp32", "torch.bfloat16": "bf16"}
# Names of precisions that have no torch type.
_NAMES = [f'"{name}"' for name in get_args(Precision)[1:] if name not in _TORCH_TYPES.values()]
_QUOTED_PRECISIONS = f'{", ".join(_NAMES)} or "auto"'


class TorchDevice(Protocol):
    """The interface of torch.device, so that Fovea need not import torch."""

    @property
    def type(self) -> str: ...
    @property
    def index(self) -> Any: ...


class TorchType(Protocol):
    """The interface of torch.dtype, so that Fovea need not import torch."""

    @property
    def is_floating_point(self) -> bool: ...
    @property
    def itemsize(self) -> int: ...


Device = str | TorchDevice


def integer(value: SupportsIndex, name: str, least: int, bits: int = 32, least_is: str = "") -> int:
    """Checks that a number fits into the engine's integer type, because ctypes would truncate it silently.
    `least_is` explains the meaning of the value `least` in the error message."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if number < least:
        meaning = f" ({least_is})" if least_is else ""
        raise ValueError(f"{name} must be {least}{meaning} or more, not {number}")
    greatest = (1 << (bits - 1)) - 1
    if number > greatest:
        raise ValueError(f"{name} must be at most {greatest}, not {number}")
    return number


def choice(value: str, name: str, names: Sequence[str]) -> int:
    """Returns the index of `value` in `names`; raises ValueError when it is not one of them."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    if value not in names:
        raise ValueError(f"{name} must be {', '.join(map(repr, names[:-1]))} or {names[-1]!r}, not {value!r}")
    return names.index(value)


def path_text(value: str | os.PathLike[str], name: str) -> bytes:
    """Encodes a path or name for the engine."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be a string or a path, not {type(value).__name__}")
    return _without_nul(os.fsencode(value), name)


def name_text(value: str, name: str) -> bytes:
    """Encodes a name for the engine."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    return _without_nul(value.encode("utf-8", "surrogateescape"), name)


def device_name(device: Device) -> str:
    """Returns the device as a string, such as "cuda:1", from a string or a torch.device."""
    if isinstance(device, str):
        return device
    if type(device).__module__.partition(".")[0] == "torch" and type(device).__name__ == "device":
        return str(device)
    raise TypeError(f"device must be a string or a torch.device, not {type(device).__name__}")


def precision_name(precision: Precision | TorchType) -> str:
    """Returns the precision as a string, such as "bf16", from a string or a torch.dtype."""
    if isinstance(precision, str):
        return precision
    if type(precision).__module__.partition(".")[0] == "torch" and type(precision).__name__ == "dtype":
        if str(precision) in _TORCH_TYPES:
            return _TORCH_TYPES[str(precision)]
        raise ValueError(
            f"precision {precision} is not supported; use torch.float32, torch.bfloat16, {_QUOTED_PRECISIONS}"
        )
    raise TypeError(f"precision must be a string or a torch.dtype, not {type(precision).__name__}")


def _without_nul(name: bytes, argument: str) -> bytes:
    if b"\0" in name:
        raise ValueError(f"{argument} must not contain a NUL character")
    return name
