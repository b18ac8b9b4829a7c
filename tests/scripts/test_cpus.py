"""scripts/cpus.py counts as the engine does (tests/core/control_group_test.cpp), and whoever wants the number asks one
of the two."""

import os
import pathlib
import re
import subprocess

import cpus
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALL_CPUS = len(os.sched_getaffinity(0))


def root_with(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


GROUPS = "sys/fs/cgroup/"


@pytest.mark.parametrize(
    ("quota", "files"),
    [
        (None, {}),
        (None, {"proc/self/cgroup": "0::/a\n", GROUPS + "a/cpu.max": "max 100000\n"}),
        (
            None,
            {
                "proc/self/cgroup": "1:cpu:/\n",
                GROUPS + "cpu/cpu.cfs_quota_us": "-1\n",
                GROUPS + "cpu/cpu.cfs_period_us": "100000\n",
            },
        ),
        (
            1,
            {
                "proc/self/cgroup": "0::/a/b\n",
                GROUPS + "a/b/cpu.max": "900000 100000\n",
                GROUPS + "a/cpu.max": "50000 100000\n",
            },
        ),
        (1, {"proc/self/cgroup": "0::/docker/of/host\n", GROUPS + "cpu.max": "100000 100000\n"}),
        (
            1,
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/d\n",
                GROUPS + "cpu,cpuacct/d/cpu.cfs_quota_us": "20000\n",
                GROUPS + "cpu,cpuacct/d/cpu.cfs_period_us": "100000\n",
            },
        ),
    ],
)
def test_the_quota_of_control_groups(quota, files, tmp_path):
    assert cpus.available(root_with(tmp_path, files)) == (quota or ALL_CPUS)


def test_a_quota_is_rounded_up(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert (
        cpus.available(root_with(tmp_path, {"proc/self/cgroup": "0::/\n", GROUPS + "cpu.max": "250000 100000\n"})) == 3
    )


def test_the_affinity(fovea_bin, model, tmp_path):
    """The program, and the scripts, on one CPU of several."""
    cpu = str(min(os.sched_getaffinity(0)))
    embed = [fovea_bin, "embed", "--synthetic", "8", "-m", model, "--device", "cpu", "-o", tmp_path / "rows.npy"]
    done = subprocess.run(["taskset", "-c", cpu, *embed], capture_output=True, text=True, check=True)
    assert "1 threads" in done.stderr
    script = subprocess.run(
        ["taskset", "-c", cpu, ROOT / "scripts/cpus.py"], capture_output=True, text=True, check=True
    )
    assert script.stdout == "1\n"


def test_nobody_counts_by_himself():
    """The machine's CPUs are not those that a process may use."""
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    counts = re.compile(r"hardware_concurrency|cpu_count|sched_getaffinity|\bnproc\b|_SC_NPROCESSORS|\bget_nprocs\b")
    found = [name for name in files if name.endswith((".cpp", ".hpp", ".py", ".cu")) or name.startswith("scripts/")]
    found = [name for name in found if counts.search((ROOT / name).read_text(errors="replace"))]
    counters = {"scripts/cpus.py", "src/core/control_group.cpp", "tests/scripts/test_cpus.py"}
    assert set(found) - counters == {"bench/image_peers.py"}  # which takes one of its CPUs, and counts none
