"""The arena: the program under attack, a tiny model, good photos and their right rows; and cases."""

from __future__ import annotations

import dataclasses
import io
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from PIL import Image

from attack.supervise import Ending, Process, shell_line

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 5.0  # seconds that one input may take beyond the cost of its honest pixels
MEMORY = 1_500_000_000  # bytes that a job of eight workers may take
STOP = 2.0  # seconds within which a signal ends a job
CRASH, HANG, ROWS, MEMORY_USE, OTHER = "crash", "hang", "wrong rows", "memory", "other"
# C0 but newline, DEL, C1 and what turns text around; neither may reach a terminal.
_RAW = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNFORESEEN = (b"internal error", b"terminate called", b"std::", b"Assertion")
PHOTOS = 24


@dataclasses.dataclass
class Problem:
    category: str
    text: str


class Case:
    """One attack, in a folder of its own, which is kept when something went wrong."""

    def __init__(self, arena: Arena, kind: str, name: str, folder: pathlib.Path) -> None:
        self.arena, self.kind, self.name, self.folder = arena, kind, name, folder
        self.problems: list[Problem] = []
        self.commands: list[str] = []
        self.seconds = 0.0
        self.peak = 0
        self.accepted = 0
        self.refused = 0

    def problem(self, category: str, text: str) -> None:
        self.problems.append(Problem(category, text))

    def start(
        self,
        *arguments: Any,
        program: list[str] | None = None,
        note: str = "",
        folder: pathlib.Path | None = None,
        **process: Any,
    ) -> Process:
        """Runs the program, or another one, with these arguments; by default in the folder of the case."""
        command = [a if isinstance(a, bytes) else os.fspath(a) for a in (program or [self.arena.program])]
        command += [a if isinstance(a, bytes) else str(a) for a in arguments]
        out = f" > {process['stdout']}" if process.get("stdout") else ""
        line = shell_line(command, process.get("env"), process.get("limits"), out)
        self.commands.append(line + (f"  # {note}" if note else ""))
        return Process(command, folder or self.folder, **process)

    def end(
        self,
        process: Process,
        *,
        patience: float = PATIENCE,
        codes: tuple[int, ...] = (0, 3),
        memory: int = MEMORY,
    ) -> Ending:
        """Its ending, with whatever is wrong about it noted."""
        ending = process.end(patience)
        self.seconds = max(self.seconds, ending.seconds)
        self.peak = max(self.peak, ending.peak)
        said = ending.stderr.decode(errors="replace").strip()[-300:]
        if ending.hung:
            self.problem(HANG, f"did not end within {patience:.1f} s")
        elif ending.code < 0 and ending.code not in codes:
            self.problem(CRASH, f"killed by signal {-ending.code}: {said}")
        elif ending.code not in codes:
            self.problem(OTHER, f"exit code {ending.code}, expected one of {codes}: {said}")
        if ending.peak > memory:
            self.problem(MEMORY_USE, f"took {ending.peak / 1e6:.0f} MB, allowed are {memory / 1e6:.0f}")
        self.judge_text(ending.stderr, unforeseen=ending.code >= 0)
        return ending

    def judge_text(self, text: bytes, unforeseen: bool = True) -> None:
        """Notes what should not be printed: control characters, and messages that nobody wrote on purpose."""
        found = _RAW.search(text.decode(errors="replace"))
        if found:
            around = text.decode(errors="replace")[max(0, found.start() - 60) : found.end() + 20]
            self.problem(OTHER, f"prints control characters: {around!r}")
        for word in _UNFORESEEN:
            if unforeseen and word in text:
                self.problem(OTHER, f"unforeseen: {text[-300:]!r}")

    def run(
        self,
        *arguments: Any,
        patience: float = PATIENCE,
        codes: tuple[int, ...] = (0, 3),
        memory: int = MEMORY,
        **process: Any,
    ) -> Ending:
        return self.end(self.start(*arguments, **process), patience=patience, codes=codes, memory=memory)

    def write(self, name: str | bytes, data: bytes) -> pathlib.Path:
        path = pathlib.Path(os.fsdecode(os.path.join(os.fsencode(self.folder), os.fsencode(name))))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


