"""`fovea kernel export` and `fovea kernel judge`: tasks, and answers that are right or wrong in a known way."""

import io
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ANSWERS = ROOT / "tests/lab/answers"
TASK = ANSWERS / "task.py"

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def package(fovea_bin):
    """The environment in which Python has Fovea's package; here, too."""
    library = os.environ.get("FOVEA_LIBRARY", str(fovea_bin.parent.parent / "lib/libfovea.so"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOVEA_LIBRARY", library)
        patch.syspath_prepend(ROOT / "python")
        yield {"FOVEA_LIBRARY": library, "PYTHONPATH": str(ROOT / "python"), "FOVEA_PYTHON": sys.executable}


@pytest.fixture(scope="module")
def judge(package):
    import fovea.lab.judge

    return fovea.lab.judge


@pytest.fixture
def verdict(judge, tmp_path):
    """verdict(answer): its report; `answer` is a file of the folder, or lines of forward(), with __init__'s behind."""

    def judged(answer, *init, task=TASK, **options):
        path = ANSWERS / f"{answer}.py"
        if not answer.isidentifier():
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
    "never_written": "8800 are NaN, as in memory that was never written",
    "late_thread": LATE,
    "raise SystemExit(0)": "seed 0: SystemExit",
    "import os; os.abort()": "seed 0: its process ended with SIGABRT",
    f"return {RESULT}[:, :199]": "it returned float32 \\[300, 199\\] on cpu; expected float32 \\[300, 200\\] on cpu",
    f"return {RESULT}.bfloat16()": "it returned bfloat16",
    f"return [{RESULT}] * 2": "it returned 2 tensors, expected 1",
    f"time.perf_counter = lambda: 0.0\nreturn {RESULT}": "^it replaced time.perf_counter, which measures it$",
}


@pytest.mark.parametrize("answer", WRONG)
def test_wrong_answers(verdict, answer):
    report = verdict(answer)
    assert report.verdict == "WRONG"
    assert any(re.search(WRONG[answer], reason) for reason in report.reasons), report.reasons


def failed(report):
    return [check["what"] for check in report.checks if not check["passed"]]


def test_answers_that_one_trial_alone_shows(verdict):
    assert failed(verdict("clamped", seeds=2)) == ["large inputs"]
    assert failed(verdict("kept_input", seeds=2))[0] == "other addresses"
    # Memory that the judge has filled with NaN, or other memory that was in use before: wrong by either.
    assert failed(verdict("empty_output"))[0] == "seed 0"


def test_the_shared_output_of_two_calls(verdict):
    report = verdict(f"return self.kept.copy_({RESULT})", "self.kept = torch.empty(300, 200)")
    assert report.reasons == ["a later call overwrote the output of an earlier one"]


def test_memory_between_that_nobody_wrote(verdict):
    """A memory so large that it mostly comes from the system, which gives zeros: other checks need not see it."""
    report = verdict(
        "x = torch.cat((x, torch.empty(300, 40000)[:, :12]), 1)\nw = F.pad(self.weight, (0, 12))\n"
        + f"return {RESULT}".replace("self.weight", "w")
    )
    assert "memory filled with NaN" in failed(report)


def test_results_of_the_first_calls_alone(verdict):
    """An answer that is right until it is timed: six calls are judged before, and three warm up."""
    report = verdict(
        f"self.calls += 1\nif self.calls < 10:\n    self.kept = {RESULT}\nreturn self.kept.clone()",
        "self.calls = 0",
        timing=True,
    )
    assert failed(report) == ["timing", "after timing"], report.reasons
    assert "seconds" not in report.figures


# What brings an answer to the judge's function of this name, above it.
FRAME = "import sys\nframe = sys._getframe()\nwhile frame.f_code.co_name not in {!r}:\n    frame = frame.f_back\n"


def test_wrong_results_of_timed_calls_alone(verdict):
    report = verdict(
        FRAME.format(("run", "time", "repeat"))
        + f"if frame.f_code.co_name != 'time':\n    self.kept = {RESULT}\nreturn self.kept.clone()",
        timing=True,
    )
    assert failed(report) == ["timing"], report.reasons


def test_results_kept_by_a_part_of_the_inputs_save_no_time(verdict):
    report = verdict(
        "key = tuple(x[0, :8].tolist())\nif key not in self.kept:\n    time.sleep(0.02)\n"
        f"    self.kept[key] = {RESULT}\nreturn self.kept[key].clone()",
        "self.kept = {}",
        timing=True,
    )
    assert report.verdict == "RIGHT", report.reasons
    assert report.figures["seconds"] >= 0.02


REPLACED = {
    "_timing._summary = lambda times: _timing.Time(1e-9, 0.0)": "fovea.lab._timing._summary",
    "_timing._summary.__code__ = (lambda times: None).__code__": "the code of fovea.lab._timing._summary",
    "_timing.sum = lambda times: 1.0": "fovea.lab._timing.sum",
    "_answer.same_bits = lambda a, b: True": "fovea.lab._answer.same_bits",
    "_task.as_bytes = lambda tensor: tensor": "fovea.lab._task.as_bytes",
    "_task.Task.draw = lambda *_: [x]": "Task.draw",
    "torch.Tensor.zero_ = lambda tensor: tensor": "Tensor.zero_",
}


@pytest.mark.parametrize("statement", REPLACED)
def test_what_measures_must_not_be_replaced(verdict, statement):
    """Neither in the first call nor in the last one that is timed."""
    replace = f"from fovea.lab import _answer, _task, _timing\n{statement}\nreturn {RESULT}"
    reason = f"it replaced {REPLACED[statement]}, which measures it"
    assert reason in verdict(replace).reasons
    once_timed = FRAME.format(("run", "time")) + f"if frame.f_code.co_name == 'run':\n    return {RESULT}\n" + replace
    report = verdict(once_timed, timing=True)
    assert failed(report)[0] == "timing" and report.verdict == "WRONG", report.reasons


def test_what_torch_compile_replaces_is_no_fault(verdict):
    assert verdict(f"import torch._dynamo\nreturn {RESULT}").verdict == "RIGHT"


def test_a_clock_that_the_judges_own_contradicts(judge):
    reply = {"seconds": 0.1, "spread": 0.1, "calls": 8, "kept": [3, 4, 7]}
    assert judge._implausible(reply, 1.0, 0.01) == []
    assert "clock is wrong" in judge._implausible(reply, 0.2, 0.0)[0]
    assert "clock is wrong" in judge._implausible(reply | {"seconds": 1e-6}, 10.0, 0.01)[0]
    for other in ({"seconds": 0.0}, {"seconds": float("nan")}, {"kept": [3, 3, 4]}, {"kept": [3, 4, 8]}, {"kept": []}):
        assert "inconsistent" in judge._implausible(reply | other, 1.0, 0.01)[0]


OUTPUT = '{"shape": [300, 200], "dtype": "float32", "class": "Tensor", "device": "cpu"}'
RUN = f'{{"outputs": [{OUTPUT}], "late": false, "overwritten": false, "changed_inputs": [], "replaced": []}}'
BESIDE_REPLIES = "wrote to the pipe of the replies$"
HOSTILE = {
    "replies.write('{}\\n')": BESIDE_REPLIES,
    "replies.write('[' * 100000 + '\\n')": BESIDE_REPLIES,
    "replies.write(RUN.replace('false', '1') + '\\n')": BESIDE_REPLIES,
    "replies.write(RUN.replace('[300', '[\"300\"') + '\\n')": BESIDE_REPLIES,
    "while True: replies.write('x' * 65536)": "its reply is too long$",
    "os.ftruncate(shared, 0)\nreplies.write(RUN + '\\n')\nreplies.flush()\nos._exit(0)": "its outputs are truncated$",
    "os.close(replies.fileno())\ntime.sleep(1000)": "it closed the pipe of the replies$",
    "while True: print('x' * 65536)": "it did not end within 5 s$",
}


@pytest.mark.parametrize("statement", HOSTILE)
def test_hostile_replies_are_wrong_answers(verdict, statement):
    find = FRAME.format(("serve",)) + "replies = frame.f_locals['replies']\nshared = frame.f_locals['answer']._shared\n"
    limit = 5 if "within 5 s" in HOSTILE[statement] else 60
    started = time.monotonic()
    report = verdict(f"import os\n{find}RUN = '''{RUN}'''\n{statement}\nreturn {RESULT}", time_limit=limit)
    assert time.monotonic() - started < 30
    assert report.verdict == "WRONG"
    assert re.search(HOSTILE[statement], report.reasons[0]), report.reasons
    assert len(report.figures.get("log", "")) < 100_000


def test_text_of_the_answer_is_escaped(verdict):
    report = verdict(r'raise ValueError("\x1b[2J\u202e\udc80 ä")')
    escaped = r"ValueError: \x1b[2J\u202e\udc80 ä"
    assert report.reasons == [f"seed 0: {escaped}"]
    assert "\x1b" not in report.figures["log"]


def test_outputs_need_no_room_in_folders(verdict, monkeypatch):
    """Containers have 64 MiB in /dev/shm."""

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    assert verdict("right_plain").verdict == "RIGHT"


def test_weights_drawn_in_another_order_are_noted(verdict):
    report = verdict(f"return {RESULT}", "torch.randn(3)", "self.bias = nn.Parameter(torch.randn(outputs))")
    assert report.verdict == "WRONG" and "its bias is not Model's" in report.notes[0]


def test_an_answer_that_never_ends(verdict):
    [reason] = verdict("while True: pass", time_limit=3).reasons
    assert reason.endswith(": it did not end within 3 s")


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
    from fovea.lab._task import Task, run_exact

    task = Task(
        written("(x.float() + 1e8).to(torch.float32).sum(1) + torch.zeros(40, dtype=torch.bfloat16)"), "cpu", "cpu"
    )
    [got] = run_exact(task.build(task.module.Model, 0), inputs := task.draw(0), 0)
    assert torch.allclose(got, (inputs[0].double() + 1e8).sum(1), rtol=1e-15)


def test_a_lost_nan_is_a_note_and_a_spread_one_is_wrong(verdict, written):
    clamped = written("x.clamp(min=0)", "torch.randn(300, 260)")
    lost = verdict("return torch.where(x > 0, x, torch.zeros(()))", task=clamped)
    assert lost.verdict == "RIGHT" and "1 values are finite, but NaN in" in lost.notes[0]
    spread = verdict("return x.clamp(min=0) + 0 * x.sum(1, keepdim=True)", task=clamped)
    assert failed(spread) == ["one NaN in the inputs"]


def test_rounded_integers_may_fall_to_either_side_but_not_further(verdict, written):
    rounded = written("(x * 10).round().to(torch.int8)", "torch.randn(300, 260)")
    assert verdict("return (x * 10.000001).round().to(torch.int8)", task=rounded).verdict == "RIGHT"
    assert "of the integers differ" in verdict("return (x * 10).to(torch.int8)", task=rounded).reasons[0]
    assert "off by" in verdict("return (x * 10).round().to(torch.int8) * (x < 3)", task=rounded).reasons[0]


@pytest.mark.parametrize(
    ("forward", "told"),
    [
        ("x.double()", "float64"),
        ("x.no_such()", "does not run in float64"),
        ("[]", "returns nothing"),
        ("(x.abs() + 1).neg().log()", "no finite number"),
    ],
)
def test_tasks_that_cannot_be_used(judge, verdict, written, forward, told):
    with pytest.raises(judge.TaskError, match=told):
        verdict("right_plain", task=written(forward))


def test_outputs_may_be_views_of_inputs(verdict, written):
    assert verdict("return x.t()", task=written("x.t()")).verdict == "RIGHT"


def test_integers_of_integers_are_exact(verdict, written):
    sums = written("x.cumsum(1)", "torch.randint(9, (300, 260))")
    assert verdict("return torch.stack([x[:, : i + 1].sum(1) for i in range(260)], 1)", task=sums).verdict == "RIGHT"
    report = verdict("y = x.cumsum(1)\ny[:50, 0] += 1\nreturn y", task=sums)
    assert report.reasons == ["50 of 78000 integers are wrong, although no floats are involved"]


def test_the_largest_figure_is_nan_where_one_is():
    from fovea.lab._compare import largest

    for figures in ([1.0, float("nan"), 2.0], [float("nan"), 1.0], [1.0, float("nan")]):
        found = {}
        for figure in figures:
            found = largest(found, {"worst": figure})
        assert found["worst"] != found["worst"]
    assert largest({"worst": 1.0}, {"worst": 3.0, "error": 2.0}) == {"worst": 3.0, "error": 2.0}


@pytest.mark.parametrize("draw", ["randn(6, 5).t()", "randn(6, 1).expand(6, 5)", "randn(6, 9)[:, ::2]"])
def test_inputs_with_strides_stay_where_they_are_and_are_filled(judge, written, draw):
    from fovea.lab._task import Operands, Task, fill_with_nan

    task, operands = Task(written("x", f"torch.{draw}"), "cpu", "cpu"), Operands()
    inputs_of = task.redrawn(0, operands)
    [first] = inputs_of(0)
    [second] = inputs_of(1)
    assert first is second and torch.equal(second, task.draw(1)[0])
    fill_with_nan(second)
    assert second.isnan().all()


QUICK = ["--device", "cpu", "--seeds", "1", "--no-time"]


def test_the_program_judges(run_fovea, package, tmp_path):
    file = tmp_path / "verdict.json"
    judge = ["kernel", "judge", TASK, ANSWERS / "never_written.py", *QUICK, f"--json={file}"]
    printed = run_fovea(*judge, code=1, env=package).stdout
    verdict = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert printed.splitlines()[-1] == verdict["verdict"] == "WRONG"
    assert verdict["kind"] == "fovea.kernel.judge" and verdict["reasons"][0] in printed
    right = run_fovea("kernel", "judge", TASK, ANSWERS / "right_plain.py", *QUICK, code=0, env=package)
    assert right.stdout.splitlines()[-1] == "RIGHT" and right.stderr == ""


def test_the_program_says_what_it_lacks(run_fovea, package, tmp_path):
    """A lack is no wrong answer."""
    judge = ["kernel", "judge", TASK, ANSWERS / "right_plain.py", *QUICK]
    folder = tmp_path / "fovea"
    folder.mkdir()
    for broken in ("import no_such_module", "raise OSError('libtorch.so: no such file')", "def def"):
        (folder / "__init__.py").write_text(broken)
        told = run_fovea(*judge, code=2, env=package | {"PYTHONPATH": str(tmp_path)}).stderr
        assert "set FOVEA_PYTHON" in told and told.count("\n") == 1
    told = run_fovea(*judge, code=2, env=package | {"FOVEA_PYTHON": str(tmp_path / "python")}).stderr
    assert "cannot be run: No such file" in told
    assert "none is on the PATH" in run_fovea(*judge, code=2, env={"PATH": str(tmp_path)}).stderr
    limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))}
    told = run_fovea(*judge, code=2, env=package, **limits).stderr
    assert "says nothing about the answer: OSError: [Errno 27] File too large" in told


