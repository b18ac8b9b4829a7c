"""`fovea kernel export` and `fovea kernel judge`: tasks, and answers that are right or wrong in a known way."""

import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ANSWERS = ROOT / "tests/lab/answers"
TASK = ANSWERS / "task.py"
sys.path.insert(0, str(ROOT / "python"))

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def package(fovea_bin):
    """The environment in which Python has Fovea's package."""
    library = str(fovea_bin.parent.parent / "lib/libfovea.so")
    os.environ.setdefault("FOVEA_LIBRARY", library)
    return {"FOVEA_LIBRARY": library, "PYTHONPATH": str(ROOT / "python"), "FOVEA_PYTHON": sys.executable}


@pytest.fixture(scope="module")
def judge(package):
    import fovea.judge

    return fovea.judge


@pytest.fixture
def verdict(judge, tmp_path):
    """verdict(answer): its report; `answer` is a file of the folder, or the lines of forward(), with __init__'s behind."""

    def judged(answer, *init, task=TASK, **options):
        path = ANSWERS / f"{answer}.py"
        if not path.is_file():
            path = tmp_path / "answer.py"
            plain = (ANSWERS / "right_plain.py").read_text().replace("import torch\n", "import time, torch\n", 1)
            head, forward, _ = re.split(r"(    def forward.*\n)", plain)
            path.write_text(
                head + textwrap.indent("\n".join(init), " " * 8) + "\n" + forward + textwrap.indent(answer, " " * 8)
            )
        return judge.judge_answer(task, path, judge.Options(**{"timing": False, "seeds": 1} | options))

    return judged


@pytest.mark.parametrize("name", ["right_plain", "right_packed", "right_split"])
def test_right_answers(verdict, name):
    report = verdict(name, seeds=5)
    assert report.verdict == "RIGHT", report.reasons
    assert len(report.checks) == 10


LATE = "^the output changed after the call had returned$"
RESULT = 'F.gelu(F.linear(x, self.weight, self.bias), approximate="tanh")'
# Answers, and what the reason has to say.
WRONG = {
    "wrong_tail": "in rows 256 to 299 of 300 and columns 0 to 199",
    "zero_tile": "in rows 128 to 255 of 300 and columns 64 to 127 of 200; \\d+ are zero",
    "cached_output": "the result of the call before",
    "changed_input": "^it changed input 0$",
    "less_precision": "tf32 or float16 operands",
    "never_written": "8800 are NaN, as the memory is where nobody writes",
    "late_thread": LATE,
    "raise SystemExit(0)": "seed 0: SystemExit",
    "import os; os.abort()": "seed 0: its process ended with SIGABRT",
    f"return {RESULT}[:, :199]": "it returned float32 \\[300, 199\\] on cpu; expected float32 \\[300, 200\\] on cpu",
    f"return {RESULT}.bfloat16()": "it returned bfloat16",
    f"return [{RESULT}] * 2": "it returned 2 tensors; expected 1",
    f"time.perf_counter = lambda: 0.0\nreturn {RESULT}": "^it replaced time.perf_counter, which measures it$",
}


@pytest.mark.parametrize("answer", WRONG)
def test_wrong_answers(verdict, answer):
    report = verdict(answer)
    assert report.verdict == "WRONG"
    assert any(re.search(WRONG[answer], reason) for reason in report.reasons), report.reasons


def test_the_shared_output_of_two_calls(verdict):
    report = verdict(f"return self.kept.copy_({RESULT})", "self.kept = torch.empty(300, 200)")
    assert report.reasons == ["a later call overwrote the output of an earlier one"]


def test_memory_between_that_nobody_wrote(verdict):
    """So much of it that it mostly comes from the system, which gives zeros: other checks need not see it."""
    report = verdict(
        "x = torch.cat((x, torch.empty(300, 40000)[:, :12]), 1)\nw = F.pad(self.weight, (0, 12))\n"
        + f"return {RESULT}".replace("self.weight", "w")
    )
    assert "memory filled with NaN" in [check["what"] for check in report.checks if not check["passed"]]


