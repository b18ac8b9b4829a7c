"""python -m fovea.lab.accept: checks Fovea's attention on this machine.

It checks the kernels' resources as the compiler reported them, compares every level that the device supports with
torch on a list of cases, each with inputs of five seeds, and prints a line per case: time, torch's time, speed-up, and
the largest absolute and relative differences from torch in float32 (and those of torch in the type of the case). Before
that, the comparison itself must reject results that are wrong in known ways. --least-speedup and --most-us set limits
for the times of the headline cases, at the default level or at --level.
The exit code is 0 when everything passed, 1 when something failed, and 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

import fovea
import fovea.ops
from fovea import _kernels
from fovea.lab import _compare, _document, _timing
from fovea.lab._numerics import attention_reference, judge, unit_in_last_place

#: Largest difference from torch in float32 on unit-variance inputs in float16, where float16 itself allows it: see
#: difference_limit().
MAX_DIFF = 1e-3

#: Patterns of attention's kernel names, with their level and their limits of registers per thread and of shared memory
#: per block in bytes. The first pattern that matches applies, and spills are not allowed. The register limits are those
#: of the kernels' cards, which are checked here for the installed library.
DESIGNS = (
    (r"attention_scalar_", "scalar", 72, 96 << 10),
    (r"attention_mma_small_", "wmma", 128, 96 << 10),
    (r"attention_mma_", "mma", 255, 227 << 10),
    (r"attention_(single_pass|online)_", "wgmma", 168, 227 << 10),
)

_CPU = "cpu"


@dataclasses.dataclass(frozen=True)
class Case:
    """One problem. `prepare` alters q, k and v; `headline` cases must also be within difference_limit()."""

    batch: int
    heads: int
    queries: int
    head_dim: int
    causal: bool = False
    keys: int = 0  # 0: equal to queries
    kv_heads: int = 0  # 0: equal to heads
    dtype: torch.dtype = torch.float16
    note: str = ""
    prepare: Callable[..., list[torch.Tensor]] | None = None
    headline: bool = False

    def __str__(self) -> str:
        sizes = f"({self.batch}, {self.heads}, {self.queries}, {self.head_dim})"
        parts = [sizes, str(self.dtype).removeprefix("torch.")]
        if self.keys:
            parts.append(f"{self.keys} keys")
        if self.kv_heads:
            parts.append(f"{self.kv_heads} kv heads")
        if self.causal:
            parts.append("causal")
        if self.note:
            parts.append(self.note)
        return " ".join(parts)

    def operands(self, device: str, seed: int = 1) -> list[torch.Tensor]:
        sizes = (self.batch, self.heads, self.queries, self.head_dim)
        generator = torch.Generator().manual_seed(hash((seed, *sizes)))
        shapes = [(self.heads, self.queries)] + 2 * [(self.kv_heads or self.heads, self.keys or self.queries)]
        tensors = [torch.randn(self.batch, h, n, self.head_dim, generator=generator) for h, n in shapes]
        if self.prepare is not None:
            tensors = self.prepare(*tensors)
        return [t.to(device, self.dtype) for t in tensors]


def _large_logits(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
    return [q * 6, k * 2, v]


def _equal_rows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
    return [q, k[:, :, :1].expand_as(k), v]


def _opposite_first_key(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
    """Makes the score of the first key, the only one that the first row sees, far lower than those of masked keys."""
    k = k.clone()
    k[:, :, 1:] = q[:, :, :1] * 4
    k[:, :, 0] = -q[:, :, 0] * 4
    return [q, k, v]


def cases() -> Iterator[Case]:
    for sizes, causal in (
        ((1, 8, 512, 64), False),
        ((1, 8, 512, 64), True),
        ((2, 8, 2048, 64), False),
        ((2, 8, 2048, 64), True),
        ((2, 8, 2048, 128), False),
    ):
        yield Case(*sizes, causal, headline=True)
    for length in (1, 17, 196, 577, 729):
        for dim in (72, 96):
            yield Case(2, 6, length, dim)
            yield Case(2, 6, length, dim, causal=True, dtype=torch.bfloat16)
    for dtype in (torch.float16, torch.bfloat16):
        yield Case(2, 8, 512, 64, dtype=dtype, note="large logits", prepare=_large_logits)
        yield Case(2, 8, 512, 64, causal=True, dtype=dtype, note="large logits", prepare=_large_logits)
        yield Case(2, 8, 512, 64, dtype=dtype, note="all keys equal", prepare=_equal_rows)
        yield Case(2, 8, 512, 64, causal=True, dtype=dtype, note="first rows", prepare=_opposite_first_key)
    yield Case(2, 8, 300, 64, kv_heads=2)
    yield Case(2, 8, 100, 64, keys=333)
    yield Case(2, 8, 333, 64, causal=True, keys=100)
    yield Case(2, 8, 100, 32, causal=True, keys=333)


def torch_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)


def kernel_design(kernel: str) -> tuple[str, int, int]:
    """Returns the level and the limits of registers and shared memory for the kernel of this name."""
    for name, level, registers, shared_bytes in DESIGNS:
        if re.match(name, kernel):
            return level, registers, shared_bytes
    raise ValueError(f"{kernel} has no design known to this version of fovea.lab.accept")


class Report:
    """Prints lines, and keeps them for --json."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.left_out: list[dict[str, str]] = []

    @property
    def total(self) -> int:
        return len(self.lines)

    @property
    def passed(self) -> int:
        return sum(not line["failures"] for line in self.lines)

    def line(self, what: str, failures: list[str], figures: str = "", **facts: object) -> None:
        """Adds one gate or case; `facts` are the numbers of `figures` in machine-readable form."""
        self.lines.append({"what": " ".join(what.split()), "failures": failures, **facts})
        text = f"{what} {figures}".rstrip()
        print(f"{text}  {'passed' if not failures else 'FAILED: ' + '; '.join(failures)}", flush=True)


