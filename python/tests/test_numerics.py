"""The numerics contract of fovea.lab._numerics against the figures that the C++ judge is held to as well."""

import json
import pathlib

import pytest
import torch
from fovea.lab import _numerics

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
_FILE = pathlib.Path(__file__).parents[2] / "tests/ops/contract.json"
CONTRACT = json.loads(_FILE.read_text()) if _FILE.is_file() else {"cases": []}


# The data: as tests/ops/contract_test.cpp makes it.
def data(case):
    """What was written, float64's and a framework's, all of the case's description."""
    state, drawn = 1, []
    for _ in range(2 * case["rows"] * case["columns"]):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        drawn.append((state >> 40) / 2**24)
    a, b = torch.tensor(drawn, dtype=torch.float64).view(-1, 2).unbind(1)
    sizes = torch.tensor([2.0 ** (i % 5 - 2) for i in range(a.numel())], dtype=torch.float64)
    want = ((a - 0.3) * sizes).view(case["rows"], case["columns"])
    peer = want.to(TYPES[case["type"]])
    got = (want * (1 + (b - 0.5).view_as(want) * case["noise"])).to(peer.dtype)
    if case["spoil"] == "tile":
        got[:128, :128] = 0
    elif case["spoil"] == "far":
        got[0, 5] = want[0, 5] + 0.01
    elif case["spoil"] == "nan":
        got[0, 5] = float("nan")
    elif case["spoil"] == "neighbour":  # a large value, rounded to the number beside the right one
        want[0, 5] = peer[0, 5] = 3.0
        got[0, 5] = 3.0 + 2 * torch.finfo(peer.dtype).eps
    return got, want, peer


# The tests
@pytest.mark.skipif(not CONTRACT["cases"], reason="the contract's figures are not beside these tests")
def test_the_numbers_are_those_of_the_contract():
    assert CONTRACT["tile"] == _numerics.TILE
    assert CONTRACT["framework_factor"] == _numerics.FRAMEWORK_FACTOR
    assert {TYPES[name]: limit for name, limit in CONTRACT["difference_limit"].items()} == _numerics.DIFFERENCE_LIMIT


@pytest.mark.parametrize("case", CONTRACT["cases"], ids=lambda case: f"{case['type']} {case['spoil']}")
def test_verdicts_are_those_of_the_contract(case):
    verdict = _numerics.judge(*data(case))
    assert verdict.passed == case["passes"], verdict.failures
    for figure in ("error", "framework_error", "worst", "framework_worst", "difference", "tile_difference"):
        want = float("nan") if case[figure] is None else case[figure]
        assert getattr(verdict, figure) == pytest.approx(want, rel=1e-9, nan_ok=True), figure
