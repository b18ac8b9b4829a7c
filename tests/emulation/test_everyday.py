"""Kernels of everyday CUDA, one feature each, by `fovea emulate --launch`: against NumPy, and against a GPU's bytes.

tests/emulator/everyday holds the table.
"""

import base64
import collections
import concurrent.futures
import json
import pathlib
import shutil
import sys

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.extend(str(ROOT / folder) for folder in ("scripts", "tests/emulator"))

import cpus  # noqa: E402
import everyday.compile  # noqa: E402
from everyday import CASES  # noqa: E402
from everyday.emulate import isolate, run  # noqa: E402
from everyday.table import difference, digest  # noqa: E402

CAPTURES = sorted((ROOT / "tests/emulator/everyday/cards").glob("*.json"))
# Sources that are compiled by day: quick ones of several families.
SAMPLE = ("carries", "rounding", "warps")
# Kernels that a GPU runs and the emulator refuses by name.
REFUSED = {"device_malloc"}


@pytest.fixture(scope="session")
def outcomes(fovea_bin, tmp_path_factory):
    """outcomes(units, flags): what became of each kernel of the sources, by its name."""
    if everyday.compile.compiler() is None:
        pytest.skip("there is no CUDA compiler here: scripts/setup --test installs one")

    def gather(units, *flags):
        folder = tmp_path_factory.mktemp("everyday")

        def compiled(name, cases):
            return cases, everyday.compile.compile_unit(cases, folder, name, flags).read_text()

        with concurrent.futures.ThreadPoolExecutor(cpus.available()) as pool:
            made = pool.map(compiled, *zip(*everyday.compile.units(units).items()))
            jobs = [(case, ptx) for cases, ptx in made for case in cases]
            results = pool.map(lambda job: run(fovea_bin, *job, folder / job[0].name), jobs)
            gathered = {case.name: outcome for (case, _), outcome in zip(jobs, results)}
        shutil.rmtree(folder)
        return gathered

    return gather


def judge(outcomes):
    """Prints a summary, and returns the lines of kernels that are not right, or not refused as they should."""
    kinds = collections.Counter(outcome.kind for outcome in outcomes.values())
    print(f"\n{len(outcomes)} kernels: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    for name, outcome in outcomes.items():
        if outcome.kind != "right":
            print(f"{outcome.kind} {name}: {' '.join(outcome.said.split())[:200]}")
    return [
        f"{name}: {outcome.said}"
        for name, outcome in outcomes.items()
        if outcome.kind != ("refused" if name in REFUSED else "right")
    ]


def differing(outcomes, capture):
    """Lines of the kernels whose bytes are not those that a GPU computed, or not near them where PTX defines no bits."""
    lines, compared = [], 0
    for name, outcome in outcomes.items():
        captured = capture["kernels"].get(name, {})
        if outcome.kind != "right" or "outputs" not in captured or captured["digest"] != digest(CASES[name]):
            continue
        compared += 1
        for output, data, wanted in zip(CASES[name].outputs, outcome.outputs, captured["outputs"]):
            wanted = numpy.frombuffer(base64.b64decode(wanted), output.wanted.dtype).reshape(output.wanted.shape)
            if said := difference(output, data, wanted):
                lines.append(f"{name}: {said}")
    print(f"{compared} kernels compared with {capture['gpu']}, {len(lines)} outputs differ")
    return lines


def check(outcomes):
    assert judge(outcomes) == []
    for path in CAPTURES:
        assert differing(outcomes, json.loads(path.read_text())) == []


def test_a_sample_of_everyday_kernels_is_right(outcomes):
    check(outcomes(SAMPLE))


@pytest.mark.nightly
def test_everyday_kernels_are_right(outcomes):
    check(outcomes(None))


@pytest.mark.nightly
@pytest.mark.parametrize("flags", [("-Xcicc", "-O0"), ("-G",)], ids=["O0", "debug"])
def test_everyday_kernels_without_optimisation_are_right(outcomes, flags):
    assert judge(outcomes(None, *flags)) == []


def test_captures_are_as_wanted():
    """What a GPU computed is near what NumPy computes, so that both are the right yardsticks."""
    for path in CAPTURES:
        capture = json.loads(path.read_text())
        for name, captured in capture["kernels"].items():
            case = CASES.get(name)
            if case is None or captured["digest"] != digest(case):
                continue
            assert "error" not in captured, f"{name}: {captured['error']}"
            for output, data in zip(case.outputs, captured["outputs"]):
                assert difference(output, base64.b64decode(data)) is None, name


def test_a_kernel_alone_keeps_what_it_needs():
    ptx = """
.version 9.0 // of PTX
.target sm_90a
.address_size 64
.extern .func (.param .b32 result) vprintf(.param .b64 text, .param .b64 values);
.global .align 4 .u32 unused[2] = {1, 2};
.global .align 1 .b8 text[3] = {37, 100, 0};
.const .align 4 .b8 factors[4];
.func (.param .b32 y) twice(.param .b32 x) { { ret; } }
.visible .entry first(.param .u64 to)
.maxntid 64
{
  call (y), twice, (x);
  mov.u64 %rd1, text;
  ret;
}
.visible .entry second() { ld.const.u32 %r1, [factors]; call vprintf; ret; }
"""
    first, second = isolate(ptx, "first"), isolate(ptx, "second")
    assert [word in first for word in ("twice(", "text[3]", "unused", "factors", "vprintf", "second")] == [
        True, True, False, False, False, False,
    ]  # fmt: skip
    assert [word in second for word in ("twice(", "factors[4]", "vprintf(", "first")] == [False, True, True, False]
    assert first.count("{") == first.count("}") and ".maxntid 64" in first


def test_the_table_is_broad():
    assert len(CASES) >= 500
    assert len({case.family for case in CASES.values()}) >= 16
    for case in CASES.values():
        assert case.outputs, case.name
        assert not (case.exact and all((output.wanted == output.initial).all() for output in case.outputs)), case.name