def test_results_of_the_first_calls_alone(verdict):
    """An answer that is right until it is timed."""
    report = verdict(
        f"self.calls += 1\nif self.calls < 20:\n    self.kept = {RESULT}\nreturn self.kept.clone()",
        "self.calls = 0",
        timing=True,
    )
    assert [check["what"] for check in report.checks if not check["passed"]] == ["after timing"], report.reasons


def test_weights_drawn_in_another_order_are_noted(verdict):
    report = verdict(f"return {RESULT}", "torch.randn(3)", "self.bias = nn.Parameter(torch.randn(outputs))")
    assert report.verdict == "WRONG" and "its bias is not Model's" in report.notes[0]


def test_an_answer_that_never_ends(verdict):
    report = verdict("while True: pass", time_limit=0.5)
    assert report.reasons == ["seed 0: it did not end within 0.5 s"]


def test_a_right_answer_may_print_and_is_timed(verdict):
    report = verdict(f'print("{{}}")\nreturn {RESULT}', timing=True)
    assert report.verdict == "RIGHT", report.reasons
    assert report.figures["speed_up_over_model"] == pytest.approx(
        report.figures["model_seconds"] / report.figures["seconds"]
    )


@pytest.fixture
def written(tmp_path):
    """written(text): a task whose Model.forward and get_inputs are these."""

    def write(forward, draw="torch.randn(40, 1000)"):
        path = tmp_path / "task.py"
        path.write_text(
            "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def __init__(self, *sizes):\n        super().__init__()\n"
            f"    def forward(self, x):\n        return {forward}\n"
            f"def get_inputs():\n    return [{draw}]\ndef get_init_inputs():\n    return [260, 200]\n"
        )
        return path

    return write


def test_the_reference_is_in_float64_whatever_types_the_model_names(judge, written):
    """Sums whose terms float32 loses."""
    from fovea._task import Task, run_exact

    task = Task(
        written("(x.float() + 1e8).to(torch.float32).sum(1) + torch.zeros(40, dtype=torch.bfloat16)"), "cpu", "cpu"
    )
    [got] = run_exact(task.build(task.module.Model, 0), inputs := task.draw(0), 0)
    assert torch.allclose(got, (inputs[0].double() + 1e8).sum(1), rtol=1e-15)


def test_a_lost_nan_is_a_note_and_a_spread_one_is_wrong(verdict, written):
    clamped = written("x.clamp(min=0)", "torch.randn(300, 260)")
    lost = verdict("return torch.where(x > 0, x, torch.zeros(()))", task=clamped)
    assert lost.verdict == "RIGHT" and "1 values are finite that are NaN" in lost.notes[0]
    spread = verdict("return x.clamp(min=0) + 0 * x.sum(1, keepdim=True)", task=clamped)
    assert [check["what"] for check in spread.checks if not check["passed"]] == ["one NaN in the inputs"]


def test_rounded_integers_may_fall_to_either_side_but_not_further(verdict, written):
    rounded = written("(x * 10).round().to(torch.int8)", "torch.randn(300, 260)")
    assert verdict("return (x * 10.000001).round().to(torch.int8)", task=rounded).verdict == "RIGHT"
    assert "of the integers differ" in verdict("return (x * 10).to(torch.int8)", task=rounded).reasons[0]
    assert "off by" in verdict("return (x * 10).round().to(torch.int8) * (x < 3)", task=rounded).reasons[0]


@pytest.mark.parametrize(
    ("forward", "told"),
    [("x.double()", "float64"), ("x.no_such()", "does not run in float64"), ("[]", "returns nothing")],
)
def test_tasks_that_cannot_be_used(judge, verdict, written, forward, told):
    with pytest.raises(judge.TaskError, match=told):
        verdict("right_plain", task=written(forward))


def test_the_program_judges(run_fovea, package, tmp_path):
    file = tmp_path / "verdict.json"
    options = ["--device", "cpu", "--seeds", "1", "--no-time", f"--json={file}"]
    printed = run_fovea("kernel", "judge", TASK, ANSWERS / "never_written.py", *options, code=1, env=package).stdout
    verdict = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert printed.splitlines()[-1] == verdict["verdict"] == "WRONG"
    assert verdict["kind"] == "judge" and verdict["reasons"][0] in printed