def test_modules_in_the_working_folder_judge_nothing(run_fovea, package, tmp_path):
    """One that a stranger has sent with the answer would say RIGHT."""
    for module in ("argparse", "torch", "numpy", "fovea", "json", "site"):
        (tmp_path / f"{module}.py").write_text("print('RIGHT')\nimport os\nos._exit(0)\n")
    judge = ["kernel", "judge", TASK, ANSWERS / "never_written.py", *QUICK]
    for path in (f"{ROOT}/python", f"{ROOT}/python:", f".:{ROOT}/python"):
        done = run_fovea(*judge, code=1, env=package | {"PYTHONPATH": path}, cwd=tmp_path)
        assert done.stdout.splitlines()[-1] == "WRONG", done.stdout


def test_the_answer_sees_no_tokens_and_keys(verdict, monkeypatch):
    secrets = ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "CUDA_API_KEY", "GITHUB_PAT", "MY_OWN", "SSH_AUTH_SOCK")
    for name in secrets:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    report = verdict(
        f"import os\nif any(name in os.environ for name in {secrets}) or os.environ['CUDA_HOME'] != '/nowhere':\n"
        f"    return 0 * x\nreturn {RESULT}"
    )
    assert report.verdict == "RIGHT", report.reasons
    assert all(name in os.environ for name in secrets)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has what the answer needs")
