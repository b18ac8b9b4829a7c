"""The process that runs a foreign answer: it draws inputs, calls ModelNew and writes what came out to shared memory.

It is forked before the judge touches a GPU or computes anything, so an answer finds no reference in its memory, and
its crash, its sticky CUDA error or its endless loop end nothing but itself. It is no sandbox."""

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
    same_bits,
    seed_all,
    tensors_of,
    weights_of,
)

#: What an answer sees of the environment: what finds compilers and devices and says where caches are. Tokens, keys and
#: the rest are none of its business.
_ENVIRONMENT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TERM|TZ|PWD|TMPDIR|TEMP|TMP|LANG|LC_\w+|CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS|CPATH|"
    r"LIBRARY_PATH|LD_LIBRARY_PATH|LD_PRELOAD|CPLUS_INCLUDE_PATH|C_INCLUDE_PATH|MAX_JOBS|VIRTUAL_ENV|CONDA_PREFIX|"
    r"XDG_CACHE_HOME|(PYTHON|CUDA|CUDNN|CUTLASS|NVIDIA|NVCC|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|OMP|MKL|KMP|OPENBLAS|"
    r"GOMP|CCACHE|FOVEA|ASAN|UBSAN)_\w+|PYTHONPATH|PYTHONHOME"
)
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)

#: Of the timed calls: those whose outputs are compared.
KEPT = 3
#: How long a delayed stream stands still, and how long an output is watched after its call.
_DELAY_CYCLES, _WATCH_SECONDS = 20_000_000, 0.01

_Forms = list[list[Any]]  # of outputs: [shape, type]