def test_the_program_says_what_it_lacks(run_fovea, package, tmp_path):
    empty = package | {"PYTHONPATH": str(tmp_path), "FOVEA_PYTHON": "/usr/bin/python3"}
    assert "FOVEA_PYTHON" in run_fovea("kernel", "judge", TASK, TASK, code=2, env=empty).stderr
    missing = package | {"FOVEA_PYTHON": str(tmp_path / "python")}
    assert "cannot be run" in run_fovea("kernel", "judge", TASK, TASK, code=1, env=missing).stderr


@pytest.fixture
def exported(run_fovea, tmp_path, judge):
    """exported(card, case): its task."""
    from fovea._task import Task

    def export(card, case):
        run_fovea("kernel", "export", card, "--case", case, "--kernelbench", "-o", tmp_path / f"{card}.py")
        return Task(tmp_path / f"{card}.py", "cpu", "cpu")

    return export


CASES = {
    "patch_embed": "m77_n144_k48",
    "gemm_fc1_int8": "m77_n144_k48",
    "gemm_fc1_int8_to_e4m3": "m77_n144_k48",
    "gemm_fc1_norm": "m77_n144_k48",
    "attention": "b2_h3_n50_d40",
    "attention_long": "b2_h2_n65x130_d80_causal",
    "row_norm": "rows3_width768",
    "layer_norm_i8": "rows3_width768",
    "layer_norm_f32": "rows3_width768",
    "pool": "b290_n17_width64",
    "pixels_widen": "rows50_width3",
    "pixels_repeat": "rows3_width768",
}


@pytest.mark.parametrize("card", CASES)
def test_exported_tasks_compute_the_same_in_their_types_and_in_float64(exported, card):
    from fovea import _compare
    from fovea._task import contraction, run_exact, run_model

    task = exported(card, CASES[card])
    model, inputs = task.build(task.module.Model, 0), task.draw(0)
    for one, exact in zip(run_model(model, inputs, 0), run_exact(model, inputs, 0), strict=True):
        assert not _compare.form(
            [{"shape": [*exact.shape], "dtype": str(one.dtype)[6:], "class": "Tensor", "device": "cpu"}], [one], "cpu"
        )
        assert _compare.compare(one, exact, one, contraction(model, inputs)).failures == []
        assert one.double().abs().sum() > 0


def test_exported_attention_ends_its_mask_with_the_last_key(exported):
    from fovea._task import run_exact

    task = exported("attention_long", "b2_h2_n65x130_d80_causal")
    inputs = task.draw(0)
    [got] = run_exact(task.build(task.module.Model, 0), inputs, 0)
    q, k, v = (x.double() for x in inputs)
    row = torch.softmax(q[1, 1, 7] @ k[1, 1, : 7 + 130 - 65 + 1].T / 80**0.5, 0) @ v[1, 1, : 7 + 130 - 65 + 1]
    assert torch.allclose(got[1, 1, 7], row, rtol=1e-12)


def test_exported_products_add_bias_scales_and_residual(exported):
    from fovea._task import run_exact

    task = exported("gemm_out_int8", "m196_n768_k768_row_scale")
    model, inputs = task.build(task.module.Model, 0), task.draw(0)
    [got] = run_exact(model, inputs, 0)
    a, scale, residual = (x.double() for x in inputs)
    product = (a[5] @ model.b[9].double()) * model.column_scale[9].double() * scale[5]
    assert got[5, 9].item() == pytest.approx((product + model.bias[9].double() + residual[5, 9]).item(), rel=1e-12)


def test_what_torch_cannot_say_is_refused_with_the_reason(run_fovea, tmp_path):
    arguments = ["kernel", "export", "attention", "--kernelbench", "-o", tmp_path / "t.py", "--case"]
    assert "sequences of one length" in run_fovea(*arguments, "varlen6_h4of2_d64_f16", code=1).stderr
    assert "takes one card" in run_fovea("kernel", "export", "--kernelbench", "-o", tmp_path / "t.py", code=1).stderr
    assert list(tmp_path.iterdir()) == []
