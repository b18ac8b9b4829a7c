"""Decides whether an operator's result is right, for tests and `python -m fovea.lab.accept`.

The criteria and limits are those of src/ops/reference/judge.hpp; tests/ops/contract.json checks that both give the same
figures. Every comparison is written so that NaN fails.
"""

from __future__ import annotations

import dataclasses

import torch

#: Maximum ratio of the error to that of a framework with the same precision.
FRAMEWORK_FACTOR = 2.0
#: Limit of the normalised difference 1 - 2<x,y> / (|x|^2 + |y|^2), over everything and over the worst tile. It allows
#: for rounding of operands, probabilities and the result to the type.
DIFFERENCE_LIMIT = {torch.float32: 2e-12, torch.float16: 5e-7, torch.bfloat16: 1e-5}
#: Rows and columns of a tile of the output.
TILE = 128


def attention_reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    is_causal: bool = False,
    scale: float | None = None,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Computes softmax(scale q k^T) v in `dtype`, by plain operations; arguments as for fovea.ops.attention."""
    group = q.shape[1] // k.shape[1]
    q = q.to(dtype)
    k = k.to(dtype).repeat_interleave(group, dim=1)
    v = v.to(dtype).repeat_interleave(group, dim=1)
    scores = (q @ k.transpose(-2, -1)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, dim=-1) @ v


@dataclasses.dataclass
class Verdict:
    """Result of a comparison; `failures` is empty when it passes."""

    error: float = float("nan")  # |got - want| / |want|
    framework_error: float = float("nan")
    worst: float = float("nan")  # the largest |got - want|
    framework_worst: float = float("nan")
    difference: float = float("nan")
    tile_difference: float = float("nan")
    failures: list[str] = dataclasses.field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.failures


def _tile_sums(values: torch.Tensor) -> torch.Tensor:
    """Returns the sums of a matrix over its tiles."""
    rows, columns = values.shape
    padded = torch.nn.functional.pad(values, (0, -columns % TILE, 0, -rows % TILE))
    return padded.unflatten(1, (-1, TILE)).sum(2).unflatten(0, (-1, TILE)).sum(1)


def _share(error: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """Returns error / size, or 0 where the error is 0, even if the size is 0."""
    return torch.where(error == 0, 0.0, error / size)


def unit_in_last_place(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns the distance between neighbouring numbers of `dtype` at each of `values`."""
    info = torch.finfo(dtype)
    exponents = torch.frexp(values.abs().clamp(min=info.smallest_normal)).exponent - 1
    return torch.ldexp(torch.full_like(values, info.eps), exponents)


def judge(
    got: torch.Tensor, want: torch.Tensor, peer: torch.Tensor, terms: int = 1, limit: float | None = None
) -> Verdict:
    """Compares `got` with `want`, the result in float64, and with `peer`, a framework's result in the type of `got`.

    Passes when all of these hold:

    - the error is at most twice the peer's; a peer whose error is by chance smaller than that of rounding the result
      to its type counts as having the rounding error;
    - no value differs from the exact one by more than twice the peer's largest difference, or by more than two units
      in its last place if these are more; another order of summation of `terms` products in float32 is allowed for;
    - the normalised difference over everything, and over each tile of 128 rows and columns, is at most `limit` (by
      default that of the type). Tiles of values near zero are normalised by the mean size of all values instead.
    """
    if got.shape != want.shape:
        return Verdict(failures=[f"shape {tuple(got.shape)}, expected {tuple(want.shape)}"])
    x, y, z = (t.double().reshape(-1, t.shape[-1]) for t in (got, want, peer))
    unit = unit_in_last_place(y, got.dtype)
    error, framework = (x - y).abs(), (z - y).abs()
    squares, sizes = error.square(), x.square() + y.square()
    expected = y.square().sum()
    counts = _tile_sums(torch.ones_like(y))
    tiles = _share(_tile_sums(squares), torch.maximum(_tile_sums(sizes), sizes.mean() * counts))
    verdict = Verdict(
        error=_share(squares.sum(), expected).sqrt().item(),
        framework_error=_share(framework.square().sum(), expected).sqrt().item(),
        worst=error.max().item(),
        framework_worst=framework.max().item(),
        difference=_share(squares.sum(), sizes.sum()).item(),
        tile_difference=tiles.max().item(),
    )
    # The mean square of a rounding error is a twelfth of the squared unit.
    rounding = _share(unit.square().sum() / 12, expected).sqrt().item()
    reordered = terms**0.5 * 2.0**-24
    allowed = FRAMEWORK_FACTOR * max(verdict.framework_error, rounding, reordered)
    if not verdict.error <= allowed:
        verdict.failures.append(f"error {verdict.error:.2e}, with the framework's {allowed:.2e} is allowed")
    limit = DIFFERENCE_LIMIT[got.dtype] if limit is None else limit
    if not verdict.difference <= limit:
        verdict.failures.append(f"normalised difference {verdict.difference:.2e}, limit {limit:.0e}")
    if not verdict.tile_difference <= limit:
        verdict.failures.append(f"a tile's normalised difference {verdict.tile_difference:.2e}, limit {limit:.0e}")
    floor = max(verdict.framework_worst, reordered * (expected / y.numel()).sqrt().item())
    if not bool((error <= FRAMEWORK_FACTOR * unit.clamp(min=floor)).all()):
        verdict.failures.append(
            f"largest error {verdict.worst:.2e} is over twice the framework's {verdict.framework_worst:.2e} "
            "and over two units in the last place"
        )
    return verdict