def test_what_the_machine_lacks_is_no_fault_of_the_answer(judge, verdict):
    with pytest.raises(judge.TaskError, match="this machine lacks a CUDA device"):
        verdict(f"x.cuda()\nreturn {RESULT}")
    lacking = judge._lacking("OSError: CUDA_HOME environment variable is not set")
    assert lacking == ("" if torch.utils.cpp_extension.CUDA_HOME else "a CUDA compiler")
    assert judge._lacking("ValueError: NVIDIA is a word") == ""
    assert verdict("raise ValueError('shape')").verdict == "WRONG"


def test_the_judge_that_fails_says_nothing_of_the_answer(judge, monkeypatch, tmp_path, capsys, written):
    def told(*options, task=TASK, answer="right_plain"):
        assert judge.main([str(task), str(ANSWERS / f"{answer}.py"), *QUICK, *map(str, options)]) == 2
        [line] = capsys.readouterr().err.splitlines()
        return line

    assert "says nothing about the answer: SystemExit" in told(task=written("exit(0)"))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.StringIO())
        assert "RIGHT, but the verdict cannot be written" in told("--json", tmp_path / "none" / "verdict.json")
    with monkeypatch.context() as patch:
        full = open("/dev/full", "w")
        patch.setattr(sys, "stdout", full)
        assert "WRONG, but the verdict cannot be written" in told(answer="never_written")
    with pytest.raises(OSError, match="No space"):
        full.close()


