"""`fovea kernel emulate`, which runs one schedule of a case, and what `check` on the emulator says to run it again."""

import json
import re

import pytest

pytestmark = pytest.mark.usefixtures("with_kernels")

CASE = ("--case", "rows3_width768")


def test_a_case_runs_on_a_schedule(run_fovea, tmp_path):
    trace = tmp_path / "trace.txt"
    told = json.loads(
        run_fovea(
            "kernel", "emulate", "layer_norm", *CASE, "--seed", "5", "--schedule", "2", "--trace", str(trace), "--json"
        ).stdout
    )
    assert {
        name: told[name] for name in ("clean", "card", "case", "plan", "seed", "schedule", "reason", "findings")
    } == {
        "clean": True,
        "card": "layer_norm",
        "case": "rows3_width768",
        "plan": "",
        "seed": 5,
        "schedule": 2,
        "reason": "",
        "findings": [],
    }
    assert 0 < told["max_abs"] < 1
    lines = trace.read_text().splitlines()
    assert lines[0].startswith("# grid ") and "layer_norm" in lines[0]
    assert sum("st.global" in line for line in lines) >= 3


def test_the_same_schedule_runs_the_same_way(run_fovea, tmp_path):
    def trace_of(*options):
        path = tmp_path / "trace.txt"
        run_fovea("kernel", "emulate", "layer_norm", *CASE, "--trace", str(path), *options)
        return [line.split("grid", 1)[-1] for line in path.read_text().splitlines()]

    first = trace_of("--schedule", "1")
    assert trace_of("--schedule", "1") == first
    assert trace_of("--schedule", "2") != first
    assert trace_of("--schedule", "1", "--seed", "2") != first


def test_plans_are_named(run_fovea):
    told = run_fovea("kernel", "emulate", "gemm_out_bf16", "--case", "m1_n112_k16", "--plan", "no such", code=2).stderr
    assert "no plan 'no such'; there are: " in told
    plan = told.split("there are: ")[1].split(";")[0].strip()
    assert run_fovea("kernel", "emulate", "gemm_out_bf16", "--case", "m1_n112_k16", "--plan", plan).stdout.startswith(
        "pass gemm_out_bf16"
    )


@pytest.mark.parametrize(
    ("plan", "copies"),
    [
        # Ten tiles of two blocks of K, of each of which two CTAs load their rows of A and their half of B.
        ("pair 256x256, 4 stages, 4 CTAs", 10 * 2 * 2 * 2),
        # Two pairs have five tiles each, in two columns: both begin or end within a row, and load three panels.
        ("pair 256x256, 6 K blocks of A, 3 stages, 4 CTAs", 10 * 2 * 2 + 2 * 3 * 2 * 2),
    ],
)
def test_a_panel_of_a_is_loaded_once_a_row(run_fovea, tmp_path, plan, copies):
    trace = tmp_path / "trace.txt"
    problem = ("--problem", "m=1100,n=320,k=208")
    run_fovea(
        "kernel", "emulate", "gemm_qkv_int8", "--device", "emu:sm_100a", *problem, "--plan", plan, "--trace", str(trace)
    )
    loads = re.findall(
        r"cp\.async\.bulk\.tensor\.3d\.shared::cluster\.\S*\.cta_group::2\S*cache_hint$", trace.read_text(), re.M
    )
    assert len(loads) == copies


def test_one_card_is_named(run_fovea):
    assert "name the card" in run_fovea("kernel", "emulate", code=1).stderr
    assert "name the card" in run_fovea("kernel", "emulate", "layer_norm", "row_norm", code=1).stderr


def test_a_quick_case_is_taken(run_fovea):
    assert run_fovea("kernel", "emulate", "convert_f16").stdout.startswith("pass convert_f16 rows1_width8")
