"""The acceptance and benchmark programs, on small cases: what they print, and that they can fail."""

import json

import pytest
import torch
from fovea import _kernels
from fovea.lab import accept, bench_attention
from fovea.lab._numerics import attention_reference

CASES = [
    accept.Case(1, 2, 70, 64, headline=True),
    accept.Case(1, 2, 33, 72, causal=True, dtype=torch.bfloat16),
    accept.Case(1, 2, 20, 64, causal=True, keys=30, kv_heads=1, note="first rows"),
]


@pytest.fixture(autouse=True)
def few_cases(monkeypatch):
    monkeypatch.setattr(accept, "cases", lambda: iter(CASES))


def run(device, capsys, *arguments):
    code = accept.main(["--device", device, *arguments])
    lines = capsys.readouterr().out.splitlines()
    return code, lines


def test_passes(device, capsys, tmp_path):
    path = tmp_path / "accept.json"
    code, lines = run(device, capsys, "--json", str(path))
    assert code == 0, "\n".join(lines)
    passed, total = lines[-1].split()[0].split("/")
    resources = sum(line.startswith("resources ") for line in lines)
    left_out = sum("left to the next level" in line for line in lines)
    timed = sum("max_diff" in line for line in lines)
    assert passed == total
    assert timed + left_out == len(accept.supported_levels(device)) * len(CASES)
    assert int(total) == resources + 6 + timed
    assert sum(line.startswith("gate rejects") for line in lines) == 5
    told = json.loads(path.read_text())
    assert (len(told["lines"]), len(told["left_out"])) == (int(total), left_out)
    figures = [line for line in told["lines"] if "max_diff" in line]
    assert len(figures) == timed
    assert all(line["us"] > 0 and 0 <= line["max_diff"] < 0.1 for line in figures)
    assert all(line["seeds"] == 5 and 0 < line["max_rel"] < 0.1 for line in figures)


def test_is_of_every_seed(capsys, monkeypatch):
    """A kernel that is wrong on one draw alone, the last."""
    last = CASES[0].operands("cpu", 5)[0]

    def sometimes_wrong(q, k, v, causal):
        return torch.ops.fovea.attention(q, k, v, torch.equal(q, last))

    monkeypatch.setattr(accept, "level_operator", lambda level: sometimes_wrong)
    report = accept.Report()
    accept.accept_case(report, CASES[0], "cpu", "cpu", seeds=4)
    assert (report.passed, report.total) == (1, 1)
    accept.accept_case(report, CASES[0], "cpu", "cpu")
    assert (report.passed, report.total) == (1, 2)
    assert "(seed 5)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--least-speedup", "1e-6", "--most-us", "1e9"], 0),
        (["--least-speedup", "1e6"], 1),
        (["--most-us", "1e-3"], 1),
        (["--most-us", "(1, 2, 70, 64) float16=1e-3"], 1),
    ],
)
def test_headline_cases_have_to_be_fast(capsys, monkeypatch, options, code):
    times = iter(accept._timing.Time(1e-3, 0.0) for _ in range(100))
    monkeypatch.setattr(accept._timing, "time_call", lambda *_: next(times))
    found, lines = run("cpu", capsys, "--seeds", "1", *options)
    assert found == code, "\n".join(lines)
    failed = [line for line in lines if "FAILED" in line]
    assert len(failed) == code and all(
        "(1, 2, 70, 64) float16" in line and ("--least-speedup is" in line or "--most-us is" in line) for line in failed
    )


def test_limits_are_of_headline_cases(capsys):
    for wrong in ("(1, 2, 33, 72) bfloat16 causal=3", "fast"):
        with pytest.raises(SystemExit):
            accept.main(["--device", "cpu", "--most-us", wrong])


@pytest.mark.parametrize(
    ("case", "wrong"),
    [
        (0, lambda q, k, v, causal: torch.ops.fovea.attention(q, k, v, True)),
        (0, lambda q, k, v, causal: torch.ops.fovea.attention(q, k[:, :, 1:], v[:, :, 1:])),
        (1, lambda q, k, v, causal: torch.ops.fovea.attention(q, k, v, False)),
        (1, lambda q, k, v, causal: torch.full_like(q, float("nan"))),
    ],
    ids=["masked", "without a key", "unmasked", "nan"],
)
def test_wrong_attention_fails(capsys, monkeypatch, case, wrong):
    monkeypatch.setattr(accept, "level_operator", lambda level: wrong)
    report = accept.Report()
    accept.accept_case(report, CASES[case], "cpu", "cpu")
    assert (report.passed, report.total) == (0, 1)
    assert "FAILED" in capsys.readouterr().out