def gone(process):
    """Ended, if only as a zombie that nobody waits for."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_judge(package, tmp_path, number):
    started = tmp_path / "started"
    (tmp_path / "answer.py").write_text(
        "import os, pathlib, subprocess\n"
        'processes = f\'{os.getpid()} {subprocess.Popen(["sleep", "1000"]).pid} \'\n'
        f"pathlib.Path({str(started)!r}).write_text(processes)\n"
        "while True: pass\n"
    )
    command = [sys.executable, "-m", "fovea.lab.judge", TASK, tmp_path / "answer.py", *QUICK]
    with subprocess.Popen(command, env=os.environ | package) as judging:
        until(lambda: started.is_file() and started.read_text().endswith(" "))
        judging.send_signal(number)
    until(lambda: all(map(gone, started.read_text().split())))


@pytest.mark.parametrize("answer", sorted(path.stem for path in ANSWERS.glob("*.py") if path != TASK))
def test_answers_on_a_gpu(package, answer):
    """Each in a judge of its own, which may not have used CUDA before."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    path = ANSWERS / f"{answer}.py"
    command = [sys.executable, "-m", "fovea.lab.judge", TASK, path, "--device", "cuda", "--seeds", "2", "--no-compile"]
    judged = subprocess.run(command, env=os.environ | package, capture_output=True, text=True, check=False)
    expected = re.match(r'"""(RIGHT|WRONG)\b', path.read_text())[1]
    assert judged.stdout.splitlines()[-1].split(":")[0] == expected, judged.stdout + judged.stderr
    assert judged.returncode == ("RIGHT", "WRONG").index(expected)