def accept_resources(report: Report) -> None:
    """Checks every attention kernel in the library, for every architecture."""
    kernels: dict[tuple[str, int], list[_kernels.Kernel]] = {}
    for kernel in _kernels.kernels():
        if kernel.name.startswith("attention_"):
            level = kernel_design(kernel.name)[0]
            kernels.setdefault((level, kernel.arch), []).append(kernel)
    if not kernels:
        print("resources: this library was built without GPU kernels, so there are none to check")
    for (level, arch), group in sorted(kernels.items()):
        registers = max(kernel.registers for kernel in group)
        failures = [
            f"{k.name} spills {k.spill_bytes} bytes and has {k.stack_bytes} bytes of stack"
            for k in group
            if k.spill_bytes or k.stack_bytes
        ]
        failures += [
            f"{k.name} uses {k.registers} registers, the limit is {kernel_design(k.name)[1]}"
            for k in group
            if k.registers > kernel_design(k.name)[1]
        ]
        report.line(
            f"resources {level:6} sm_{arch}: {len(group)} kernels, at most {registers} registers, no spills as built",
            failures,
        )


def supported_levels(device: str) -> list[str]:
    """Returns the levels that a GPU of this architecture should support."""
    if device == _CPU:
        return [_CPU]
    capability = torch.cuda.get_device_capability()
    if capability < (8, 0):
        raise SystemExit(f"attention needs compute capability 8.0 or later; this GPU has {capability}")
    return ["scalar", "wmma", "mma"] + (["wgmma"] if capability == (9, 0) else [])


def level_operator(level: str) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor, bool], torch.Tensor]:
    if level == _CPU:
        return lambda q, k, v, causal: torch.ops.fovea.attention(q, k, v, causal)
    number = fovea.ops.IMPLEMENTATIONS.index(level)
    return lambda q, k, v, causal: torch.ops.fovea.attention(q, k, v, causal, None, number)


@dataclasses.dataclass
class Limits:
    """Requirements for headline cases at `level`, or, if that is None, at the default level of the case."""

    least_speedup: float = 0.0
    most_us: dict[str, float] = dataclasses.field(default_factory=dict)  # by case, "" for all others
    level: str | None = None

    def failures(self, case: Case, us: float, torch_us: float) -> list[str]:
        limit = self.most_us.get(str(case), self.most_us.get("", float("inf")))
        failures = []
        if not torch_us / us >= self.least_speedup:
            failures.append(f"{torch_us / us:.2f}x of torch, --least-speedup is {self.least_speedup:.2f}x")
        if not us <= limit:
            failures.append(f"{us:.2f} us, --most-us is {limit:.2f} us")
        return failures


def most_us(text: str) -> tuple[str, float]:
    """Parses "60", or a case as it is printed and its limit, as in "(1, 8, 512, 64) float16 causal=60"."""
    case, _, limit = text.rpartition("=")
    headlines = [str(case) for case in cases() if case.headline]
    if case and case not in headlines:
        raise argparse.ArgumentTypeError(f"unknown headline case {case!r} (choose from {', '.join(headlines)})")
    try:
        return case, float(limit)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{limit!r} is not a number of microseconds") from None


