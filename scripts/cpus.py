#!/usr/bin/env python3
"""Prints the number of threads that this process may use, counted as in the engine (src/core/control_group.hpp): the
CPUs of its affinity, or fewer where the quota of a control group is smaller. Scripts, tests and benchmarks use it."""

import math
import os
import pathlib


def _groups(root: pathlib.Path) -> list[pathlib.Path]:
    """Returns the folders of this process's control groups, and of their parents, that may limit its CPUs."""
    mounts = root / "sys/fs/cgroup"
    folders = []
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            mount_folders = [mounts]
        elif "cpu" in controllers.split(","):
            mount_folders = [mounts / "cpu", mounts / controllers]
        else:
            continue
        inner = pathlib.PurePosixPath(group.lstrip("/"))
        folders += [place / path for place in mount_folders for path in (inner, *inner.parents)]
    return folders


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
