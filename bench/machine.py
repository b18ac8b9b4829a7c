"""Describes where a figure was measured: machine, software versions, commit. Every result includes the description."""

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
SEARCH_PEERS = ("faiss-cpu", "usearch")
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
    versions = {"python": platform.python_version()}
    for package in PACKAGES + SEARCH_PEERS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def gpu() -> dict:
    """Returns the name, driver, current clocks and power limit of the first CUDA device, from nvidia-smi, or {} without
    a GPU."""
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
    """Returns the commit that the measured program was built from, as the program reports it, with "-modified" where
    its sources had uncommitted changes, or "unknown". bench/report accepts only commits of this history."""
    try:
        output = subprocess.run([str(program), "--version"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    match = re.search(r"^commit\s+(\S+)$", output, re.M)
    return match[1] if match else "unknown"


def host() -> str:
    """Returns an identifier of this host since its last boot, so that figures of two hosts are never merged into one
    result."""
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]


def describe(program=PROGRAM, device="cpu") -> dict:
    """Describes the machine and the software that `program` runs on, and the GPU where `device` is a GPU."""
    description = {
        "date": datetime.date.today().isoformat(),
        "commit": commit(program),
        "cpu": _cpu(),
        "memory_gib": _memory_gib(),
        "kernel": platform.release(),
        "host": host(),
        "versions": _versions(),
    }
    return description | {"gpu": gpu()} if device.startswith("cuda") else description


def write_result(result: dict, path: pathlib.Path | None) -> None:
    """Writes a result to `path`, or to standard output."""
    text = json.dumps(result, indent=1) + "\n"
    if path:
        path.write_text(text)
    else:
        sys.stdout.write(text)
