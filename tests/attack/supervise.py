"""Runs a program under supervision: how it ended, how long it took, how much memory it used."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import cpus

_TICK = 0.015
_CLOCK_TICK = os.sysconf("SC_CLK_TCK")
_CPUS = cpus.available()


class Clock:
    """Seconds of this machine's attention. While other processes have the CPUs it goes slower, so that a
    busy machine does not make a program look as if it hung. An idle or blocked program hides nothing: what
    nobody uses counts in full."""

    def __init__(self, own: Callable[[], float]) -> None:
        self._own = own  # CPU seconds of the program so far
        self._last = (time.monotonic(), *self._machine(), own())
        self.seconds = 0.0

    @staticmethod
    def _machine() -> tuple[float, float]:
        """(CPU seconds used by everything, CPU seconds in all) since the start."""
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(field) / _CLOCK_TICK for field in file.readline().split()[1:9]]
        return sum(fields) - fields[3] - fields[4], sum(fields)

    def tick(self) -> float:
        now = (time.monotonic(), *self._machine(), self._own())
        wall, used, all_cpus, own = (b - a for a, b in zip(self._last, now))
        if wall < 0.1:  # CPU time is counted in hundredths of a second
            return self.seconds + wall
        others = max(0.0, used - own) / all_cpus if all_cpus > 0 else 0.0
        self.seconds += wall * max(0.1, 1 - others)
        self._last = now
        return self.seconds


@dataclasses.dataclass
class Ending:
    """`code` is negative for a signal; `hung` when it was killed for taking longer than allowed."""

    code: int
    hung: bool
    seconds: float
    peak: int  # bytes of memory
    stdout: bytes
    stderr: bytes


@dataclasses.dataclass
class Limits:
    """What a process is deprived of. `user`: -1 or whom it runs as; `closed`: descriptors closed."""

    resources: dict[int, int] = dataclasses.field(default_factory=dict)
    closed: tuple[int, ...] = ()
    user: int = -1

    def apply(self) -> None:
        """In the child, before the program."""
        if self.user >= 0:
            os.setgroups([])
            os.setgid(self.user)
            os.setuid(self.user)
        for what, value in self.resources.items():
            resource.setrlimit(what, (value, value))
        for descriptor in self.closed:
            os.close(descriptor)

    def shell(self) -> tuple[str, str]:
        """The same for a shell: what comes before the command, and after it."""
        names = {getattr(resource, name): name[7:].lower() for name in dir(resource) if name.startswith("RLIMIT_")}
        words = [f"--{names[what]}={value}" for what, value in self.resources.items()]
        before = f"prlimit {' '.join(words)} " if words else ""
        if self.user >= 0:
            before = f"setpriv --reuid={self.user} --regid={self.user} --clear-groups {before}"
        after = "".join(f" {descriptor}{'<' if descriptor == 0 else '>'}&-" for descriptor in self.closed)
        return before, after


class Process:
    """A running program, whose output goes to files in its folder."""

    def __init__(
        self,
        command: list[str | bytes],
        folder: pathlib.Path,
        *,
        env: dict[str, str] | None = None,
        stdin: int | None = None,
        stdout: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._files = (folder / "stdout.txt", folder / "stderr.txt")
        self._discard = stdout is not None
        restrict = limits.apply if limits and (limits.resources or limits.closed or limits.user >= 0) else None
        for file in self._files:
            file.write_bytes(b"")
            file.chmod(0o666)
        with open(stdout or self._files[0], "wb") as out, open(self._files[1], "wb") as err:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=os.environ | (env or {}),
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=out,
                stderr=err,
                preexec_fn=restrict,
            )
        self.pid = self._process.pid
        self._own_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._peak = 0
        self._cpu = 0.0
        self._status: int | None = None
        self.started = time.monotonic()
        self.clock = Clock(self._cpu_seconds)

    def _cpu_seconds(self) -> float:
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            self._cpu = max(self._cpu, (int(fields[11]) + int(fields[12])) / _CLOCK_TICK)
        except (OSError, IndexError):
            pass
        return self._cpu

    def _look(self) -> bool:
        """Whether it has ended; notes the memory it has taken."""
        if self._status is None:
            try:
                with open(f"/proc/{self.pid}/status", "rb") as file:
                    for line in file:
                        if line.startswith(b"VmHWM:"):
                            self._peak = max(self._peak, int(line.split()[1]))
            except OSError:
                pass
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid == 0:
                return False
            self._status = status
            self._cpu = usage.ru_utime + usage.ru_stime
            self._process.returncode = os.waitstatus_to_exitcode(status)
            # The kernel's figure begins with this process's own, which forked.
            if usage.ru_maxrss > self._own_peak:
                self._peak = max(self._peak, usage.ru_maxrss)
        return True

    def wait(self, limit: float) -> bool:
        """Whether it ended within `limit` seconds of attention from now."""
        start = self.clock.tick()
        while not self._look():
            if self.clock.tick() - start > limit:
                return False
            time.sleep(_TICK)
        return True

    def send(self, which: signal.Signals) -> None:
        if not self._look():
            os.kill(self.pid, which)

    def end(self, limit: float) -> Ending:
        """Waits for its end, or makes one."""
        hung = not self.wait(limit)
        if hung:
            os.kill(self.pid, signal.SIGKILL)
            while not self._look():
                time.sleep(_TICK)
        out = b"" if self._discard else self._files[0].read_bytes()
        return Ending(
            self._process.returncode,
            hung,
            self.clock.tick(),
            self._peak * 1024,
            out,
            self._files[1].read_bytes(),
        )


def shell_line(command: list[str | bytes], env: dict[str, str] | None, limits: Limits | None, rest: str = "") -> str:
    """The command as a line for a shell."""
    words = [shlex.quote(word) if isinstance(word, str) else _quoted_bytes(word) for word in command]
    before, after = (limits or Limits()).shell()
    variables = "".join(f"{key}={shlex.quote(value)} " for key, value in (env or {}).items())
    return f"{'env ' + variables if variables else ''}{before}{' '.join(words)}{rest}{after}"


def _quoted_bytes(word: bytes) -> str:
    return (
        "$'" + "".join(f"\\x{byte:02x}" if not 32 < byte < 127 or byte in b"'\\" else chr(byte) for byte in word) + "'"
    )