def is_default_level(q: torch.Tensor, k: torch.Tensor, causal: bool, level: str) -> bool:
    return level == _CPU or _kernels.choose(q, k, causal).level == level


def difference_limit(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, exact: torch.Tensor
) -> torch.Tensor:
    """Returns the largest difference of each element from `exact`, attention in float32: MAX_DIFF, or more where
    rounding alone may exceed it.

    Rounding the result to float16 changes it by up to half a unit in the last place: 0.98e-3 from 2 on, 1.95e-3 from 4
    on. And tensor cores read the probabilities p in float16, with relative rounding errors up to 2^-11, which changes
    the sum over the keys by at most 2^-11 of sum(p |v|), or of sum(p |v - result|) where the divisor is the sum of the
    rounded probabilities; neither is more than 2^-11 of the root of sum(p v^2).
    """
    info = torch.finfo(q.dtype)
    rounded = unit_in_last_place(exact, q.dtype) / 2
    spread = attention_reference(q, k, v.float().square(), causal, dtype=torch.float32).sqrt()
    return (rounded + info.eps / 2 * spread).clamp(min=MAX_DIFF)


def compare(
    case: Case, attend: Callable[..., torch.Tensor], device: str, seed: int
) -> tuple[list[str], dict[str, float]]:
    """Returns the failures of a case on the inputs of one seed, and the largest differences from torch in float32."""
    q, k, v = case.operands(device, seed)
    got = attend(q, k, v, case.causal)
    wide = attention_reference(q, k, v, case.causal, dtype=torch.float32)
    peer = torch_attention(q, k, v, case.causal)
    difference = (got.float() - wide).abs()
    differences = {
        "max_diff": difference.max().item(),
        # Differences are relative to the value, or to the root mean square of all values if that is larger.
        "max_rel": (difference / wide.abs().clamp(min=wide.square().mean().sqrt().item())).max().item(),
        "torch_max_diff": (peer.float() - wide).abs().max().item(),
    }
    failures = list(judge(got, attention_reference(q, k, v, case.causal), peer).failures)
    if case.headline and not bool((difference <= difference_limit(q, k, v, case.causal, wide)).all()):
        failures.append(f"max_diff exceeds {MAX_DIFF:.0e}, and the error of rounding to {str(case.dtype)[6:]}")
    if case.causal and not torch.allclose(got[:, :, 0], v[:, :, 0].repeat_interleave(q.shape[1] // v.shape[1], 1)):
        failures.append("the first row does not equal the first value")
    return [f"{failure} (seed {seed})" for failure in failures], differences


def accept_case(
    report: Report, case: Case, device: str, level: str, seeds: int = 5, limits: Limits | None = None
) -> None:
    q, k, v = case.operands(device)
    attend = level_operator(level)
    name = f"{level:6} {case!s:48}"
    if level != _CPU:
        try:
            choice = _kernels.choose(q, k, case.causal, level)
        except fovea.Error as error:
            # A level may lack support for some sizes, but not for those of headline cases.
            if case.headline:
                report.line(name, [str(error)], level=level)
            else:
                report.left_out.append({"what": " ".join(name.split()), "level": level, "reason": str(error)})
            print(f"{name}  left to the next level: {error}")
            return
        if choice.shared_bytes > kernel_design(choice.kernel)[2]:
            limit = kernel_design(choice.kernel)[2]
            reason = f"{choice.kernel} uses {choice.shared_bytes} bytes of shared memory, the limit is {limit}"
            report.line(name, [reason], level=level)
            return
    failures: list[str] = []
    largest: dict[str, float] = {}
    for seed in range(1, seeds + 1):
        wrong, differences = compare(case, attend, device, seed)
        failures += wrong
        largest = _compare.largest(largest, differences)
    sets = _timing.operand_sets([q, k, v])
    ours = _timing.time_call(lambda q, k, v: attend(q, k, v, case.causal), sets)
    torch_time = _timing.time_call(lambda q, k, v: torch_attention(q, k, v, case.causal), sets)
    if limits and case.headline and (limits.level or is_default_level(q, k, case.causal, level)):
        failures += limits.failures(case, ours.us, torch_time.us)
    report.line(
        name,
        failures,
        f"custom {ours.us:9.1f} us  torch {torch_time.us:9.1f} us  {torch_time.seconds / ours.seconds:5.2f}x"
        f"  max_diff {largest['max_diff']:.2e} (torch {largest['torch_max_diff']:.2e})  max_rel {largest['max_rel']:.2e}",
        level=level,
        us=round(ours.us, 2),
        torch_us=round(torch_time.us, 2),
        headline=case.headline,
        seeds=seeds,
        **largest,
    )


def accept_gate(report: Report, device: str) -> None:
    """Checks that the comparison rejects the results of wrong kernels."""
    case = Case(2, 4, 200, 64, causal=True)
    q, k, v = case.operands(device)
    want = attention_reference(q, k, v, True)
    peer = torch_attention(q, k, v, True)
    right = level_operator(_CPU)(q, k, v, True)
    if not judge(right, want, peer).passed:
        report.line("gate: a right result", judge(right, want, peer).failures)
        return

    def in_blocks(rescaled: bool, block: int = 64) -> torch.Tensor:
        """Computes online softmax over blocks of keys; `rescaled` says whether a new maximum rescales the sums."""
        scores = (q.double() @ k.double().transpose(-2, -1)) * case.head_dim**-0.5
        total, output = torch.zeros(()), torch.zeros(())
        peak = torch.full_like(scores[..., :1], float("-inf"))
        for part, values in zip(scores.split(block, -1), v.double().split(block, -2), strict=True):
            before, peak = peak, torch.maximum(peak, part.amax(-1, keepdim=True))
            keep = torch.exp(before - peak) if rescaled else torch.ones(())
            probabilities = torch.exp(part - peak)
            total = total * keep + probabilities.sum(-1, keepdim=True)
            output = output * keep + probabilities @ values
        return (output / total).to(case.dtype)

    zeroed, poisoned = right.clone(), right.clone()
    zeroed[1, 2, 64:128] = 0
    poisoned[1, 3, 199, 63] = float("nan")
    later = torch.ones(200, 200, dtype=torch.bool, device=device).tril(1)
    early = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), attn_mask=later).half()
    padded_k, padded_v = (
        F.pad(t, (0, 0, 0, 56)) for t in (k, v)
    )  # keys of zeros, as read by a tail that is not masked
    full, full_peer = attention_reference(q, k, v), torch_attention(q, k, v, False)
    for name, wrong, truth, other in (
        ("a tile of zeros", zeroed, want, peer),
        ("one NaN", poisoned, want, peer),
        ("a causal mask off by one", early, want, peer),
        ("a tail predicate left out", attention_reference(q, padded_k, padded_v).half(), full, full_peer),
        ("a rescale left out", in_blocks(rescaled=False), full, full_peer),
    ):
        report.line(f"gate rejects {name}", [] if not judge(wrong, truth, other).passed else ["it was accepted"])
    streamed = judge(in_blocks(rescaled=True), full, full_peer)
    report.line("gate accepts the same with its rescale", streamed.failures)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fovea.lab.accept", description=__doc__.splitlines()[0])
    default_device = "cuda" if torch.cuda.is_available() else _CPU
    parser.add_argument(
        "--device", choices=["cuda", _CPU], default=default_device, help="default on this machine: %(default)s"
    )
    parser.add_argument("--level", choices=fovea.ops.IMPLEMENTATIONS[1:], help="check only this level")
    parser.add_argument(
        "--seeds", type=int, default=5, metavar="N", help="number of seeds per case (default: %(default)s)"
    )
    parser.add_argument(
        "--least-speedup",
        type=float,
        default=0.0,
        metavar="X",
        help="minimum speed-up over torch in headline cases",
    )
    parser.add_argument(
        "--most-us",
        type=most_us,
        action="append",
        default=[],
        metavar="[CASE=]Y",
        help="maximum microseconds of all headline cases, or of CASE, as it is printed; may be repeated",
    )
    _document.add_options(parser, "also write every line with its figures to this file")
    options = parser.parse_args(arguments)
    _document.check(parser, options.json, options.overwrite)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no CUDA device, or was built without CUDA")
    if options.level and options.device == _CPU:
        parser.error("--level needs a GPU")
    if options.seeds < 1:
        parser.error("--seeds must be at least 1")
    limits = Limits(options.least_speedup, dict(options.most_us), options.level)
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"fovea {fovea.__version__}, torch {torch.__version__}, {name}")
    report = Report()
    with torch.inference_mode():
        accept_resources(report)
        accept_gate(report, options.device)
        for level in [options.level] if options.level else supported_levels(options.device):
            for case in cases():
                accept_case(report, case, options.device, level, options.seeds, limits)
    print(f"{report.passed}/{report.total} passed")
    if options.json:
        description = {"fovea": fovea.__version__, "torch": torch.__version__, "device": name}
        _document.write(options.json, "accept", {**description, "lines": report.lines, "left_out": report.left_out})
    return 0 if report.passed == report.total else 1


if __name__ == "__main__":
    sys.exit(main())
