"""Compares the result of a foreign kernel with Model's result in float64, and describes the errors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fovea.lab._numerics import DIFFERENCE_LIMIT, FRAMEWORK_FACTOR, judge
from fovea.lab._task import same_bits

SIDE_STREAM = "the output was not ready on the current stream: work of another stream is not joined"
LATE = "the output changed after the call had returned"

#: Ranges of relative errors of float32 results whose operands were rounded to fewer bits: 2^-11 or 2^-8 per product.
_ROUNDED_OPERANDS = ((2.0**-14, 2.0**-10, "tf32 or float16"), (2.0**-10, 2.0**-6, "bfloat16"))
#: Share of values that may round to a neighbouring integer, because sums differ in their last bits.
_TIES = 1e-3


@dataclasses.dataclass
class Compared:
    failures: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    figures: dict[str, float] = dataclasses.field(default_factory=dict)


def can_judge(tensor: torch.Tensor) -> bool:
    return tensor.dtype not in (torch.float64, torch.complex32, torch.complex64, torch.complex128)


def has_finite_values(want: torch.Tensor, peer: torch.Tensor) -> bool:
    """Returns whether any value of Model is finite in both types, so that there is something to compare with."""
    return bool((torch.isfinite(want.double()) & torch.isfinite(peer.double())).any())


def largest(figures: dict[str, float], others: dict[str, float]) -> dict[str, float]:
    """Returns the larger value of each figure, or NaN if either is NaN, unlike max()."""
    return figures | {name: float(np.maximum(value, figures.get(name, value))) for name, value in others.items()}


def is_cached(got: torch.Tensor, peer: torch.Tensor, last: torch.Tensor, last_peer: torch.Tensor) -> bool:
    """Returns whether the result repeats the last one although Model's differs; results of all zeros do not count."""
    return same_bits(got, last) and not same_bits(peer, last_peer) and bool((got.float() != 0).any())


def form_errors(descriptions: Sequence[dict[str, Any]], peer: Sequence[torch.Tensor], device: str) -> list[str]:
    """Returns errors in the number, types and shapes of outputs."""
    if len(descriptions) != len(peer):
        return [f"it returned {len(descriptions)} tensors, expected {len(peer)}"]
    failures = []
    for output, tensor in zip(descriptions, peer, strict=True):
        kind = str(tensor.dtype).removeprefix("torch.")
        if output["class"] not in ("Tensor", "Parameter"):
            failures.append(f"it returned a {output['class']}, which may compute later; expected a torch.Tensor")
        if output["shape"] != list(tensor.shape) or output["dtype"] != kind or output["device"] != device:
            failures.append(
                f"it returned {output['dtype']} {output['shape']} on {output['device']}; "
                f"expected {kind} {list(tensor.shape)} on {device}"
            )
    return failures


def compare(got: torch.Tensor, want: torch.Tensor, peer: torch.Tensor, terms: int, floats: bool = True) -> Compared:
    """Compares a result with Model's. `want` is in float64, `peer` in Model's own types, `terms` is the length of its
    longest sums, and `floats` says whether floats are involved, as results of integers alone are exact.

    The gate is that of fovea.lab.accept (_numerics.judge). Models differ in how much they amplify rounding errors, so
    the limit of the normalised difference grows with Model's own error, and with that of another order of summation."""
    if not peer.is_floating_point():
        if not floats and torch.equal(peer, want.to(peer.dtype)):
            return _compare_exact(got, peer)
        return _compare_integers(got, want, peer)
    compared = Compared()
    x, y, z = (tensor.reshape(-1, tensor.shape[-1] if tensor.ndim else 1) for tensor in (got, want.double(), peer))
    if x.numel() == 0:
        return compared
    is_finite = torch.isfinite(y) & torch.isfinite(z.float())
    if not bool(is_finite.all()):
        _compare_infinite(compared, x, y, z, is_finite)
        x, y, z = (torch.where(is_finite, tensor.to(wide), 0).to(tensor.dtype) for tensor, wide in
                   ((x, torch.float32), (y, torch.float64), (z, torch.float32)))  # fmt: skip
    framework = judge(z, y, z, terms, math.inf)
    reordered = (FRAMEWORK_FACTOR * 2.0**-24) ** 2 * terms
    limit = max(DIFFERENCE_LIMIT.get(peer.dtype, 0.0), FRAMEWORK_FACTOR**2 * max(framework.tile_difference, reordered))
    verdict = judge(x, y, z, terms, limit)
    compared.figures = {
        name: getattr(verdict, name)
        for name in ("error", "framework_error", "worst", "framework_worst", "difference", "tile_difference")
    }
    if verdict.failures:
        compared.failures += [_describe_errors(x, y, z, verdict.failures)]
    return compared


