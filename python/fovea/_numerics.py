"""Decides whether an operator's result is right, for tests and `python -m fovea.accept`.

Every comparison is written so that NaN fails.
"""

from __future__ import annotations

import dataclasses

import torch

#: The limit of the root mean square of the error over that of the result: the cost of rounding operands,
#: probabilities and the result to the type.
_RELATIVE_LIMIT = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
#: The factor by which a single tile may be worse than the whole.
_TILE_FACTOR = 4.0
_TILE_ROWS = 64


def attention_reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    is_causal: bool = False,
    scale: float | None = None,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """softmax(scale q k^T) v in `dtype`, in plain operations; arguments as for fovea.ops.attention."""
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
    """The result of a comparison; `failures` is empty when it passes."""

    max_error: float
    failures: list[str]

    @property
    def passed(self) -> bool:
        return not self.failures


def _rms(values: torch.Tensor) -> float:
    return values.square().mean().sqrt().item()


def judge(got: torch.Tensor, want: torch.Tensor, peer: torch.Tensor, terms: int = 1) -> Verdict:
    """Compares `got` with `want`, the same in float64, and with `peer`, a framework's result of got's type.

    There are three gates. The largest error is at most twice the peer's, plus one rounding of the result, plus
    the cost of adding `terms` products in another order than the peer in float32: sqrt(terms) roundings of a
    typical result. The normalised error of the whole is under the type's limit. That of every tile of 64 rows
    by the last dimension is under the limit times a factor.
    """
    if got.shape != want.shape:
        return Verdict(float("nan"), [f"shape {tuple(got.shape)}, expected {tuple(want.shape)}"])
    error = (got.double() - want).abs()
    max_error = error.max().item()
    failures = []
    size = _rms(want)
    rounding = torch.finfo(got.dtype).eps / 2 * want.abs().max().item()
    reordered = terms**0.5 * torch.finfo(torch.float32).eps / 2 * size
    allowed = 2 * (peer.double() - want).abs().max().item() + rounding + reordered
    if not max_error <= allowed:
        failures.append(f"error {max_error:.2e}, above the limit of {allowed:.2e} from the framework's error")
    limit = _RELATIVE_LIMIT[got.dtype]
    whole = _rms(error)
    if not whole <= limit * size:
        failures.append(f"normalised error {whole / size:.2e}, above the limit of {limit:.0e}")
    rows = error.reshape(-1, *error.shape[-2:]) if error.dim() > 2 else error.reshape(1, -1, error.shape[-1])
    for tile in rows.split(_TILE_ROWS, dim=1):
        worst = tile.square().mean(dim=(1, 2)).sqrt().max().item()
        if not worst <= _TILE_FACTOR * limit * size:
            failures.append(f"normalised error {worst / size:.2e} of a tile, above the limit of {_TILE_FACTOR * limit:.0e}")
            break
    return Verdict(max_error, failures)