class Arena:
    """`folder` holds everything; failing cases stay in `folder`/failed. In a `small` attack, that of the
    tests, what rightly takes time is smaller."""

    def __init__(self, folder: pathlib.Path, program: pathlib.Path, small: bool = False) -> None:
        self.folder, self.program = folder.resolve(), program.resolve()
        self.huge_scale = 0.05 if small else 1.0  # of the limit of pixels
        self.bomb_scale = 0.25 if small else 1.0
        self.moments = 1.0 if small else 4.0  # seconds within which signals come
        self.work = self.folder / "work"
        self.failed = self.folder / "failed"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.model = self.work / "model"
        self._number = 0
        self.label = ""  # begins the names of failed cases
        subprocess.run(
            [program, "init", "--preset", "tiny", "--seed", "0", "-o", self.model],
            check=True,
            capture_output=True,
        )
        # A background job of a shell ignores Ctrl-C, and so would what is attacked from it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.photos = self._write_photos()
        self.pixels = self._good("preprocess")
        self.embeddings = self._good("embed", *self.precisely)
        self.side: tuple[int, int] = self.pixels.shape[1:3]

    # So that rows can be compared bit by bit with those of other batches.
    precisely = ("--device", "cpu", "--precision", "fp32", "--threads", "1")

    @property
    def library(self) -> pathlib.Path:
        return self.program.parent.parent / "lib" / "libfovea.so"

    @property
    def package(self) -> pathlib.Path:
        """The Python package of the same sources."""
        return self.program.parents[3] / "python"

    def _write_photos(self) -> list[pathlib.Path]:
        folder = self.work / "photos"
        folder.mkdir()
        random = np.random.default_rng(11)
        paths = []
        for number in range(PHOTOS):
            small = Image.fromarray(random.integers(0, 256, (5, 7, 3), dtype=np.uint8))
            buffer = io.BytesIO()
            kind = ("JPEG", "PNG", "WEBP")[number % 3]
            small.resize((30 + number * 7, 200 - number * 5), Image.Resampling.BICUBIC).save(buffer, kind)
            paths.append(folder / f"good{number:02}.{kind.lower()}")
            paths[-1].write_bytes(buffer.getvalue())
        return paths

    def _good(self, command: str, *flags: str) -> np.ndarray:
        out = self.work / f"good-{command}.npy"
        arguments = [command, *self.photos, "-m", self.model, "-o", out, *flags]
        subprocess.run([self.program, *arguments], check=True, capture_output=True)
        return np.load(out)

    def new_folder(self, name: str) -> pathlib.Path:
        """A folder for what several cases use."""
        return pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.work))

    @contextmanager
    def case(self, kind: str, name: str) -> Iterator[Case]:
        self._number += 1
        safe = re.sub(r"[^\w.-]", "_", name)[:60]
        folder = self.work / f"{kind}-{self._number:05}-{safe}"
        folder.mkdir()
        folder.chmod(0o777)
        case = Case(self, kind, name, folder)
        yield case
        if case.problems:
            self._keep(case, f"{self.label}{kind}-{self._number:05}-{safe}")
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def _keep(self, case: Case, name: str) -> None:
        self.failed.mkdir(exist_ok=True)
        model = self.failed / "model"
        if not model.exists():
            shutil.copytree(self.model, model)
        target = self.failed / name
        shutil.rmtree(target, ignore_errors=True)
        case.folder.rename(target)
        text = "".join(f"# {problem.category}: {problem.text!r}\n" for problem in case.problems)
        lines = "\n".join(case.commands).replace(str(case.folder), ".").replace(str(self.model), "../model")
        script = target / "repeat.sh"
        script.write_text(f'#!/usr/bin/env bash\n{text}cd "$(dirname "$0")"\n{lines}\n')
        script.chmod(0o755)
        case.folder = target
