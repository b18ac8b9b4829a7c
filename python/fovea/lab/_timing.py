"""Times operators: on GPUs in CUDA graphs, on operands larger than the cache; on the CPU by a clock."""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
import time
from collections.abc import Callable, Sequence

import torch

_WARM_UP = 3
_REPLAYS = (5, 15)  # minimum, and maximum within _SECONDS
_SECONDS = 0.2
_MAX_CALLS = 64  # maximum number of operand sets
# A graph repeats the calls until it takes these seconds, up to this number of calls.
_GRAPH_CALLS, _GRAPH_SECONDS = 16, 2e-3
_CPU_SECONDS = 0.2
# Minimum and maximum number of cold calls, and the limit of their time including the pauses between them.
_MIN_COLD_CALLS, _MAX_COLD_CALLS, _COLD_SECONDS = 5, 100, 10.0
_BUSY_CYCLES = 2_000_000  # about 1 ms on a GPU, longer than Python takes to launch a model's kernels


@dataclasses.dataclass(frozen=True)
class Time:
    """Median seconds per call, and their spread, (third quartile - first quartile) / median."""

    seconds: float
    spread: float
    calls: int = 0  # for time_cold: all calls, including warm-up

    @property
    def us(self) -> float:
        return self.seconds * 1e6

    def ambiguous_with(self, other: Time) -> bool:
        """Returns whether the two times differ by no more than the larger of their spreads."""
        spread = max(self.spread * self.seconds, other.spread * other.seconds)
        return not abs(self.seconds - other.seconds) > spread


def _summary(times: Sequence[float]) -> Time:
    middle = statistics.median(times)
    low, _, high = statistics.quantiles(times, n=4)
    return Time(middle, (high - low) / middle)


def operand_sets(tensors: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Returns the operands and copies of them with the same strides, enough to fill the L2 cache twice."""
    if not tensors[0].is_cuda:
        return [list(tensors)]
    cache = torch.cuda.get_device_properties(tensors[0].device).L2_cache_size
    size = sum(t.numel() * t.element_size() for t in tensors)
    count = min(_MAX_CALLS, max(1, -(-2 * cache // size)))
    return [list(tensors)] + [[t.clone(memory_format=torch.preserve_format) for t in tensors] for _ in range(count - 1)]


def time_call(call: Callable[..., torch.Tensor], sets: Sequence[Sequence[torch.Tensor]]) -> Time:
    """Returns the time of call(*operands), cycling through the sets of operands.

    On a GPU the calls are captured into a CUDA graph, whose replays are timed with events, so that launch
    overhead is small for all peers alike. On the CPU each call is timed by a clock."""
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
        fewest, maximum = _REPLAYS
        replays = min(maximum, max(fewest, int(_SECONDS / warm)))
        times = [_seconds(graph.replay) / len(calls) for _ in range(replays)]
    torch.cuda.current_stream().wait_stream(stream)
    return _summary(times)


def time_cold(
    call: Callable[..., object],
    operands: Callable[[int], Sequence[object]],
    taken: Callable[[int, object], None] = lambda number, result: None,
) -> Time:
    """Returns the time of single calls call(*operands(n)), without a CUDA graph, as foreign code may not be capturable.

    Each call n has its own operands, so that cached results are useless, and `taken` receives each result at once; both
    are excluded from the time. On a GPU, events are recorded around each call, and the L2 cache is overwritten before
    it. The GPU is kept busy while the call is launched, so that the time does not include Python's launch overhead."""
    clock = time.perf_counter  # bound here, in case a call replaces time.perf_counter
    started = clock()
    times: list[float] = []
    with torch.no_grad():
        for number in range(_WARM_UP + _MAX_COLD_CALLS):
            values = operands(number)
            if number == 0:
                on_gpu = any(isinstance(value, torch.Tensor) and value.is_cuda for value in values)
                timed = _event_timer() if on_gpu else _clock_timer(clock)
            if number < _WARM_UP:
                timed(call, values, lambda result: None)
                started = clock()
                continue
            times.append(timed(call, values, functools.partial(taken, number)))
            enough = sum(times) > _SECONDS or clock() - started > _COLD_SECONDS
            if enough and len(times) >= _MIN_COLD_CALLS:
                break
    return dataclasses.replace(_summary(times), calls=number + 1)


_Timer = Callable[[Callable[..., object], Sequence[object], Callable[[object], None]], float]


def _event_timer() -> _Timer:
    cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    flush = torch.empty(2 * cache, dtype=torch.uint8, device="cuda")

    def timed(call: Callable[..., object], operands: Sequence[object], taken: Callable[[object], None]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        torch.cuda._sleep(_BUSY_CYCLES)
        start.record()
        result = call(*operands)
        end.record()
        taken(result)  # before the synchronisation, on the current stream
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3

    return timed


def _clock_timer(clock: Callable[[], float]) -> _Timer:
    def timed(call: Callable[..., object], operands: Sequence[object], taken: Callable[[object], None]) -> float:
        before = clock()
        result = call(*operands)
        seconds = clock() - before
        taken(result)
        return seconds

    return timed


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
    """Returns the calling thread's seconds per call, on operands so small that the GPU keeps up: median of five."""
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        before = time.perf_counter()
        for _ in range(calls):
            call(*operands)
        times.append((time.perf_counter() - before) / calls)
        torch.cuda.synchronize()
    return statistics.median(times)