def rounding_alone(q, k, v, probabilities_in, rounded_divisor):
    """Causal attention that is exact but for two roundings: of the probabilities, and of the result."""
    scores = (q.double() @ k.double().transpose(-2, -1)) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    exact = torch.exp(scores - scores.amax(-1, keepdim=True))
    rounded = exact.to(probabilities_in).double()
    return (rounded @ v.double() / (rounded if rounded_divisor else exact).sum(-1, keepdim=True)).to(q.dtype)


def test_the_limit_is_what_rounding_costs():
    """Kernels that could not be better pass it on every draw, though some exceed 1e-3; coarser probabilities never
    do."""
    case = accept.Case(1, 8, 512, 64, causal=True, headline=True)
    farthest = []
    for seed in range(1, 11):
        q, k, v = case.operands("cpu", seed)
        exact = attention_reference(q, k, v, True, dtype=torch.float32)
        limit = accept.difference_limit(q, k, v, True, exact)
        assert limit.min() == accept.MAX_DIFF
        for rounded_divisor in (True, False):
            difference = (rounding_alone(q, k, v, torch.float16, rounded_divisor).float() - exact).abs()
            assert (difference <= limit).all()
            farthest.append(difference.max().item())
            coarse = rounding_alone(q, k, v, torch.bfloat16, rounded_divisor).float()
            assert ((coarse - exact).abs() > limit).sum() > 100
    assert max(farthest) > accept.MAX_DIFF > min(farthest)


@pytest.mark.parametrize(
    ("kernel", "passes"),
    [
        (_kernels.Kernel("attention_scalar_f16_d64", 80, 72, 0, 0, 0), True),
        (_kernels.Kernel("attention_scalar_f16_d64", 80, 73, 0, 0, 0), False),
        (_kernels.Kernel("attention_mma_small_f16_d64", 80, 129, 0, 0, 0), False),
        (_kernels.Kernel("attention_mma_small_f16_d128", 80, 118, 0, 0, 0), True),
        (_kernels.Kernel("attention_mma_f16_d64", 80, 200, 0, 0, 4), False),
        (_kernels.Kernel("attention_mma_f16_d64", 80, 200, 0, 16, 0), False),
        (_kernels.Kernel("attention_single_pass_bf16_d64", 90, 168, 0, 0, 0), True),
    ],
)
def test_resources(capsys, monkeypatch, kernel, passes):
    monkeypatch.setattr(_kernels, "kernels", lambda: [kernel])
    report = accept.Report()
    accept.accept_resources(report)
    assert (report.passed, report.total) == (int(passes), 1)
    assert ("FAILED" in capsys.readouterr().out) is not passes


def test_a_gate_that_accepts_everything_fails(capsys, monkeypatch):
    monkeypatch.setattr(accept, "judge", lambda *_: _Verdict())
    report = accept.Report()
    accept.accept_gate(report, "cpu")
    assert report.passed < report.total


class _Verdict:
    passed = True
    failures: list = []


def test_kernels_are_the_librarys():
    kernels = _kernels.kernels()
    names = [(kernel.name, kernel.arch) for kernel in kernels]
    assert len(set(names)) == len(names)
    for kernel in kernels:
        assert kernel.arch in (80, 86, 89, 90, 100)
        assert 0 < kernel.registers <= 255


def test_bench(device, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(bench_attention, "PROBLEMS", [(1, 2, 64, 64, True)])
    path = tmp_path / "bench.json"
    assert bench_attention.main(["--json", str(path)]) == 0
    assert "(1, 2, 64, 64) causal float16" in capsys.readouterr().out
    report = json.loads(path.read_text())
    (row,) = report["rows"]
    name, us = bench_attention.best(row["fovea"])
    assert us > 0 and row["fovea"][name]["spread"] >= 0
    assert bench_attention.best(row["torch"])[1] > 0


def test_bench_times_no_wrong_result(device, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(bench_attention, "PROBLEMS", [(1, 2, 64, 64, True)])
    monkeypatch.setattr(bench_attention, "fovea_call", lambda level, causal: lambda q, k, v: torch.zeros_like(q))
    path = tmp_path / "bench.json"
    assert bench_attention.main(["--json", str(path)]) == 1
    assert "WRONG" in capsys.readouterr().out
    (row,) = json.loads(path.read_text())["rows"]
    assert all(set(entry) == {"failed"} for entry in row["fovea"].values())


@pytest.mark.parametrize(
    ("kernel", "level"),
    [
        ("attention_scalar_f16_d64", "scalar"),
        ("attention_mma_small_bf16_d64", "wmma"),
        ("attention_mma_f16_q32_d64", "mma"),
        ("attention_single_pass_bf16_d64_k200", "wgmma"),
        ("attention_online_f16_d128", "wgmma"),
    ],
)
def test_designs_belong_to_levels(kernel, level):
    assert accept.kernel_design(kernel)[0] == level
    with pytest.raises(ValueError, match="attention_flash"):
        accept.kernel_design("attention_flash_bf16")
