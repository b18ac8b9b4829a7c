"""The judge's handle to the process of a foreign answer: sends requests, validates replies, and ends the process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import time
from typing import Any

import numpy as np
import torch

from fovea.lab import _answer, _processes

#: Maximum bytes of a reply, and bytes kept from the end of an answer's printed output.
_MAX_REPLY_BYTES, _MAX_LOG_BYTES = 4 << 20, 16 << 10

#: The forms of replies, which are checked because the answer may write to the same pipe.
_OUTPUTS = [{"shape": [int], "dtype": str, "class": str, "device": str}]
_FORMS: dict[str, dict[str, Any]] = {
    "load": {"weights": {str: float}},
    "run": {"outputs": _OUTPUTS, "late": bool, "overwritten": bool, "changed_inputs": [int]},
    "time": {"seconds": float, "spread": float, "calls": int, "kept": [int]},
    "kept": {"outputs": _OUTPUTS},
    "repeat": {"same": bool},
    "capture": {"unjoined": bool},
}

# Control characters, invisible characters, and lone surrogates, which cannot be encoded.
_DECEPTIVE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def printable(text: str, longest: int = 1000) -> str:
    """Escapes foreign text for one line of a terminal, as the program's io::printable does."""
    if len(text) > longest:
        text = f"{text[: longest // 2]} ... {text[longest // 2 - longest :]}"
    return _DECEPTIVE.sub(lambda c: f"\\x{ord(c[0]):02x}" if c[0] < "\x80" else f"\\u{ord(c[0]):04x}", text)


def _has_form(value: object, form: Any) -> bool:
    if isinstance(form, list):
        return isinstance(value, list) and all(_has_form(part, form[0]) for part in value)
    if isinstance(form, dict) and str in form:
        return isinstance(value, dict) and all(_has_form(part, form[str]) for part in value.values())
    if isinstance(form, dict):
        return isinstance(value, dict) and all(_has_form(value.get(name), part) for name, part in form.items())
    if form in (int, float) and isinstance(value, int):
        return abs(value) < 1 << 63
    return isinstance(value, form)


class Ended(Exception):
    """Raised when the process of the answer has ended, was ended, or sends invalid replies."""


def _stand_guard(life: int, answer: int) -> None:
    """Runs a process that outlives the judge and then ends the answer with all its child processes."""
    try:
        os.setsid()  # signals from the terminal must reach only the judge
        os.read(life, 1)
        _processes.end(answer, (signal.SIGKILL,))
    finally:
        os._exit(0)


class Child:
    """The process of the answer. Requests and replies are lines of JSON; outputs come in a memory file."""

    def __init__(self, time_limit: float) -> None:
        if torch.cuda.is_initialized():
            raise RuntimeError("this process has used CUDA already, so it cannot fork a process for the answer")
        self._time_limit = self._left = time_limit
        self._shared = os.memfd_create("fovea-judge")
        child_requests, self._requests = os.pipe()
        self._replies, child_replies = os.pipe()
        self._log, log = os.pipe()
        self._readable = [self._replies, self._log]
        self._pending = self._log_text = b""
        self._ended = False
        self._pid = os.fork()
        if self._pid == 0:
            for end in (self._requests, self._replies, self._log):
                os.close(end)
            _answer.run_child(child_requests, child_replies, log, self._shared)
        for end in (child_requests, child_replies, log):
            os.close(end)
        life, self._life = os.pipe()
        self._guard = os.fork()
        if self._guard == 0:
            for end in (self._life, self._requests, self._replies, self._log, self._shared):
                os.close(end)
            _stand_guard(life, self._pid)
        os.close(life)

    def ask(self, do: str, **request: object) -> dict[str, Any]:
        """Sends a request and returns the reply, or raises the error in it. Raises Ended without a valid reply in time."""
        with contextlib.suppress(BrokenPipeError):  # reading reports how the process ended
            os.write(self._requests, (json.dumps({"do": do, **request}) + "\n").encode())
        while b"\n" not in self._pending:
            if len(self._pending) > _MAX_REPLY_BYTES:
                raise Ended("its reply is too long")
            self._read()
        line, self._pending = self._pending.split(b"\n", 1)
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            reply = None
        if not _has_form(reply, {"error": str}) and not _has_form(reply, {**_FORMS[do], "replaced": [str]}):
            raise Ended("its process wrote to the pipe of the replies")
        return dict(reply)

    def _read(self) -> None:
        """Reads more of the replies, or of the printed output."""
        before = time.monotonic()
        ready = select.select(self._readable, [], [], self._left)[0] if self._left > 0 else []
        if not ready:
            raise Ended(f"it did not end within {self._time_limit:g} s")
        if self._log in ready:
            self._read_log()
        if self._replies in ready:
            read = os.read(self._replies, 1 << 16)
            if not read:
                raise Ended(self._how_it_ended())
            self._pending += read
        self._left -= time.monotonic() - before  # includes the time of reading, which may be endless

    def _read_log(self) -> None:
        read = os.read(self._log, 1 << 16)
        self._log_text = (self._log_text + read)[-_MAX_LOG_BYTES:]
        if not read:
            self._readable.remove(self._log)

    def _how_it_ended(self) -> str:
        """Describes how the process ended, or that it closed its pipe and still runs."""
        for _ in range(100):
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._ended = True
                code = os.waitstatus_to_exitcode(status)
                return f"its process ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
            time.sleep(0.02)
        return "it closed the pipe of the replies"

    def make_room(self, size: int) -> None:
        """Reserves memory for `size` bytes of outputs. Raises OSError for lack of memory, which is not the answer's
        fault."""
        os.posix_fallocate(self._shared, 0, max(size, 1))

    def outputs(self, like: list[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the outputs of the last call, with the shapes and types of `like`."""
        tensors, offset = [], 0
        for tensor in like:
            size = tensor.numel() * tensor.element_size()
            data = np.fromfile(f"/proc/self/fd/{self._shared}", np.uint8, size, offset=offset)
            if data.size != size:
                raise Ended("its outputs are truncated")
            tensors.append(torch.from_numpy(data).to(tensor.device).view(tensor.dtype).view(tensor.shape))
            offset += size
        return tensors

    def last_words(self) -> str:
        """Returns the last lines that the answer or its compilers printed."""
        for _ in range(4):  # reads more than the capacity of a pipe, but ends even when the process prints forever
            if self._log in self._readable and select.select([self._log], [], [], 0)[0]:
                self._read_log()
        lines = self._log_text.decode(errors="replace").splitlines()[-15:]
        return "\n".join(map(printable, lines))

    def close(self) -> None:
        for end in (self._requests, self._replies, self._log, self._shared):
            os.close(end)
        _processes.end(self._pid, (signal.SIGKILL,))  # including child processes such as compilers
        if not self._ended:
            os.waitpid(self._pid, 0)
        os.kill(self._guard, signal.SIGKILL)
        os.waitpid(self._guard, 0)
        os.close(self._life)