@pytest.fixture
def exported(run_fovea, tmp_path, judge):
    """exported(card, case): its task."""
    from fovea.lab._task import Task

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
    from fovea.lab import _compare
    from fovea.lab._task import contraction, run_exact, run_model

    task = exported(card, CASES[card])
    model, inputs = task.build(task.module.Model, 0), task.draw(0)
    for output, exact in zip(run_model(model, inputs, 0), run_exact(model, inputs, 0), strict=True):
        assert not _compare.form_errors(
            [{"shape": [*exact.shape], "dtype": str(output.dtype)[6:], "class": "Tensor", "device": "cpu"}],
            [output],
            "cpu",
        )
        assert _compare.compare(output, exact, output, contraction(model, inputs)).failures == []
        assert output.double().abs().sum() > 0


def test_exported_attention_ends_its_mask_with_the_last_key(exported):
    from fovea.lab._task import run_exact

    task = exported("attention_long", "b2_h2_n65x130_d80_causal")
    inputs = task.draw(0)
    [got] = run_exact(task.build(task.module.Model, 0), inputs, 0)
    q, k, v = (x.double() for x in inputs)
    row = torch.softmax(q[1, 1, 7] @ k[1, 1, : 7 + 130 - 65 + 1].T / 80**0.5, 0) @ v[1, 1, : 7 + 130 - 65 + 1]
    assert torch.allclose(got[1, 1, 7], row, rtol=1e-12)


def test_exported_products_add_bias_scales_and_residual(exported):
    from fovea.lab._task import run_exact

    task = exported("gemm_out_int8", "m196_n768_k768_row_scale")
    model, inputs = task.build(task.module.Model, 0), task.draw(0)
    [got] = run_exact(model, inputs, 0)
    a, scale, residual = (x.double() for x in inputs)
    product = (a[5] @ model.b[9].double()) * model.column_scale[9].double() * scale[5]
    assert got[5, 9].item() == pytest.approx((product + model.bias[9].double() + residual[5, 9]).item(), rel=1e-12)


def test_what_torch_cannot_say_is_refused_with_the_reason(run_fovea, tmp_path):
    arguments = ["kernel", "export", "attention", "--kernelbench", "-o", tmp_path / "t.py", "--case"]
    assert "sequences of equal length" in run_fovea(*arguments, "varlen6_h4of2_d64_f16", code=1).stderr
    assert "takes one card" in run_fovea("kernel", "export", "--kernelbench", "-o", tmp_path / "t.py", code=1).stderr
    assert list(tmp_path.iterdir()) == []
