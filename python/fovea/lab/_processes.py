"""Ends a program with all its child processes, which belong to the session that it leads."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time
from collections.abc import Iterator

#: Seconds that a program has to exit after SIGTERM, and the system to end it after SIGKILL.
GRACE = 10.0


def members(session: int) -> Iterator[int]:
    """Yields the running processes of a session, in all its process groups."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            state, _, _, member_session, *_ = stat.read_text().rpartition(")")[2].split()
            if int(member_session) == session and state != "Z":
                yield int(stat.parent.name)


def end(session: int, signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGKILL)) -> None:
    """Sends the signals to all processes of a session, one after another, until none is left; waits GRACE for each."""
    for number in signals:
        until = time.monotonic() + GRACE
        signalled: set[int] = set()
        remaining = {session, *members(session)}  # the leader may not have called setsid() yet
        while remaining and time.monotonic() < until:
            for pid in remaining - signalled:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            signalled |= remaining
            time.sleep(0.01)
            remaining = set(members(session))  # including processes started meanwhile
