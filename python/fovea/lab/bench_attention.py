"""python -m fovea.lab.bench_attention: times every level of Fovea's attention and every backend of torch.

It times CUDA graphs over operands larger than the cache, and checks each result first. It prints a table in
microseconds; --json writes all figures in machine-readable form. On a machine without CUDA it compares the
CPU operator with that of torch, on the smallest problems.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import fovea
import fovea.ops
from fovea import _kernels
from fovea.lab import _document, _timing
from fovea.lab._numerics import attention_reference, judge

#: Computes attention of q, k and v.
Call = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
#: A problem: batch, heads, length, head dimension, causal.
Problem = tuple[int, int, int, int, bool]
PROBLEMS: list[Problem] = [
    (1, 8, 512, 64, False),
    (2, 8, 512, 64, False),
    (2, 8, 512, 64, True),
    (2, 8, 128, 64, False),
    (2, 8, 256, 64, False),
    (16, 12, 196, 64, False),
    (1024, 12, 196, 64, False),
    (256, 12, 256, 64, False),
    (8, 8, 512, 64, False),
    (2, 8, 1024, 64, False),
    (2, 8, 2048, 64, False),
    (2, 8, 2048, 64, True),
    (2, 8, 2048, 128, False),
    (4, 16, 4096, 128, False),
    (4, 16, 4096, 128, True),
]
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
_CPU_LENGTH = 512  # maximum length on the CPU
_CHECKED_SEQUENCES = 4  # sequences per batch that are compared with float64


def describe(problem: Problem) -> str:
    return f"({', '.join(map(str, problem[:4]))}){' causal' if problem[4] else ''}"


def fovea_call(level: str, causal: bool) -> Call:
    number = fovea.ops.IMPLEMENTATIONS.index(level)
    return lambda q, k, v: torch.ops.fovea.attention(q, k, v, causal, None, number)


def torch_call(backend: SDPBackend, causal: bool) -> Call:
    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return call


def make_checker(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Callable[[Call], str]:
    """Returns a function that describes why the result of a call is wrong, or returns "" when it is right."""
    few_q, few_k, few_v = (t[:_CHECKED_SEQUENCES] for t in (q, k, v))
    want = attention_reference(few_q, few_k, few_v, causal)
    peer = F.scaled_dot_product_attention(few_q, few_k, few_v, is_causal=causal)

    def check(call: Call) -> str:
        return "; ".join(judge(call(q, k, v)[:_CHECKED_SEQUENCES], want, peer).failures)

    return check


def time_entry(
    call: Call, check: Callable[[Call], str], sets: list[list[torch.Tensor]], flops: float
) -> dict[str, Any]:
    """Returns the figures of a call, or the reason why its result is wrong."""
    if wrong := check(call):
        return {"failed": wrong}
    took = _timing.time_call(call, sets)
    tflops = flops / took.seconds / 1e12
    return {"us": round(took.us, 2), "spread": round(took.spread, 3), "tflops": round(tflops, 1)}


def measure(problem: Problem, dtype: torch.dtype, device: str) -> dict[str, Any]:
    """Returns the times of all kernels that support the problem, and the reasons why the others do not."""
    batch, heads, length, dim, causal = problem
    torch.manual_seed(0)
    q, k, v = torch.randn(3, batch, heads, length, dim, device=device, dtype=dtype)
    sets = _timing.operand_sets([q, k, v])
    row: dict[str, Any] = {
        "problem": list(problem),
        "dtype": str(dtype).removeprefix("torch."),
        "fovea": {},
        "torch": {},
    }
    flops = 4 * batch * heads * length * length * dim * (0.5 if causal else 1.0)
    check = make_checker(q, k, v, causal)
    if device == "cpu":
        row["fovea"]["cpu"] = time_entry(fovea_call("auto", causal), check, sets, flops)
        row["torch"]["cpu"] = time_entry(torch_call(SDPBackend.FLASH_ATTENTION, causal), check, sets, flops)
        return row
    row["chosen"] = _kernels.choose(q, k, causal).level
    for level in fovea.ops.IMPLEMENTATIONS[1:]:
        try:
            _kernels.choose(q, k, causal, level)
        except fovea.Error as error:
            row["fovea"][level] = {"left_out": str(error)}
            continue
        row["fovea"][level] = time_entry(fovea_call(level, causal), check, sets, flops)
    for name, backend in BACKENDS.items():
        try:
            row["torch"][name] = time_entry(torch_call(backend, causal), check, sets, flops)
        except RuntimeError as error:  # this backend does not support the problem, or lacks the memory
            torch.cuda.empty_cache()
            row["torch"][name] = {"left_out": str(error).splitlines()[0]}
    return row


def best(times: dict[str, Any]) -> tuple[str, float]:
    """Returns the name and the microseconds of the fastest kernel."""
    timed = {name: entry["us"] for name, entry in times.items() if "us" in entry}
    name = min(timed, key=lambda name: timed[name], default="none")
    return name, timed.get(name, float("nan"))


def print_table(rows: list[dict[str, Any]]) -> None:
    sides = {side: sorted({name for row in rows for name in row[side]}) for side in ("fovea", "torch")}
    names = [(side, name) for side, side_names in sides.items() for name in side_names]
    print(f"{'us':32}" + "".join(f"{name:>11}" for _, name in names) + "   best of ours / of torch's")
    for row in rows:
        cells = []
        for side, name in names:
            entry = row[side].get(name, {})
            cells.append(f"{entry['us']:.1f}" if "us" in entry else "WRONG" if "failed" in entry else "-")
        (our_name, our_us), (their_name, their_us) = best(row["fovea"]), best(row["torch"])
        text = f"{describe(row['problem'])} {row['dtype']}"
        print(
            f"{text:32}"
            + "".join(f"{cell:>11}" for cell in cells)
            + f"   {our_name} {their_us / our_us:.2f}x of {their_name}"
        )


def host_overhead(device: str) -> dict[str, float]:
    """Returns the calling thread's microseconds per call, on a problem that hardly occupies the GPU."""
    q, k, v = torch.randn(3, 1, 1, 16, 64, device=device, dtype=torch.float16)
    calls: dict[str, Call] = {
        "torch.ops.fovea.attention": lambda q, k, v: torch.ops.fovea.attention(q, k, v),
        "fovea.ops.attention": lambda q, k, v: fovea.ops.attention(q, k, v),
        "scaled_dot_product_attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    }
    return {name: round(_timing.host_seconds(call, (q, k, v)) * 1e6, 2) for name, call in calls.items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fovea.lab.bench_attention", description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=["float16", "bfloat16"], default="float16")
    _document.add_options(parser, "also write all figures to FILE; - means standard output")
    options = parser.parse_args(arguments)
    _document.check(parser, options.json, options.overwrite)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = getattr(torch, options.dtype)
    report: dict[str, Any] = {
        "fovea": fovea.__version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else "CPU",
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if device == "cuda" else None,
        "rows": [],
    }
    with torch.inference_mode():
        for problem in PROBLEMS:
            if device == "cuda" or (problem[2] <= _CPU_LENGTH and problem[0] <= 16):
                report["rows"].append(measure(problem, dtype, device))
        if device == "cuda":
            report["host_us"] = host_overhead(device)
    if options.json == "-":
        _document.write("-", "bench_attention", report)
    else:
        print(f"fovea {fovea.__version__}, torch {torch.__version__}, {report['device']}")
        print_table(report["rows"])
        for name, us in report.get("host_us", {}).items():
            print(f"host: {us:.1f} us per call of {name}")
        if options.json:
            _document.write(options.json, "bench_attention", report)
    return 1 if any("failed" in entry for row in report["rows"] for entry in row["fovea"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
