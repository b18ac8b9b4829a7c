"""The process that runs a foreign answer: it draws inputs, calls ModelNew and writes what came out to files.

It is forked before the judge touches a GPU or computes anything, so an answer finds no reference in its memory, and
its crash, its sticky CUDA error or its endless loop end nothing but itself. It is no sandbox."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import pathlib
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import torch

from fovea import _timing
from fovea._task import Task, as_bytes, load_module, same_bits, seed_all, tensors_of, weights_of

#: How long a delayed stream stands still, and how long an output is watched after its call.
_DELAY_CYCLES, _WATCH_SECONDS = 20_000_000, 0.01

# What measures and compares here: an answer that replaces one of these measures itself.
_WATCHED: tuple[tuple[Any, str], ...] = (
    (torch.cuda.Event, "record"),
    (torch.cuda.Event, "elapsed_time"),
    (torch.cuda.Event, "synchronize"),
    (torch.cuda, "synchronize"),
    (torch.cuda, "Event"),
    (torch.Tensor, "clone"),
    (torch.Tensor, "copy_"),
    (torch.Tensor, "cpu"),
    (torch, "equal"),
    (time, "perf_counter"),
    (_timing, "time_cold"),
)
_ORIGINALS = [getattr(place, name) for place, name in _WATCHED]


class Answer:
    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._task: Task
        self._model: Any = None
        self._buffers: list[Any] = []
        self._before: list[tuple[torch.Tensor, torch.Tensor]] = []  # the last call's outputs, and what they held

    def load(self, task: str, answer: str, device: str, draw_on: str, seed: int) -> dict[str, Any]:
        self._task = Task(pathlib.Path(task), device, draw_on)
        module = load_module(pathlib.Path(answer))
        if not callable(getattr(module, "ModelNew", None)):
            raise AttributeError("the answer has no class ModelNew")
        self._model = self._task.build(module.ModelNew, seed)
        return {"weights": weights_of(self._model)}

    def run(
        self, seed: int, size: str, with_nan: bool, mode: str, outputs: list[tuple[list[int], str]]
    ) -> dict[str, Any]:
        """Calls ModelNew once. `outputs` are the shapes and types that Model returns.

        Modes: "" in the buffers of the call before, whose content changes without torch's notice; "moved" in other
        memory; "filled", where torch fills the memory that it hands out with NaN; "delayed", where other streams
        begin late; "other stream", where the current stream is not the default one."""
        pristine = self._task.draw(seed, size, with_nan)
        if mode == "moved" or not self._fit(pristine):
            self._buffers = [_copy(value) for value in pristine]
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
                for buffer in self._tensors():
                    as_bytes(buffer.data).fill_(255)
                torch.cuda.synchronize()
                torch.cuda._sleep(_DELAY_CYCLES)
            for buffer, value in zip(self._buffers, pristine, strict=True):
                if isinstance(value, torch.Tensor):
                    buffer.data.copy_(value)
            seed_all(seed)
            stack.enter_context(torch.no_grad())
            results = tensors_of(self._model(*self._buffers))
            taken = [result.clone() for result in results]  # at once, on the current stream
            if cuda:
                torch.cuda.synchronize()
            else:
                time.sleep(_WATCH_SECONDS)
        reply = {
            "outputs": [self._write(number, result) for number, result in enumerate(taken)],
            "late": any(not same_bits(a, b) for a, b in zip(results, taken, strict=True)),
            "overwritten": any(not same_bits(output, held) for output, held in self._before),
            "changed_inputs": [
                number
                for number, (a, b) in enumerate(zip(self._buffers, pristine, strict=True))
                if isinstance(b, torch.Tensor) and not same_bits(a, b)
            ],
            "replaced": [
                f"{place.__name__}.{name}"
                for (place, name), original in zip(_WATCHED, _ORIGINALS, strict=True)
                if getattr(place, name) is not original
            ],
        }
        self._before = list(zip(results, taken, strict=True))
        return reply

    def repeat(self, seed: int) -> dict[str, Any]:
        """Whether two calls on the same inputs give the same bits."""
        pairs = []
        for _ in range(2):
            inputs = self._task.draw(seed)
            seed_all(seed)
            with torch.no_grad():
                pairs.append([result.clone() for result in tensors_of(self._model(*inputs))])
        return {"same": all(same_bits(a, b) for a, b in zip(*pairs, strict=True))}

    def time(self, seed: int) -> dict[str, Any]:
        measured = _timing.time_cold(self._model, self._task.draw(seed))
        return {"seconds": measured.seconds, "spread": measured.spread}

    def capture(self, seed: int) -> dict[str, Any]:
        """Whether a CUDA graph of a call would miss work: that of streams which nobody waits for."""
        inputs = self._task.draw(seed)
        torch.cuda.synchronize()
        try:
            with torch.no_grad(), torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
                self._model(*inputs)
        except Exception as error:  # much that is right cannot be captured
            return {"unjoined": "unjoined" in str(error).lower()}
        return {"unjoined": False}

    def _tensors(self) -> list[torch.Tensor]:
        return [buffer for buffer in self._buffers if isinstance(buffer, torch.Tensor)]

    def _fit(self, values: Sequence[Any]) -> bool:
        """Whether the buffers can hold these values; those that are no tensors are taken as they are."""
        if len(self._buffers) != len(values):
            return False
        for number, (buffer, value) in enumerate(zip(self._buffers, values, strict=True)):
            if not isinstance(value, torch.Tensor):
                self._buffers[number] = value
            elif (buffer.shape, buffer.dtype, buffer.stride()) != (value.shape, value.dtype, value.stride()):
                return False
        return True

    def _poison(self, outputs: Sequence[tuple[list[int], str]]) -> None:
        """Leaves NaN in the memory that the allocator hands out next for outputs and for tensors like the inputs."""
        device = self._task.device
        kept = [torch.empty(shape, dtype=getattr(torch, name), device=device) for shape, name in [*outputs] * 3]
        kept += [torch.empty_like(buffer) for buffer in self._tensors()]
        for tensor in kept:
            as_bytes(tensor).fill_(255)

    def _write(self, number: int, result: torch.Tensor) -> dict[str, Any]:
        as_bytes(result).cpu().numpy().tofile(self._folder / f"output{number}")
        return {
            "shape": list(result.shape),
            "dtype": str(result.dtype).removeprefix("torch."),
            "class": type(result).__name__,
            "device": result.device.type,
        }


def _copy(value: Any) -> Any:
    return value.clone(memory_format=torch.preserve_format) if isinstance(value, torch.Tensor) else value


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


def serve(requests: TextIO, replies: TextIO, folder: pathlib.Path) -> None:
    """Does what each line asks and answers with one line, until there are no more."""
    warnings.simplefilter("ignore")
    answer = Answer(folder)
    for line in requests:
        request = json.loads(line)
        try:
            reply = getattr(answer, request.pop("do"))(**request)
        except BaseException as error:  # SystemExit, too, is a failure of the answer
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"[:2000]}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def in_child(requests: int, replies: int, folder: pathlib.Path) -> None:
    """The whole life of the forked process, from pipe to pipe. It does not return."""
    try:
        faulthandler.disable()  # of the judge, which has that of a crash from its exit code
        os.setsid()
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        torch.set_num_threads(1)  # the judge's pool of threads is not in this process
        with os.fdopen(requests) as lines, os.fdopen(replies, "w") as answers:
            serve(lines, answers, folder)
    finally:
        os._exit(0)
