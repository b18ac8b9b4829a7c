"""Tasks in KernelBench's form: Model, inputs drawn from a seed, and Model's result in float64.

The process that runs a foreign answer and the one that judges it both draw inputs by this module, from the same seeds,
so that neither has to trust the other."""

from __future__ import annotations

import copy
import importlib.util
import pathlib
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

#: Factors for floating-point inputs; multiplication by powers of two is exact.
SIZES = {"normal": 1.0, "large": 16.0, "small": 1.0 / 256}

_NARROW = (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
_CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)


class TaskError(Exception):
    """Raised when a task is unusable, whatever the answer is."""


def load_module(path: pathlib.Path) -> Any:
    """Imports the file as a module. Exceptions in its code are passed on."""
    spec = importlib.util.spec_from_file_location(f"fovea_judged_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and Python compilers look modules up here
    spec.loader.exec_module(module)
    return module


def is_float(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def result_tensors(result: object) -> list[torch.Tensor]:
    """Returns the tensors of a result, which is a tensor, or a list or tuple of tensors."""
    parts = list(result) if isinstance(result, (list, tuple)) else [result]
    for part in parts:
        if not isinstance(part, torch.Tensor):
            raise TypeError(f"the result contains a {type(part).__name__}; expected a tensor, or a list of tensors")
    return parts


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the bytes of the elements in order, as a view if the tensor is contiguous."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def fill_with_nan(tensor: torch.Tensor) -> None:
    """Fills the whole storage of a tensor with bytes of 255, which read as NaN or, for integers, as -1."""
    memory = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    memory.set_(tensor.untyped_storage()).fill_(255)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(as_bytes(a), as_bytes(b)))


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


class Task:
    """A task file: `class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`."""

    def __init__(self, path: pathlib.Path, device: str, draw_on: str) -> None:
        self.path, self.device, self.draw_on = path, device, draw_on
        try:
            module = load_module(path)
        except (Exception, SystemExit) as error:
            raise TaskError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
        for name in ("Model", "get_inputs", "get_init_inputs"):
            if not callable(getattr(module, name, None)):
                raise TaskError(f"{path} has no {name}; expected Model, get_inputs and get_init_inputs")
        self.module = module

    def build(self, model: Any, seed: int) -> Any:
        """Creates Model or an answer's ModelNew with weights drawn from the seed."""
        with torch.device(self.draw_on), torch.no_grad():
            seed_all(seed)
            arguments = self.module.get_init_inputs()
            seed_all(seed)
            return model(*arguments).to(self.device)

    def draw(self, seed: int, size: str = "normal", with_nan: bool = False) -> list[Any]:
        """Draws the inputs of a seed on the device, scaled by SIZES[size], optionally with a NaN in the middle of the
        first."""
        with torch.device(self.draw_on), torch.no_grad():
            seed_all(seed + 1)  # inputs must differ from the first weights
            drawn = [v.to(self.device) if isinstance(v, torch.Tensor) else v for v in self.module.get_inputs()]
            floats = [v for v in drawn if is_float(v) and v.dtype.itemsize > 1 and v.numel() > 0]
            factor = SIZES[size]
            for value in floats:
                largest = torch.finfo(value.dtype).max / 64
                if factor != 1.0 and value.abs().nan_to_num().max().item() * factor < largest:
                    value.mul_(factor)
            if with_nan and floats:
                first = floats[0].contiguous().reshape(-1)
                first[first.numel() // 2] = float("nan")
                drawn[next(i for i, v in enumerate(drawn) if v is floats[0])] = first.view(floats[0].shape)
            return drawn

    def redrawn(self, seed: int, operands: Operands) -> Callable[[int], list[Any]]:
        """Returns a function for the inputs of call n: new values for each call, in the same memory."""

        def draw(number: int) -> list[Any]:
            drawn = self.draw(seed + number)
            operands.make_room(drawn)
            operands.fill(drawn)
            seed_all(seed + number)  # as run_model does
            return operands.values

        return draw


class Operands:
    """Inputs that keep their addresses while their content changes, unnoticed by torch's version counters."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [value for value in self.values if isinstance(value, torch.Tensor)]

    def make_room(self, drawn: Sequence[Any], moved: bool = False) -> None:
        """Allocates new memory if `moved`, or if the layouts differ."""
        if moved or [*map(_layout, self.values)] != [*map(_layout, drawn)]:
            self.values = copy_values(drawn)

    def fill(self, drawn: Sequence[Any]) -> None:
        """Copies tensors; replaces other values."""
        for number, (value, new) in enumerate(zip(self.values, drawn, strict=True)):
            if isinstance(new, torch.Tensor):
                value.data.copy_(new)
            else:
                self.values[number] = new


def copy_values(values: Sequence[Any]) -> list[Any]:
    return [v.clone(memory_format=torch.preserve_format) if isinstance(v, torch.Tensor) else v for v in values]


def _layout(value: object) -> object:
    """Returns the layout of a copy of the value, which has no strides of 0 and no gaps."""
    if not isinstance(value, torch.Tensor):
        return None
    return value.shape, value.dtype, value.device, torch.empty_like(value, device="meta").stride()


class _Widened(TorchFunctionMode):  # type: ignore[misc]
    """Replaces float types in calls within the context by float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def wide(value: Any) -> Any:
            return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value

        named = {name: wide(value) for name, value in (kwargs or {}).items()}
        return (torch.Tensor.double if func in _CASTS else func)(*map(wide, args), **named)


def run_model(model: Any, inputs: Sequence[Any], seed: int) -> list[torch.Tensor]:
    """Returns Model's result in its own types, computed on copies of the inputs."""
    with torch.no_grad():
        seed_all(seed)
        return result_tensors(model(*copy_values(inputs)))


def run_exact(model: Any, inputs: Sequence[Any], seed: int) -> list[torch.Tensor]:
    """Returns Model's result with weights, inputs, and float types in its code replaced by float64."""
    wide = [v.double().clone() if is_float(v) else v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), _Widened():
            seed_all(seed)
            return result_tensors(copy.deepcopy(model).double()(*wide))
    finally:
        torch.set_default_dtype(before)


def weight_sums(model: Any) -> dict[str, float]:
    """Returns the sum of each weight tensor, by which the two processes compare weights."""
    return {name: value.double().sum().item() for name, value in model.state_dict().items()}


def computes_in_floats(model: Any, inputs: Sequence[Any]) -> bool:
    """Returns whether a result may depend on rounding; results of integers alone are exact."""
    return any(is_float(v) or isinstance(v, float) for v in (*inputs, *model.parameters(), *model.buffers()))


def contraction(model: Any, inputs: Sequence[Any]) -> int:
    """Estimates the maximum number of terms of a sum in this task, from the sizes of inputs and weights."""
    parts = [v for v in inputs if isinstance(v, torch.Tensor)] + list(model.state_dict().values())
    return min(4096, max((size for part in parts for size in part.shape), default=1))
