"""python -m fovea.lab.judge TASK.py ANSWER.py: judges a foreign kernel.

TASK.py is a task in KernelBench's form (Model, get_inputs, get_init_inputs), and ANSWER.py has a class ModelNew.
ModelNew runs in a separate process, on fresh inputs of several seeds and sizes; its results are compared with those of
Model in float64, with limits that depend on the error of Model in its own precision. Then both are timed.
The exit code is 0 for RIGHT, 1 for WRONG, and 2 when the task or the arguments are unusable, the machine lacks
something that the answer needs, or the judge itself fails. In an untrusted working folder, use
python -I -m fovea.lab.judge.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import math
import os
import pathlib
import platform
import re
import sys
import time
from typing import Any

import torch

import fovea
from fovea.lab import _answer, _compare, _document, _timing
from fovea.lab._child import Child, Ended, printable
from fovea.lab._task import (
    Operands,
    Task,
    TaskError,
    computes_in_floats,
    contraction,
    run_exact,
    run_model,
    weight_sums,
)

#: Patterns in the source of an answer that are reported as hints and do not affect the verdict.
_HINTS = (
    (r"\bexcept\b", "it catches exceptions: a fallback may run instead of its kernel"),
    (r"torch\.cuda\.[Ss]tream|cudaStreamCreate|getStreamFromPool", "it creates streams"),
    (r"\bthreading\b|\bThread\(|std::thread", "it uses threads"),
    (r"\.half\(|float16|bfloat16|__half|allow_tf32|set_float32_matmul", "it uses types of lower precision"),
    (r"data_ptr\(\)\s*(==|in\b)|\bid\(\w+\)", "it compares addresses of tensors"),
    (r"elapsed_time|perf_counter|Event\.", "it uses clocks or events"),
)
_KERNELS = r"load_inline|load\(|triton\.jit|cpp_extension|torch\.ops\.|ctypes|cutlass|cute\.|tilelang|RawKernel"

#: Speed-up above which the report advises a review of the answer.
_SUSPICIOUS_SPEED_UP = 10.0


@dataclasses.dataclass
class Options:
    device: str = "cpu"
    seeds: int = 5
    seed: int = 0
    time_limit: float = 600.0
    timing: bool = True
    compile: bool = False


@dataclasses.dataclass
class Report:
    """The results of a judgement; `reasons` say why the answer is WRONG."""

    checks: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    reasons: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    hints: list[str] = dataclasses.field(default_factory=list)
    figures: dict[str, Any] = dataclasses.field(default_factory=dict)
    asked_all: bool = False

    @property
    def verdict(self) -> str:
        return "RIGHT" if self.asked_all and not self.reasons else "WRONG"

    def add(self, what: str, failures: list[str], **figures: object) -> None:
        failures = [*map(printable, failures)]
        self.checks.append({"what": what, "passed": not failures, "failures": failures, **figures})
        for failure in failures:
            if _kind(failure) not in map(_kind, self.reasons):
                self.reasons.append(failure)


def _kind(reason: str) -> str:
    """Returns the kind of a reason: its text without numbers."""
    return re.sub(r"[\d.]+(e[+-]\d+)?", "#", reason)


@dataclasses.dataclass
class Expected:
    """Model's results for inputs: in its own types, and in float64."""

    peer: list[torch.Tensor]
    want: list[torch.Tensor]
    terms: int
    floats: bool

    @property
    def form(self) -> list[tuple[list[int], str]]:
        return [(list(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for tensor in self.peer]

    @property
    def size(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.peer)


class Judge:
    """Sends requests to an answer, and compares its outputs."""

    def __init__(self, task: Task, options: Options, child: Child) -> None:
        self.report = Report()
        self._task, self._options, self._child = task, options, child
        self._model = task.build(task.module.Model, options.seed)
        self._last: list[tuple[torch.Tensor, torch.Tensor]] = []  # last outputs of the answer and of Model

    def judge(self, answer: pathlib.Path) -> None:
        options = self._options
        self._static_hints(answer.read_text(errors="replace"))
        load = {"task": str(self._task.path.resolve()), "answer": str(answer.resolve())}
        load |= {"device": options.device, "draw_on": self._task.draw_on}
        loaded = self._request("load", "load", **load, seed=options.seed)
        if loaded is None:
            return
        self._compare_weights(loaded["weights"])
        seeds = range(options.seed, options.seed + options.seeds)
        trials: list[tuple[str, int, str, bool, str]] = [(f"seed {seed}", seed, "normal", False, "") for seed in seeds]
        first = seeds[0]
        trials += [
            ("large inputs", first, "large", False, ""),
            ("small inputs", first, "small", False, ""),
            ("other addresses", seeds[-1] + 1, "normal", False, "moved"),
            ("memory filled with NaN", seeds[-1] + 2, "normal", False, "filled"),
            ("one NaN in the inputs", first, "normal", True, ""),
        ]
        if options.device == "cuda":
            trials.append(("streams delayed", seeds[-1] + 3, "normal", False, "delayed"))
            trials.append(("another current stream", seeds[-1] + 4, "normal", False, "other stream"))
        for trial in trials:
            if not self._try(*trial):
                return
        timed = options.timing and not self.report.reasons
        if timed and not (self._time(seeds[-1] + 6) and self._try("after timing", seeds[-1] + 5, "normal", False, "")):
            return
        repeated = self._request("the same inputs twice", "repeat", seed=first)
        if repeated and not repeated["same"]:
            self.report.notes.append("two calls on the same inputs differ in their bits")
        if options.device == "cuda" and (captured := self._request("work joined", "capture", seed=first)):
            self.report.add("work joined", [_compare.SIDE_STREAM] if captured["unjoined"] else [])
        self.report.asked_all = True

    def _request(self, what: str, do: str, **request: object) -> dict[str, Any] | None:
        """Sends a request. Returns the reply, or None after adding a reason to the report."""
        try:
            reply = self._child.ask(do, **request)
        except Ended as error:
            reply = {"error": str(error)}
        if "error" in reply and (lacking := _lacking(str(reply["error"]))):
            raise TaskError(f"this machine lacks {lacking}, which the answer needs: {reply['error']}")
        if "error" in reply:
            self.report.add(what, [f"{what}: {reply['error']}"])
        elif reply["replaced"]:
            self.report.add(what, [f"it replaced {name}, which measures it" for name in reply["replaced"]])
        else:
            return reply
        return None

    def _expect(self, seed: int, size: str = "normal", with_nan: bool = False) -> Expected:
        inputs = self._task.draw(seed, size, with_nan)
        peer = run_model(self._model, inputs, seed)
        want = run_exact(self._model, inputs, seed)
        if not peer or not all(_compare.can_judge(tensor) for tensor in peer):
            raise TaskError("Model returns nothing, float64 or complex numbers; expected float32 or less, or integers")
        if size == "normal" and not with_nan and not all(map(_compare.has_finite_values, want, peer)):
            raise TaskError("Model returns no finite number on inputs of normal size, so results cannot be compared")
        floats = computes_in_floats(self._model, inputs)
        return Expected(peer, want, contraction(self._model, inputs), floats)

    def _compared(
        self, what: str, do: str, expected: Expected, **request: object
    ) -> tuple[dict[str, Any], list[str], dict[str, float]] | None:
        """Sends a request and compares the outputs. Returns the reply, the errors in its outputs, and figures, or None
        after adding a reason to the report."""
        self._child.make_room(expected.size)
        reply = self._request(what, do, outputs=expected.form, **request)
        if reply is None:
            return None
        failures = _compare.form_errors(reply["outputs"], expected.peer, self._options.device)
        if failures:
            return reply, failures, {}
        try:
            got = self._child.outputs(expected.peer)
        except Ended as error:
            return reply, [f"{what}: {error}"], {}
        figures: dict[str, float] = {}
        for number, (output, want, peer) in enumerate(zip(got, expected.want, expected.peer, strict=True)):
            compared = _compare.compare(output, want, peer, expected.terms, expected.floats)
            prefix = f"output {number}: " if len(got) > 1 else ""
            wrong = compared.failures
            if wrong and self._last and _compare.is_cached(output, peer, *self._last[number]):
                wrong = ["it returned the result of the call before, although the inputs differ: the output is cached"]
            failures += [prefix + failure for failure in wrong]
            self.report.notes += [f"{what}: {prefix}{note}" for note in compared.notes]
            figures = _compare.largest(figures, compared.figures)
        self._last = [*zip(got, expected.peer, strict=True)]
        return reply, failures, figures

    def _try(self, what: str, seed: int, size: str, with_nan: bool, mode: str) -> bool:
        """Tries one kind of call. Returns False if no others should be tried."""
        expected = self._expect(seed, size, with_nan)
        compared = self._compared(what, "run", expected, seed=seed, size=size, with_nan=with_nan, mode=mode)
        if compared is None:
            return False
        reply, failures, figures = compared
        if reply["late"]:
            failures.append(_compare.SIDE_STREAM if self._options.device == "cuda" else _compare.LATE)
        if reply["overwritten"]:
            failures.append("a later call overwrote the output of an earlier one")
        failures += [f"it changed input {number}" for number in reply["changed_inputs"]]
        if mode == "other stream" and failures:
            note = f"it is right only on the default stream; on another one: {failures[0]}"
            self.report.notes.append(printable(note))
            failures = []
        self.report.add(what, failures, **figures)
        return True

    def _compare_weights(self, weights: dict[str, float]) -> None:
        for name, value in weight_sums(self._model).items():
            if name in weights and weights[name] != value and value == value:
                self.report.notes.append(
                    f"its {name} is not Model's: weights are drawn from the same seed, so ModelNew must draw the same "
                    "values as Model, in the same order"
                )
                return

    def _time(self, seed: int) -> bool:
        """Times calls on new inputs, of this seed and the following ones. Returns False if no other calls should be
        tried."""
        figures, between = self._time_models(seed)
        before = time.monotonic()
        reply = self._request("timing", "time", seed=seed)
        if reply is None:
            return False
        failures = _implausible(reply, time.monotonic() - before, between)
        for kept_index, number in enumerate(reply["kept"] if not failures else []):
            compared = self._compared("timing", "kept", self._expect(seed + number), place=kept_index)
            if compared is None:
                return False
            failures += compared[1]
        self.report.add("timing", failures)
        if not failures:
            seconds = reply["seconds"]
            timed = [name for name in ("model", "compiled") if f"{name}_seconds" in figures]
            speed_ups = {f"speed_up_over_{name}": figures[f"{name}_seconds"] / seconds for name in timed}
            self.report.figures |= {**figures, "seconds": seconds, "spread": reply["spread"], **speed_ups}
            if speed_ups["speed_up_over_model"] > _SUSPICIOUS_SPEED_UP:
                self.report.notes.append(
                    f"it is more than {_SUSPICIOUS_SPEED_UP:g} times as fast as Model: review its code"
                )
        return True

    def _time_models(self, seed: int) -> tuple[dict[str, float], float]:
        """Returns the times of Model, plain and compiled, and the seconds that the judge spends between calls."""
        before = time.monotonic()
        model = _timing.time_cold(self._model, self._task.redrawn(seed, Operands()))
        between = max(0.0, (time.monotonic() - before) / model.calls - model.seconds)
        figures = {"model_seconds": model.seconds, "model_spread": model.spread}
        if self._options.compile:
            try:
                compiled = _timing.time_cold(torch.compile(self._model), self._task.redrawn(seed, Operands()))
                figures |= {"compiled_seconds": compiled.seconds, "compiled_spread": compiled.spread}
            except Exception as error:  # compilers raise exceptions of any type, or are missing
                self.report.notes.append(printable(f"torch.compile cannot run Model: {error}".splitlines()[0]))
        return figures, between

    def _static_hints(self, text: str) -> None:
        code = re.sub(r"(?m)^\s*#.*$", "", text)
        self.report.hints += [hint for pattern, hint in _HINTS if re.search(pattern, code)]
        if not re.search(_KERNELS, code):
            self.report.hints.append("it contains no kernel: torch's operators do the work")


def _lacking(error: str) -> str:
    """Returns the thing whose lack on this machine explains the failure of an answer, or ""."""
    from torch.utils import cpp_extension

    lacks = (
        (
            not torch.cuda.is_available(),
            "a CUDA device that torch can use",
            r"NVIDIA driver|CUDA (enabled|GPUs)|active drivers",
        ),
        (cpp_extension.CUDA_HOME is None, "a CUDA compiler", r"CUDA_HOME|\bnvcc\b"),
        (not cpp_extension.is_ninja_available(), "ninja", r"Ninja is required"),
    )
    return next((what for is_lacking, what, words in lacks if is_lacking and re.search(words, error)), "")


def _implausible(reply: dict[str, Any], took: float, between: float) -> list[str]:
    """Returns the reasons why the reported times are impossible. The judge measured `took` seconds for all calls
    together, and `between` seconds of its own work between two calls."""
    calls, kept_calls = reply["calls"], reply["kept"]
    numbers = 0 < reply["seconds"] < math.inf and reply["spread"] >= 0
    if not numbers or len({*kept_calls}) != _answer.KEPT_CALLS or not all(0 <= number < calls for number in kept_calls):
        return ["timing: the reported figures are inconsistent"]
    claimed = calls * reply["seconds"]
    # The limit is generous for busy machines, and because half of the calls take less than the median.
    if claimed > 3 * took or took > 4 * (claimed + calls * between) + 2:
        return [f"its clock is wrong: {calls} calls took {claimed:.2g} s by its clock, but {took:.2g} s by the judge's"]
    return []


def judge_answer(task: pathlib.Path, answer: pathlib.Path, options: Options) -> Report:
    """Runs and compares an answer. Raises TaskError when the task is unusable.

    The process must not have used CUDA before, because this forks it."""
    child = Child(options.time_limit)
    threads = torch.get_num_threads()
    try:
        if options.device == "cuda" and not torch.cuda.is_available():
            raise TaskError("torch finds no CUDA device, or was built without CUDA; use --device cpu")
        torch.set_num_threads(1)  # as in the process of the answer
        judge = Judge(_open_task(task, options), options, child)
        judge.judge(answer)
        if judge.report.reasons and (log_text := child.last_words()):
            judge.report.figures["log"] = log_text
        return judge.report
    finally:
        torch.set_num_threads(threads)
        child.close()


def _open_task(path: pathlib.Path, options: Options) -> Task:
    """Loads the task; its inputs are drawn on the GPU if its code allows."""
    reason: Exception | None = None
    for draw_on in dict.fromkeys((options.device, "cpu")):
        task = Task(path, options.device, draw_on)
        try:
            run_exact(task.build(task.module.Model, options.seed), task.draw(options.seed), options.seed)
            return task
        except Exception as error:
            reason = error
    raise TaskError(f"Model of {path} does not run in float64: {type(reason).__name__}: {reason}") from reason


def _print(report: Report) -> None:
    for check in report.checks:
        figures = ""
        if "error" in check:
            figures = f"  error {check['error']:.2e} (Model {check['framework_error']:.2e})"
            figures += f", worst tile {check['tile_difference']:.1e}"
        print(f"{check['what']:24}{'passed' if check['passed'] else 'FAILED'}{figures}")
    for kind, lines in (("hint", report.hints), ("note", report.notes), ("reason", report.reasons)):
        for line in lines:
            print(f"{kind}: {line}")
    times = report.figures
    timing_text = ""
    if "seconds" in times:
        timing_text = f": {times['seconds'] * 1e6:.1f} us (spread {times['spread']:.1%})"
        for name, title in (("model", "Model"), ("compiled", "torch.compile")):
            if f"{name}_seconds" in times:
                timing_text += f"; {title} {times[f'{name}_seconds'] * 1e6:.1f} us"
                timing_text += f" (spread {times[f'{name}_spread']:.1%}), speed-up {times[f'speed_up_over_{name}']:.2f}"
                ours, other = (
                    _timing.Time(times[f"{prefix}seconds"], times[f"{prefix}spread"]) for prefix in ("", f"{name}_")
                )
                timing_text += ", AMBIGUOUS" if ours.ambiguous_with(other) else ""
    print(f"{report.verdict}{timing_text}")


def _plain(value: Any) -> Any:
    """Returns a value for JSON: null for NaN and infinities."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _machine(device: str) -> dict[str, Any]:
    gpu = {"gpu": {"name": torch.cuda.get_device_name()}} if device == "cuda" else {}
    cpu = {"model": platform.processor() or platform.machine()}
    return {**gpu, "cpu": cpu, "versions": {"torch": torch.__version__}}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fovea.lab.judge", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", type=pathlib.Path, metavar="TASK.py")
    parser.add_argument("answer", type=pathlib.Path, metavar="ANSWER.py")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="default: %(default)s")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds for the inputs; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; default: %(default)s")
    parser.add_argument(
        "--time-limit", type=float, default=600, help="time limit of the answer in seconds; default: %(default)s"
    )
    parser.add_argument("--no-time", dest="timing", action="store_false", help="do not time anything")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="do not time torch.compile")
    _document.add_options(parser, "also write the verdict to FILE; - writes only the verdict, to standard output")
    values = vars(parser.parse_args(arguments))
    task, answer, file = values.pop("task"), values.pop("answer"), values.pop("json")
    _document.check(parser, file, values.pop("overwrite"), (task, answer))
    for path in (task, answer):
        if not path.is_file():
            parser.error(f"{path} is not a file")
    if values["seeds"] < 1:
        parser.error(f"--seeds must be at least 1, got {values['seeds']}")
    if not 0 < values["time_limit"] <= 86400:
        parser.error(f"--time-limit must be more than 0 and at most 86400 seconds, got {values['time_limit']:g}")
    options = Options(**values)
    options.compile = options.compile and options.device == "cuda"
    try:
        report = judge_answer(task, answer, options)
    except TaskError as error:
        return _fail(str(error))
    except (Exception, SystemExit) as error:  # the judge ran out of memory, or the task exits
        return _fail(f"the judge failed, which says nothing about the answer: {type(error).__name__}: {error}")
    try:
        _write_report(report, file, {"device": options.device, "task": str(task), "answer": str(answer)})
    except Exception as error:
        sys.stdout = open(os.devnull, "w")  # Python would otherwise fail again at exit, with another exit code
        return _fail(f"{report.verdict}, but the verdict cannot be written: {error}")
    return 0 if report.verdict == "RIGHT" else 1


def _write_report(report: Report, file: str | None, arguments: dict[str, str]) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for encodings other than UTF-8
    if file != "-":
        _print(report)
    if file:
        description = {"fovea": fovea.__version__, "machine": _machine(arguments["device"])}
        description |= {**arguments, "verdict": report.verdict}
        _document.write(file, "kernel.judge", _plain({**description, **dataclasses.asdict(report)}))
    sys.stdout.flush()


def _fail(why: str) -> int:
    with contextlib.suppress(OSError):
        print(f"fovea: {printable(why)}", file=sys.stderr, flush=True)
    return 2


if __name__ == "__main__":
    sys.exit(main())
