"""The process that runs a foreign answer: it draws inputs, calls ModelNew and writes the outputs to shared memory.

It is forked before the judge touches a GPU or computes anything, so an answer finds no reference results in
its memory, and its crash, sticky CUDA error or endless loop affects only this process. It is not a sandbox."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import pathlib
import random
import re
import secrets
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import numpy as np
import torch

from fovea.lab import _task, _timing
from fovea.lab._task import (
    Operands,
    Task,
    as_bytes,
    fill_with_nan,
    load_module,
    result_tensors,
    same_bits,
    seed_all,
    weight_sums,
)

#: Environment variables that an answer may see: those that locate compilers, devices and caches. All others, such as
#: tokens and keys, are removed.
_ENVIRONMENT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TERM|TZ|PWD|TMPDIR|TEMP|TMP|LANG|LC_\w+|CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS|CPATH|"
    r"LIBRARY_PATH|LD_LIBRARY_PATH|LD_PRELOAD|CPLUS_INCLUDE_PATH|C_INCLUDE_PATH|MAX_JOBS|VIRTUAL_ENV|CONDA_PREFIX|"
    r"XDG_CACHE_HOME|(PYTHON|CUDA|CUDNN|CUTLASS|NVIDIA|NVCC|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|OMP|MKL|KMP|OPENBLAS|"
    r"GOMP|CCACHE|FOVEA|ASAN|UBSAN)_\w+|PYTHONPATH|PYTHONHOME"
)
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)

#: Number of timed calls whose outputs are compared.
KEPT_CALLS = 3
#: Delay of a delayed stream, in GPU cycles, and seconds for which an output on the CPU is watched after its call.
_DELAY_CYCLES, _WATCH_SECONDS = 20_000_000, 0.01

_Forms = list[list[Any]]  # [shape, type] of each output

# Functions of other modules that this module uses to measure, to draw inputs and to compare, except those that
# torch.compile replaces. An answer must not replace any of them.
_GUARDED: tuple[tuple[Any, str], ...] = (
    (torch, "empty empty_like equal no_grad"),
    (torch.Tensor, "clone contiguous copy_ cpu data detach fill_ numpy reshape set_ untyped_storage view zero_"),
    (torch.cuda, "CUDAGraph Event Stream _sleep current_stream get_device_properties graph stream synchronize"),
    (torch.cuda.Event, "elapsed_time record synchronize"),
    (time, "perf_counter sleep"),
    (statistics, "median quantiles"),
    (secrets, "randbelow"),
    (random, "seed"),
    (np.random, "seed"),
)


def _watched() -> dict[str, object]:
    """Returns the current functions that an answer must not replace, and their code objects, by name."""
    held: dict[str, object] = {}
    for owner in (_timing, _task, sys.modules[__name__], _timing.Time, Task, Operands, Answer):
        held |= {f"{owner.__name__}.{name}": value for name, value in vars(owner).items() if not name.startswith("__")}
    for place, names in _GUARDED:
        held |= {f"{place.__name__}.{name}": getattr(place, name) for name in names.split()}
    return held | {
        f"the code of {name}": function.__code__ for name, function in held.items() if hasattr(function, "__code__")
    }


class Answer:
    """Handles the judge's requests, each of which names a method. `outputs` are the shapes and types of Model's
    outputs."""

    def __init__(self, shared: int) -> None:
        self.replaced: set[str] = set()
        self._originals = _watched()
        self._shared = shared  # descriptor of a file in memory
        self._task: Task
        self._model: Any = None
        self._operands = Operands()
        self._before: list[tuple[torch.Tensor, torch.Tensor]] = []  # the last call's outputs, and copies of them
        self._kept: list[tuple[int, list[torch.Tensor]]] = []  # timed calls: their numbers and outputs

    def load(self, task: str, answer: str, device: str, draw_on: str, seed: int) -> dict[str, Any]:
        self._task = Task(pathlib.Path(task), device, draw_on)
        module = load_module(pathlib.Path(answer))
        if not callable(getattr(module, "ModelNew", None)):
            raise AttributeError("the answer has no class ModelNew")
        self._model = self._task.build(module.ModelNew, seed)
        return {"weights": weight_sums(self._model)}

    def run(self, seed: int, size: str, with_nan: bool, mode: str, outputs: _Forms) -> dict[str, Any]:
        """Calls ModelNew once.

        Modes: "" reuses the memory of the previous call, whose content changes without torch's notice; "moved" uses
        other memory; "filled" makes torch fill allocated memory with NaN; "delayed" delays work on other streams;
        "other stream" runs on a stream that is not the default one."""
        pristine = self._task.draw(seed, size, with_nan)
        operands = self._operands
        operands.make_room(pristine, mode == "moved")
        cuda = self._task.device == "cuda"
        self._poison(outputs)
        with contextlib.ExitStack() as stack:
            if mode == "filled":
                stack.enter_context(_fill_memory())
            if mode == "delayed":
                stack.enter_context(_delay_streams())
            if mode == "other stream":
                stack.enter_context(torch.cuda.stream(torch.cuda.Stream()))
            if cuda:  # inputs are NaN until a delayed copy, which exposes work that does not wait for them
                for tensor in operands.tensors:
                    fill_with_nan(tensor)
                torch.cuda.synchronize()
                torch.cuda._sleep(_DELAY_CYCLES)
            operands.fill(pristine)
            seed_all(seed)
            stack.enter_context(torch.no_grad())
            results = result_tensors(self._model(*operands.values))
            self.look()
            copies = [result.clone() for result in results]  # at once, on the current stream
            if cuda:
                torch.cuda.synchronize()
            else:
                time.sleep(_WATCH_SECONDS)
        reply = {
            "outputs": self._write(copies, outputs),
            "late": any(not same_bits(a, b) for a, b in zip(results, copies, strict=True)),
            "overwritten": any(not same_bits(output, held) for output, held in self._before),
            "changed_inputs": [
                number
                for number, (a, b) in enumerate(zip(operands.values, pristine, strict=True))
                if isinstance(b, torch.Tensor) and not same_bits(a, b)
            ],
        }
        self._before = [pair for pair in zip(results, copies, strict=True) if not self._is_input_view(pair[0])]
        return reply

    def repeat(self, seed: int) -> dict[str, Any]:
        """Returns whether two calls on the same inputs give the same bits."""
        pairs = []
        for _ in range(2):
            inputs = self._task.draw(seed)
            seed_all(seed)
            with torch.no_grad():
                results = self._model(*inputs)
                self.look()
                pairs.append([result.clone() for result in result_tensors(results)])
        return {"same": all(same_bits(a, b) for a, b in zip(*pairs, strict=True))}

    def time(self, seed: int) -> dict[str, Any]:
        """Times calls on the inputs of `seed` and of the seeds after it.

        Keeps the outputs of a few calls, which are chosen at random after each call."""
        self._kept = []
        timed = 0

        def keep_outputs(number: int, result: object) -> None:
            nonlocal timed
            timed += 1
            place = timed - 1 if timed <= KEPT_CALLS else secrets.randbelow(timed)
            if place < KEPT_CALLS:
                self._kept[place : place + 1] = [(number, [tensor.clone() for tensor in result_tensors(result)])]
            self.look()

        measured = _timing.time_cold(self._model, self._task.redrawn(seed, self._operands), keep_outputs)
        return {
            "seconds": measured.seconds,
            "spread": measured.spread,
            "calls": measured.calls,
            "kept": [number for number, _ in self._kept],
        }

    def kept(self, place: int, outputs: _Forms) -> dict[str, Any]:
        """Writes the outputs of a timed call."""
        return {"outputs": self._write(self._kept[place][1], outputs)}

    def capture(self, seed: int) -> dict[str, Any]:
        """Returns whether a call leaves work on streams that are not joined, which a CUDA graph cannot capture."""
        inputs = self._task.draw(seed)
        torch.cuda.synchronize()
        try:
            with torch.no_grad(), torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
                self._model(*inputs)
        except Exception as error:  # correct code may fail to be captured, too
            return {"unjoined": "unjoined" in str(error).lower()}
        return {"unjoined": False}

    def look(self) -> None:
        """Records which functions have been replaced."""
        now, first = _watched(), self._originals
        self.replaced |= {name for name in now.keys() | first.keys() if now.get(name) is not first.get(name)}

    def _is_input_view(self, result: torch.Tensor) -> bool:
        """Returns whether the result is a view of an input, whose memory is overwritten before the next call."""
        where = result.untyped_storage().data_ptr()
        return any(tensor.untyped_storage().data_ptr() == where for tensor in self._operands.tensors)

    def _poison(self, outputs: _Forms) -> None:
        """Fills memory with NaN that the allocator will reuse for outputs and for tensors of the inputs' sizes."""
        device = self._task.device
        poisoned = [torch.empty(shape, dtype=getattr(torch, name), device=device) for shape, name in [*outputs] * 3]
        poisoned += [torch.empty_like(tensor) for tensor in self._operands.tensors]
        for tensor in poisoned:
            fill_with_nan(tensor)

    def _write(self, results: Sequence[torch.Tensor], outputs: _Forms) -> list[dict[str, Any]]:
        """Writes outputs in order to shared memory that the judge reserved, if they have the expected shapes and
        types."""
        descriptions = [
            {
                "shape": list(result.shape),
                "dtype": str(result.dtype).removeprefix("torch."),
                "class": type(result).__name__,
                "device": result.device.type,
            }
            for result in results
        ]
        if [[output["shape"], output["dtype"]] for output in descriptions] == outputs:
            with open(f"/proc/self/fd/{self._shared}", "r+b") as file:
                for result in results:
                    as_bytes(result).cpu().numpy().tofile(file)
        return descriptions


