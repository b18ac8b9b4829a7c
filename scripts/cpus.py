#!/usr/bin/env python3
"""Prints how many threads this process may use, as the engine counts them (src/core/control_group.hpp): those of its
CPU affinity, or what the quota of its control groups is worth. Scripts, tests and benchmarks ask here."""

import math
import os
import pathlib


def _groups(root: pathlib.Path) -> list[pathlib.Path]:
    """The folders of the control groups around this process that may limit its CPUs."""
    mounts = root / "sys/fs/cgroup"
    found = []
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            places = [mounts]
        elif "cpu" in controllers.split(","):
            places = [mounts / "cpu", mounts / controllers]
        else:
            continue
        inner = pathlib.PurePosixPath(group.lstrip("/"))
        found += [place / path for place in places for path in (inner, *inner.parents)]
    return found


def _quota(group: pathlib.Path) -> float:
    try:
        time, period = (group / "cpu.max").read_text().split()
    except OSError:
        try:
            time, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except OSError:
            return math.inf
    return math.inf if time == "max" or float(time) <= 0 else float(time) / float(period)


def available(root: pathlib.Path = pathlib.Path("/")) -> int:
    quota = min(map(_quota, _groups(root)), default=math.inf)
    cpus = len(os.sched_getaffinity(0))
    return cpus if quota == math.inf else max(1, min(cpus, math.ceil(quota)))


if __name__ == "__main__":
    print(available())
