"""Describes where a figure was measured: machine, software versions, commit. Stored beside every result."""

import contextlib
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/release/bin/fovea"
sys.path.append(str(ROOT / "scripts"))
from cpus import available as cpus  # noqa: E402, F401

PACKAGES = ("torch", "torchvision", "torchao", "transformers", "onnxruntime", "openvino", "nncf", "pillow", "numpy")
PEERS_OF_SEARCH = ("faiss-cpu", "usearch")
ISA_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def _cpu() -> dict:
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    flags = re.search(r"^flags\s*:\s*(.+)$", text, re.M)
    have = set(flags.group(1).split()) if flags else set()
    return {
        "model": model.group(1).strip() if model else platform.processor(),
        "cores": len(re.findall(r"^processor\s*:", text, re.M)),
        "isa": [flag for flag in ISA_FLAGS if flag in have],
    }


def _memory_gib() -> float:
    text = pathlib.Path("/proc/meminfo").read_text()
    return round(int(text.split("MemTotal:")[1].split()[0]) / 2**20, 1)


def _versions() -> dict:
    found = {"python": platform.python_version()}
    for package in PACKAGES + PEERS_OF_SEARCH:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def gpu() -> dict:
    """Name, driver, and clocks and power of CUDA's first device as they are now, from nvidia-smi; empty without a
    GPU."""
    fields = {
        "name": "name",
        "driver": "driver_version",
        "sm_clock_mhz": "clocks.sm",
        "memory_clock_mhz": "clocks.mem",
        "max_sm_clock_mhz": "clocks.max.sm",
        "power_limit_w": "power.limit",
        "memory_mib": "memory.total",
    }
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    if not first:
        return {}
    command = ["nvidia-smi", "-i", first, f"--query-gpu={','.join(fields.values())}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return {}
    return dict(zip(fields, (value.strip() for value in done.stdout.splitlines()[0].split(",")), strict=True))


def commit(program=PROGRAM) -> str:
    """The commit that the measured program was built from, with "-modified" where its sources were others, as the
    program says itself; "unknown" when it does not. bench/report shows no result but of a commit of this history."""
    try:
        said = subprocess.run([str(program), "--version"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    found = re.search(r"^commit\s+(\S+)$", said, re.M)
    return found[1] if found else "unknown"


def host() -> str:
    """Tells this machine, since it was started, from others of its kind: figures of two hosts are never one result."""
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]


def describe(program=PROGRAM, device="cpu") -> dict:
    """What `program` measures on; the GPU is part of it where `device` is one."""
    found = {
        "date": datetime.date.today().isoformat(),
        "commit": commit(program),
        "cpu": _cpu(),
        "memory_gib": _memory_gib(),
        "kernel": platform.release(),
        "host": host(),
        "versions": _versions(),
    }
    return found | {"gpu": gpu()} if device.startswith("cuda") else found


def hand_over(result: dict, path: pathlib.Path | None) -> None:
    """Writes what was measured to `path`, or to standard output."""
    text = json.dumps(result, indent=1) + "\n"
    if path:
        path.write_text(text)
    else:
        sys.stdout.write(text)