@contextlib.contextmanager
def _fill_memory() -> Iterator[None]:
    """Makes torch.empty return NaN, also in C++."""
    torch.set_deterministic_debug_mode("warn")
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode("default")


@contextlib.contextmanager
def _delay_streams() -> Iterator[None]:
    """Delays work in the context of `with torch.cuda.stream(...)`."""
    enter = torch.cuda.StreamContext.__enter__

    def late(context: Any) -> Any:
        entered = enter(context)
        torch.cuda._sleep(_DELAY_CYCLES)
        return entered

    torch.cuda.StreamContext.__enter__ = late
    try:
        yield
    finally:
        torch.cuda.StreamContext.__enter__ = enter


def serve(requests: TextIO, replies: TextIO, shared: int) -> None:
    """Handles each line as a request and replies with one line, until the input ends."""
    warnings.simplefilter("ignore")
    answer = Answer(shared)
    for line in requests:
        request = json.loads(line)
        try:
            reply = getattr(answer, request.pop("do"))(**request)
            answer.look()
            reply["replaced"] = sorted(answer.replaced)
        except BaseException as error:  # SystemExit, too, is a failure of the answer
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"[:2000]}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def run_child(requests: int, replies: int, log: int, shared: int) -> None:
    """Runs the forked process, which reads requests from one pipe and replies on another. Does not return."""
    try:
        for name in [*os.environ]:
            if not _ENVIRONMENT.fullmatch(name) or _SECRET.search(name):
                del os.environ[name]
        faulthandler.disable()  # inherited from the judge, which learns of a crash from the exit code
        os.setsid()
        for stream in (1, 2):
            os.dup2(log, stream)
        sys.stdout, sys.stderr = (
            open(descriptor, "w", 1, "utf-8", "backslashreplace", closefd=False) for descriptor in (1, 2)
        )
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        torch.set_num_threads(1)  # fork() did not copy the judge's thread pool
        with os.fdopen(requests) as lines, os.fdopen(replies, "w") as answers:
            serve(lines, answers, shared)
    finally:
        os._exit(0)
