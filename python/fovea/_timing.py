"""Times operators: in CUDA graphs over operands that do not stay in the cache; by a clock on the CPU."""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Sequence

import torch

_WARM_UP = 3
_REPLAYS = (5, 15)  # the fewest, and the most when they take less than the seconds below
_SECONDS = 0.2
_MOST_CALLS = 64  # in a graph: one per set of operands, but as many as fill
_GRAPH_CALLS, _GRAPH_SECONDS = 16, 2e-3  # these seconds, up to this number of calls
_CPU_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class Time:
    """Median seconds per call, and the spread: (third quartile - first) / median."""

    seconds: float
    spread: float

    @property
    def us(self) -> float:
        return self.seconds * 1e6


def _summary(times: Sequence[float]) -> Time:
    middle = statistics.median(times)
    low, _, high = statistics.quantiles(times, n=4)
    return Time(middle, (high - low) / middle)


def rotation(tensors: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """As many copies of the operands, with their strides, as fill the L2 cache twice."""
    if not tensors[0].is_cuda:
        return [list(tensors)]
    cache = torch.cuda.get_device_properties(tensors[0].device).L2_cache_size
    size = sum(t.numel() * t.element_size() for t in tensors)
    count = min(_MOST_CALLS, max(1, -(-2 * cache // size)))
    return [list(tensors)] + [[t.clone(memory_format=torch.preserve_format) for t in tensors] for _ in range(count - 1)]


def time_call(call: Callable[..., torch.Tensor], sets: Sequence[Sequence[torch.Tensor]]) -> Time:
    """The time of call(*operands), with each set of operands in turn.

    On a GPU the calls are captured into a CUDA graph, whose replays are timed with events, so that launches
    cost as little as possible for all peers alike. On the CPU a clock is read around each call."""
    if not sets[0][0].is_cuda:
        return _time_on_cpu(call, sets[0])
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            once = _seconds(lambda: call(*sets[0]))
        count = max(len(sets), min(_GRAPH_CALLS, math.ceil(_GRAPH_SECONDS / once)))
        calls = [sets[i % len(sets)] for i in range(count)]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for operands in calls:
                call(*operands)
        for _ in range(_WARM_UP):
            warm = _seconds(graph.replay)
        fewest, most = _REPLAYS
        replays = min(most, max(fewest, int(_SECONDS / warm)))
        times = [_seconds(graph.replay) / len(calls) for _ in range(replays)]
    torch.cuda.current_stream().wait_stream(stream)
    return _summary(times)


def time_cold(call: Callable[..., object], operands: Sequence[object]) -> Time:
    """The time of call(*operands) alone, outside of a CUDA graph, which foreign code may not be able to be in.

    On a GPU events stand around each call, and the L2 cache is written over before it."""
    with torch.no_grad():
        if not any(isinstance(value, torch.Tensor) and value.is_cuda for value in operands):
            return _time_on_cpu(call, operands)
        cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        flush = torch.empty(2 * cache, dtype=torch.uint8, device="cuda")
        for _ in range(_WARM_UP):
            once = _seconds(lambda: call(*operands))
        count = min(100, max(10, int(_SECONDS / once)))
        pairs = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(count)]
        for start, end in pairs:
            flush.zero_()
            start.record()
            call(*operands)
            end.record()
        torch.cuda.synchronize()
        return _summary([start.elapsed_time(end) * 1e-3 for start, end in pairs])


def _seconds(work: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3


def _time_on_cpu(call: Callable[..., object], operands: Sequence[object]) -> Time:
    call(*operands)
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - started < _CPU_SECONDS and len(times) < 200):
        before = time.perf_counter()
        call(*operands)
        times.append(time.perf_counter() - before)
    return _summary(times)


def host_seconds(call: Callable[..., torch.Tensor], operands: Sequence[torch.Tensor], calls: int = 2000) -> float:
    """Seconds of the calling thread per call, on operands so small that the GPU keeps up: median of five."""
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        before = time.perf_counter()
        for _ in range(calls):
            call(*operands)
        times.append((time.perf_counter() - before) / calls)
        torch.cuda.synchronize()
    return statistics.median(times)
