"""python -m fovea.judge TASK.py ANSWER.py: judges a foreign kernel.

TASK.py is a task in KernelBench's form (Model, get_inputs, get_init_inputs), ANSWER.py has a class ModelNew. ModelNew
runs in a process of its own, on fresh inputs of several seeds and sizes; what it returns is compared with Model in
float64, beside the error of Model in its own precision. Then both are timed.
The exit code is 0 for RIGHT, 1 for WRONG, 2 when the task or the arguments cannot be used.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import platform
import re
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from typing import Any

import numpy as np
import torch

import fovea
from fovea import _answer, _compare, _timing
from fovea._task import Task, TaskError, contraction, run_exact, run_model, weights_of

#: What the text of an answer may say of it: hints, from which nothing follows.
_HINTS = (
    (r"\bexcept\b", "it catches exceptions: a fallback may run instead of its kernel"),
    (r"torch\.cuda\.[Ss]tream|cudaStreamCreate|getStreamFromPool", "it uses streams of its own"),
    (r"\bthreading\b|\bThread\(|std::thread", "it uses threads"),
    (r"\.half\(|float16|bfloat16|__half|allow_tf32|set_float32_matmul", "it names types of less precision"),
    (r"data_ptr\(\)\s*(==|in\b)|\bid\(\w+\)", "it looks at the addresses of tensors"),
    (r"elapsed_time|perf_counter|Event\.", "it touches what measures time"),
)
_KERNELS = r"load_inline|load\(|triton\.jit|cpp_extension|torch\.ops\.|ctypes|cutlass|cute\.|tilelang|RawKernel"

#: A speed-up that deserves a second look.
_MARVEL = 10.0


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
    """What was asked, and the answers; `reasons` are why it is WRONG."""

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
        self.checks.append({"what": what, "passed": not failures, "failures": failures, **figures})
        for failure in failures:
            if _kind(failure) not in map(_kind, self.reasons):
                self.reasons.append(failure)


def _kind(reason: str) -> str:
    """Reasons of one kind differ in their numbers alone."""
    return re.sub(r"[\d.]+(e[+-]\d+)?", "#", reason)


class Ended(Exception):
    """The process of the answer has ended, or was ended."""


class Child:
    """The process of the answer, which is asked in lines of JSON."""

    def __init__(self, time_limit: float) -> None:
        if torch.cuda.is_initialized():
            raise RuntimeError("this process has used CUDA already, so the answer cannot get one of its own")
        shared = pathlib.Path("/dev/shm")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-judge-", dir=shared if shared.is_dir() else None))
        self._time_limit = self._left = time_limit
        there, self._requests = os.pipe()
        self._replies, here = os.pipe()
        self._pending = b""
        self._ended = False
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._requests)
            os.close(self._replies)
            _answer.in_child(there, here, self.folder)
        os.close(there)
        os.close(here)

    def ask(self, do: str, **request: object) -> dict[str, Any]:
        """Its reply. Throws Ended when none comes within the time, or none that makes sense."""
        try:
            os.write(self._requests, (json.dumps({"do": do, **request}) + "\n").encode())
        except BrokenPipeError:
            pass  # the reply tells
        while b"\n" not in self._pending:
            before = time.monotonic()
            ready = self._left > 0 and select.select([self._replies], [], [], self._left)[0]
            self._left -= time.monotonic() - before
            if not ready:
                raise Ended(f"it did not end within {self._time_limit:g} s")
            read = os.read(self._replies, 1 << 16)
            if not read:
                status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
                self._ended = True
                how = signal.Signals(-status).name if status < 0 else f"exit code {status}"
                raise Ended(f"its process ended with {how}")
            self._pending += read
        line, self._pending = self._pending.split(b"\n", 1)
        reply = json.loads(line)
        if not isinstance(reply, dict):
            raise ValueError("the reply is no object")
        return reply

    def output(self, number: int, like: torch.Tensor) -> torch.Tensor:
        """An output of its last run, which has the shape and the type of `like`."""
        data = torch.from_numpy(np.fromfile(self.folder / f"output{number}", np.uint8))
        return data.to(like.device).view(like.dtype).view(like.shape)

    def last_words(self) -> str:
        log = self.folder / "log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""

    def close(self) -> None:
        os.close(self._requests)
        os.close(self._replies)
        with contextlib.suppress(ProcessLookupError):  # what it has started, a compiler say
            os.killpg(self._pid, signal.SIGKILL)
        if not self._ended:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        shutil.rmtree(self.folder, ignore_errors=True)


class Judge:
    """Asks one answer after one thing, and compares."""

    def __init__(self, task: Task, options: Options, child: Child) -> None:
        self.report = Report()
        self._task, self._options, self._child = task, options, child
        self._model = task.build(task.module.Model, options.seed)
        self._last: list[torch.Tensor] = []

    def judge(self, answer: pathlib.Path) -> None:
        options = self._options
        self._static_hints(answer.read_text(errors="replace"))
        load = {"task": str(self._task.path.resolve()), "answer": str(answer.resolve())}
        load |= {"device": options.device, "draw_on": self._task.draw_on}
        loaded = self._asked("load", "load", **load, seed=options.seed)
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
        if options.timing and not self.report.reasons:
            self._time(first)
            self._try("after timing", seeds[-1] + 5, "normal", False, "")
        repeated = self._asked("the same inputs twice", "repeat", seed=first)
        if repeated and not repeated["same"]:
            self.report.notes.append("two calls on the same inputs differ in their bits")
        if options.device == "cuda" and (captured := self._asked("work joined", "capture", seed=first)):
            self.report.add("work joined", [_compare.SIDE_STREAM] if captured["unjoined"] else [])
        self.report.asked_all = True

    def _asked(self, what: str, do: str, **request: object) -> dict[str, Any] | None:
        """The reply; none where there is a reason instead."""
        try:
            reply = self._child.ask(do, **request)
        except Ended as error:
            self.report.add(what, [f"{what}: {error}"])
        except (ValueError, UnicodeDecodeError):
            self.report.add(what, [f"{what}: its process wrote something of its own between the replies"])
        else:
            if "error" not in reply:
                return reply
            self.report.add(what, [f"{what}: {reply['error']}"])
        return None

    def _try(self, what: str, seed: int, size: str, with_nan: bool, mode: str) -> bool:
        """Whether it makes sense to go on."""
        inputs = self._task.draw(seed, size, with_nan)
        peer = run_model(self._model, inputs, seed)
        want = run_exact(self._model, inputs, seed)
        if not peer or not all(_compare.can_judge(tensor) for tensor in peer):
            raise TaskError("Model returns nothing, float64 or complex numbers; expected float32 or less, or integers")
        shapes = [[list(tensor.shape), str(tensor.dtype).removeprefix("torch.")] for tensor in peer]
        reply = self._asked(what, "run", seed=seed, size=size, with_nan=with_nan, mode=mode, outputs=shapes)
        if reply is None:
            return False
        failures = _compare.form(reply["outputs"], peer, self._options.device)
        figures: dict[str, float] = {}
        if not failures:
            got = [self._child.output(number, tensor) for number, tensor in enumerate(peer)]
            terms = contraction(self._model, inputs)
            for number, (one, exact, framework) in enumerate(zip(got, want, peer, strict=True)):
                compared = _compare.compare(one, exact, framework, terms)
                of = f"output {number}: " if len(got) > 1 else ""
                wrong = compared.failures
                if wrong and self._last and _compare.is_cached(one, self._last[number]):
                    wrong = ["it returned the result of the call before, of other inputs: the output is cached"]
                failures += [of + failure for failure in wrong]
                self.report.notes += [f"{what}: {of}{note}" for note in compared.notes]
                figures = {name: max(value, figures.get(name, 0.0)) for name, value in compared.figures.items()}
            self._last = got
        if reply["late"]:
            failures.append(_compare.SIDE_STREAM if self._options.device == "cuda" else _compare.LATE)
        if reply["overwritten"]:
            failures.append("a later call overwrote the output of an earlier one")
        failures += [f"it changed input {number}" for number in reply["changed_inputs"]]
        failures += [f"it replaced {name}, which measures it" for name in reply["replaced"]]
        if mode == "other stream" and failures:
            self.report.notes.append(f"it is right on the default stream alone; on another one: {failures[0]}")
            failures = []
        self.report.add(what, failures, **figures)
        return True

    def _compare_weights(self, weights: dict[str, float]) -> None:
        for name, value in weights_of(self._model).items():
            if name in weights and weights[name] != value and value == value:
                self.report.notes.append(
                    f"its {name} is not Model's: both are drawn from one seed, so ModelNew has to draw what Model "
                    "draws, in the same order"
                )
                return

    def _time(self, seed: int) -> None:
        inputs = self._task.draw(seed)
        figures = self.report.figures
        model = _timing.time_cold(self._model, inputs)
        figures.update(model_seconds=model.seconds, model_spread=model.spread)
        if self._options.compile:
            try:
                compiled = _timing.time_cold(torch.compile(self._model), inputs)
                figures.update(compiled_seconds=compiled.seconds, compiled_spread=compiled.spread)
            except Exception as error:  # whatever compilers and their absence bring
                self.report.notes.append(f"torch.compile cannot run Model: {str(error).splitlines()[0]}")
        del inputs
        if measured := self._asked("timing", "time", seed=seed):
            figures.update(measured)
            for name in ("model", "compiled"):
                if f"{name}_seconds" in figures:
                    figures[f"speed_up_over_{name}"] = figures[f"{name}_seconds"] / figures["seconds"]
            if figures["speed_up_over_model"] > _MARVEL:
                self.report.notes.append(f"it is more than {_MARVEL:g} times as fast as Model: look at it twice")

    def _static_hints(self, text: str) -> None:
        code = re.sub(r"(?m)^\s*#.*$", "", text)
        self.report.hints += [hint for pattern, hint in _HINTS if re.search(pattern, code)]
        if not re.search(_KERNELS, code):
            self.report.hints.append("it names no kernel of its own: torch's operators compute it")


def judge_answer(task: pathlib.Path, answer: pathlib.Path, options: Options) -> Report:
    """Runs and compares an answer. Throws TaskError when the task cannot be used.

    The process forks first, so it may not have used CUDA before."""
    child = Child(options.time_limit)
    threads = torch.get_num_threads()
    try:
        if options.device == "cuda" and not torch.cuda.is_available():
            raise TaskError("there is no CUDA device, or torch was built without CUDA; --device cpu works here")
        torch.set_num_threads(1)  # as the answer has
        judge = Judge(_open_task(task, options), options, child)
        judge.judge(answer)
        if judge.report.reasons and (words := child.last_words()):
            judge.report.figures["log"] = words
        return judge.report
    finally:
        torch.set_num_threads(threads)
        child.close()


def _open_task(path: pathlib.Path, options: Options) -> Task:
    """The task, whose inputs are drawn on the GPU where its code allows."""
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
    told = ""
    if "seconds" in times:
        told = f": {times['seconds'] * 1e6:.1f} us (spread {times['spread']:.1%})"
        for name, word in (("model", "Model"), ("compiled", "torch.compile")):
            if f"{name}_seconds" in times:
                told += f"; {word} {times[f'{name}_seconds'] * 1e6:.1f} us"
                told += f", speed-up {times[f'speed_up_over_{name}']:.2f}"
    print(f"{report.verdict}{told}")


def _plain(value: Any) -> Any:
    """As JSON has it: null for NaN and infinities."""
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
    parser = argparse.ArgumentParser(prog="python -m fovea.judge", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", type=pathlib.Path, metavar="TASK.py")
    parser.add_argument("answer", type=pathlib.Path, metavar="ANSWER.py")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="default: %(default)s")
    parser.add_argument("--seeds", type=int, default=5, help="how many draws of the inputs; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="the first of them; default: %(default)s")
    parser.add_argument("--time-limit", type=float, default=600, help="seconds for the answer; default: %(default)s")
    parser.add_argument("--no-time", dest="timing", action="store_false", help="do not time anything")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="do not time torch.compile")
    parser.add_argument("--json", metavar="FILE", help="also write the verdict, or to the standard output alone with -")
    given = vars(parser.parse_args(arguments))
    task, answer, file = given.pop("task"), given.pop("answer"), given.pop("json")
    for path in (task, answer):
        if not path.is_file():
            parser.error(f"{path} is no file")
    if given["seeds"] < 1:
        parser.error("--seeds takes a whole number from 1 on")
    options = Options(**given)
    options.compile = options.compile and options.device == "cuda"
    try:
        report = judge_answer(task, answer, options)
    except TaskError as error:
        print(f"fovea: {error}", file=sys.stderr)
        return 2
    except Exception:  # of the judge itself, memory that does not suffice say: nothing that follows from the answer
        traceback.print_exc()
        return 2
    if file != "-":
        _print(report)
    if file:
        about = {"kind": "judge", "version": 1, "fovea": fovea.__version__, "machine": _machine(options.device)}
        about |= {"device": options.device, "task": str(task), "answer": str(answer), "verdict": report.verdict}
        text = json.dumps(_plain({**about, **dataclasses.asdict(report)}), indent=1) + "\n"
        sys.stdout.write(text) if file == "-" else pathlib.Path(file).write_text(text)
    return 0 if report.verdict == "RIGHT" else 1


if __name__ == "__main__":
    sys.exit(main())