# Functions of other modules that measure, draw and compare here, except those that torch.compile itself replaces.
_WATCHED: tuple[tuple[Any, str], ...] = (
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
    """What measures, draws and compares, by its name: an answer that replaces one of these measures itself."""
    held: dict[str, object] = {}
    for owner in (_timing, _task, sys.modules[__name__], _timing.Time, Task, Operands, Answer):
        held |= {f"{owner.__name__}.{name}": value for name, value in vars(owner).items() if not name.startswith("__")}
    for place, names in _WATCHED:
        held |= {f"{place.__name__}.{name}": getattr(place, name) for name in names.split()}
    return held | {
        f"the code of {name}": function.__code__ for name, function in held.items() if hasattr(function, "__code__")
    }


class Answer:
    """What the judge asks for, by the names of the methods. `outputs` are the shapes and types that Model returns."""

    def __init__(self, shared: int) -> None:
        self.replaced: set[str] = set()
        self._originals = _watched()
        self._shared = shared  # a file in memory
        self._task: Task
        self._model: Any = None
        self._operands = Operands()
        self._before: list[tuple[torch.Tensor, torch.Tensor]] = []  # the last call's outputs, and what they held
        self._kept: list[tuple[int, list[torch.Tensor]]] = []  # of timed calls: their number, and what came out

    def load(self, task: str, answer: str, device: str, draw_on: str, seed: int) -> dict[str, Any]:
        self._task = Task(pathlib.Path(task), device, draw_on)
        module = load_module(pathlib.Path(answer))
        if not callable(getattr(module, "ModelNew", None)):
            raise AttributeError("the answer has no class ModelNew")
        self._model = self._task.build(module.ModelNew, seed)
        return {"weights": weights_of(self._model)}

    def run(self, seed: int, size: str, with_nan: bool, mode: str, outputs: _Forms) -> dict[str, Any]:
        """Calls ModelNew once.

        Modes: "" in the memory of the call before, whose content changes without torch's notice; "moved" in other
        memory; "filled", where torch fills the memory that it hands out with NaN; "delayed", where other streams
        begin late; "other stream", where the current stream is not the default one."""
        pristine = self._task.draw(seed, size, with_nan)
        operands = self._operands
        operands.make_room(pristine, mode == "moved")
        cuda = self._task.device == "cuda"
        self._poison(outputs)
        with contextlib.ExitStack() as stack:
            if mode == "filled":
                stack.enter_context(_memory_filled())
            if mode == "delayed":
                stack.enter_context(_streams_delayed())
            if mode == "other stream":
                stack.enter_context(torch.cuda.stream(torch.cuda.Stream()))
            if cuda:  # inputs that are there late, and NaN before: work that waits for nothing shows
                for tensor in operands.tensors:
                    fill_with_nan(tensor)
                torch.cuda.synchronize()
                torch.cuda._sleep(_DELAY_CYCLES)
            operands.fill(pristine)
            seed_all(seed)
            stack.enter_context(torch.no_grad())
            results = tensors_of(self._model(*operands.values))
            self.look()
            taken = [result.clone() for result in results]  # at once, on the current stream
            if cuda:
                torch.cuda.synchronize()
            else:
                time.sleep(_WATCH_SECONDS)
        reply = {
            "outputs": self._write(taken, outputs),
            "late": any(not same_bits(a, b) for a, b in zip(results, taken, strict=True)),
            "overwritten": any(not same_bits(output, held) for output, held in self._before),
            "changed_inputs": [
                number
                for number, (a, b) in enumerate(zip(operands.values, pristine, strict=True))
                if isinstance(b, torch.Tensor) and not same_bits(a, b)
            ],
        }
        self._before = [pair for pair in zip(results, taken, strict=True) if not self._is_of_an_input(pair[0])]
        return reply

    def repeat(self, seed: int) -> dict[str, Any]:
        """Whether two calls on the same inputs give the same bits."""
        pairs = []
        for _ in range(2):
            inputs = self._task.draw(seed)
            seed_all(seed)
            with torch.no_grad():
                results = self._model(*inputs)
                self.look()
                pairs.append([result.clone() for result in tensors_of(results)])
        return {"same": all(same_bits(a, b) for a, b in zip(*pairs, strict=True))}

    def time(self, seed: int) -> dict[str, Any]:
        """The seconds of calls on the inputs of `seed` and those after it.

        It keeps what a few of them returned; which ones, chance says after each call."""
        self._kept = []
        timed = 0

        def taken(number: int, result: object) -> None:
            nonlocal timed
            timed += 1
            place = timed - 1 if timed <= KEPT else secrets.randbelow(timed)
            if place < KEPT:
                self._kept[place : place + 1] = [(number, [tensor.clone() for tensor in tensors_of(result)])]
            self.look()

        measured = _timing.time_cold(self._model, self._task.redrawn(seed, self._operands), taken)
        return {
            "seconds": measured.seconds,
            "spread": measured.spread,
            "calls": measured.calls,
            "kept": [number for number, _ in self._kept],
        }

    def kept(self, place: int, outputs: _Forms) -> dict[str, Any]:
        """What a timed call returned."""
        return {"outputs": self._write(self._kept[place][1], outputs)}

    def capture(self, seed: int) -> dict[str, Any]:
        """Whether a CUDA graph of a call would miss work: that of streams which are not waited for."""
        inputs = self._task.draw(seed)
        torch.cuda.synchronize()
        try:
            with torch.no_grad(), torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
                self._model(*inputs)
        except Exception as error:  # much that is right cannot be captured
            return {"unjoined": "unjoined" in str(error).lower()}
        return {"unjoined": False}

    def look(self) -> None:
        """Notes what has been replaced."""
        now, first = _watched(), self._originals
        self.replaced |= {name for name in now.keys() | first.keys() if now.get(name) is not first.get(name)}

    def _is_of_an_input(self, result: torch.Tensor) -> bool:
        """A view of one: the judge itself writes its memory before the next call."""
        where = result.untyped_storage().data_ptr()
        return any(tensor.untyped_storage().data_ptr() == where for tensor in self._operands.tensors)

    def _poison(self, outputs: _Forms) -> None:
        """Leaves NaN in the memory that the allocator hands out next for outputs and for tensors like the inputs."""
        device = self._task.device
        kept = [torch.empty(shape, dtype=getattr(torch, name), device=device) for shape, name in [*outputs] * 3]
        kept += [torch.empty_like(tensor) for tensor in self._operands.tensors]
        for tensor in kept:
            fill_with_nan(tensor)

    def _write(self, results: Sequence[torch.Tensor], outputs: _Forms) -> list[dict[str, Any]]:
        """Outputs, one after the other, where they are what was asked for: the judge has made room for these."""
        made = [
            {
                "shape": list(result.shape),
                "dtype": str(result.dtype).removeprefix("torch."),
                "class": type(result).__name__,
                "device": result.device.type,
            }
            for result in results
        ]
        if [[output["shape"], output["dtype"]] for output in made] == outputs:
            with open(f"/proc/self/fd/{self._shared}", "r+b") as file:
                for result in results:
                    as_bytes(result).cpu().numpy().tofile(file)
        return made


@contextlib.contextmanager
def _memory_filled() -> Iterator[None]:
    """torch.empty, in C++ too, gives NaN."""
    torch.set_deterministic_debug_mode("warn")
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode("default")


@contextlib.contextmanager
def _streams_delayed() -> Iterator[None]:
    """What a stream is asked to do after `with torch.cuda.stream(...)` begins late."""
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
    """Does what each line asks and answers with one line, until there are no more."""
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


def in_child(requests: int, replies: int, log: int, shared: int) -> None:
    """The whole life of the forked process, from pipe to pipe. It does not return."""
    try:
        for name in [*os.environ]:
            if not _ENVIRONMENT.fullmatch(name) or _SECRET.search(name):
                del os.environ[name]
        faulthandler.disable()  # of the judge, which has that of a crash from its exit code
        os.setsid()
        for stream in (1, 2):
            os.dup2(log, stream)
        sys.stdout, sys.stderr = (
            open(descriptor, "w", 1, "utf-8", "backslashreplace", closefd=False) for descriptor in (1, 2)
        )
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        torch.set_num_threads(1)  # the judge's pool of threads is not in this process
        with os.fdopen(requests) as lines, os.fdopen(replies, "w") as answers:
            serve(lines, answers, shared)
    finally:
        os._exit(0)
