"""Ends a program with all its child processes: the session that it leads."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time
from collections.abc import Iterator

#: Seconds for a program to end by itself after SIGTERM, and for the system to end it after SIGKILL.
GRACE = 10.0


def members(session: int) -> Iterator[int]:
    """Returns the running processes of a session, in all its process groups."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            state, _, _, member_session, *_ = stat.read_text().rpartition(")")[2].split()
            if int(member_session) == session and state != "Z":
                yield int(stat.parent.name)


def end(session: int, signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGKILL)) -> None:
    """Sends the leader of a session and its members each signal in turn, until none is left or GRACE is over."""
    for number in signals:
        until = time.monotonic() + GRACE
        told: set[int] = set()
        left = {session, *members(session)}  # the leader may not have called setsid() yet
        while left and time.monotonic() < until:
            for pid in left - told:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            told |= left
            time.sleep(0.01)
            left = set(members(session))  # including processes started meanwhile