def _compare_infinite(
    compared: Compared, got: torch.Tensor, want: torch.Tensor, peer: torch.Tensor, is_finite: torch.Tensor
) -> None:
    """Compares the values that are NaN or infinite in Model's result."""
    lost = int((~is_finite & torch.isnan(want) & torch.isfinite(got.float())).sum())
    if lost:
        compared.notes.append(f"{lost} values are finite, but NaN in Model's result: a maximum may drop NaN")
    infinite = torch.isinf(want) & torch.isinf(peer.float())
    if bool((infinite & (got.double() != want)).any()):
        compared.failures.append("values are not infinite, or not of the same sign, where Model's are infinite")


def _compare_exact(got: torch.Tensor, peer: torch.Tensor) -> Compared:
    count = int((got != peer).sum())
    return Compared([f"{count} of {peer.numel()} integers are wrong, although no floats are involved"] if count else [])


def _compare_integers(got: torch.Tensor, want: torch.Tensor, peer: torch.Tensor) -> Compared:
    """Compares integers that were rounded from floats, where a value halfway between two may round either way."""
    error, framework_error = ((tensor.double() - want.double()).abs() for tensor in (got, peer))
    if error.numel() == 0:
        return Compared()
    share, own_share = ((tensor != 0).double().mean().item() for tensor in (error, framework_error))
    limit = max(framework_error.max().item(), 1.0 if got.dtype != torch.bool else 0.0)
    compared = Compared(figures={"worst": error.max().item(), "framework_worst": framework_error.max().item()})
    if not error.max().item() <= limit:
        compared.failures.append(f"an integer is off by {error.max().item():g}, the limit is {limit:g}")
    if not share <= max(FRAMEWORK_FACTOR * own_share, _TIES):
        compared.failures.append(f"{share:.2%} of the integers differ; {own_share:.2%} of Model's own do")
    return compared


def _describe_errors(got: torch.Tensor, want: torch.Tensor, peer: torch.Tensor, failures: Sequence[str]) -> str:
    """Describes the pattern of the errors: which values are wrong, and a likely cause."""
    error, framework_error = (got.double() - want).abs(), (peer.double() - want).abs()
    wrong = ~(error <= 16 * torch.clamp(torch.finfo(peer.dtype).eps * want.abs(), min=framework_error.max().item()))
    count = int(wrong.sum())
    relative = (error.square().sum() / want.square().sum()).sqrt().item()
    for smallest, greatest, name in _ROUNDED_OPERANDS:
        if peer.dtype == torch.float32 and smallest <= relative < greatest and count > 0.2 * wrong.numel():
            return f"its error of {relative:.1e} is that of {name} operands; Model computes in float32 ({failures[0]})"
    if count == 0:
        return "; ".join(failures)
    rows, columns = torch.nonzero(wrong.any(1)).reshape(-1), torch.nonzero(wrong.any(0)).reshape(-1)
    where = (
        f"{count} of {wrong.numel()} values are wrong, in rows {int(rows[0])} to {int(rows[-1])} of {wrong.shape[0]} "
        f"and columns {int(columns[0])} to {int(columns[-1])} of {wrong.shape[1]}"
    )
    values = got.float()[wrong]
    nans, zeros = int(torch.isnan(values).sum()), int((values == 0).sum())
    if nans:
        where += f"; {nans} are NaN, as in memory that was never written, or as a result of infinities"
    if zeros > count // 2:
        where += f"; {zeros} are zero"
    return f"{where} ({failures[0]})"
