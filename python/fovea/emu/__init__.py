"""Runs CUDA kernels on the CPU, and tells what they do wrong: races, accesses out of bounds, deadlocks and the like.

    import numpy as np
    from fovea import emu

    x = np.arange(1000, dtype=np.float32)
    y = np.ones_like(x)
    emu.check("saxpy.cu", "saxpy", 4, 256, np.int32(x.size), np.float32(2), x, y)  # raises where something is wrong
    assert (y == 2 * x + 1).all()  # arrays get what the kernel has written

No GPU is needed, and no library but NumPy. A source is CUDA C++ (then nvcc is needed), or PTX from anywhere; kernels
that Triton has compiled run with `run_triton` and `check_triton`. docs/emulator.md says what the emulator runs and finds.

For pytest there is a fixture `emu`, with the same functions, and the options `--emu-schedules` and `--emu-seed`.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from typing import Any

from fovea._errors import Error
from fovea.emu._findings import Access, Finding, FindingsError, Report, finding
from fovea.emu._launch import Argument, Launch, LaunchFile, Size, TensorMap, out, pointers
from fovea.emu._source import Source, compile
from fovea.emu._triton import triton_launch

__all__ = [
    "Access",
    "Finding",
    "FindingsError",
    "Launch",
    "Report",
    "TensorMap",
    "check",
    "check_triton",
    "compile",
    "kernels",
    "out",
    "pointers",
    "run",
    "run_launches",
    "run_triton",
    "triton_launch",
]

_FOUND, _REFUSED = 1, 2  # exit codes of the program


def _program() -> str:
    # FOVEA_BIN is for use in the source tree, where the program is not in the package.
    program = os.environ.get("FOVEA_BIN") or os.path.join(os.path.dirname(__file__), os.pardir, "bin", "fovea")
    if not os.path.isfile(program):
        raise Error(f"{program} is missing: this Fovea was installed without the program")
    return program


def _emulate(ptx: str, folder: str, options: Sequence[str]) -> dict[str, object]:
    """Runs `fovea emulate` on the text, and returns its JSON."""
    file = pathlib.Path(folder, "kernels.ptx")
    file.write_text(ptx)
    done = subprocess.run(
        [_program(), "emulate", str(file), *options, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, _FOUND):
        message = done.stderr.strip().removeprefix("fovea: ").replace(f"{file}: ", "")
        raise Error(message or f"the emulator ended with exit code {done.returncode}")
    document: dict[str, object] = json.loads(done.stdout)
    return document


def kernels(source: Source, *, arch: str = "sm_90a", flags: Sequence[str] = ()) -> list[str]:
    """Returns the names in C++ of a source's kernels, such as "void sum<4>(int*)". Raises what `compile` raises."""
    with tempfile.TemporaryDirectory(prefix="fovea-") as folder:
        listed = _emulate(compile(source, arch=arch, flags=flags), folder, [])["kernels"]
    assert isinstance(listed, list)
    return [kernel["source_name"] for kernel in listed]


def run_launches(
    source: Source,
    launches: Sequence[Launch],
    *,
    schedules: int = 10,
    seed: int = 0,
    threads: int = 0,
    allow: Collection[str] = (),
    options: Sequence[str] = (),
    arch: str = "sm_90a",
    flags: Sequence[str] = (),
) -> Report:
    """Runs several launches after one another on the same arrays. Arguments and errors are those of `run`."""
    ptx = compile(source, arch=arch, flags=flags)
    with tempfile.TemporaryDirectory(prefix="fovea-") as folder:
        file = LaunchFile(pathlib.Path(folder))
        path = pathlib.Path(folder, "launch.json")
        path.write_text(json.dumps(file.json(launches)))
        words = ["--launch", str(path), "--schedules", str(schedules), "--seed", str(seed)]
        words += ["--threads", str(threads)] if threads else []
        result = _emulate(ptx, folder, [*words, *(f"--{name}" for name in allow), *options])
        file.read_results()
    found = result["found"]
    ran, operations = result["schedules_run"], result["operations"]
    assert isinstance(found, list) and isinstance(ran, int) and isinstance(operations, int)
    findings = [finding(document, schedule["seed"]) for schedule in found for document in schedule["findings"]]
    return Report(tuple(findings), ran, operations)


def run(
    source: Source,
    kernel: str,
    grid: Size,
    block: Size,
    *arguments: Argument,
    cluster: Size = 1,
    shared: int = 0,
    schedules: int = 10,
    seed: int = 0,
    threads: int = 0,
    allow: Collection[str] = (),
    options: Sequence[str] = (),
    arch: str = "sm_90a",
    flags: Sequence[str] = (),
) -> Report:
    """Runs a kernel in many schedules, each of which has the warps and copies take turns in another order.

    Arrays get what the kernel has written: in the first schedule with findings, or else in the first one.

    Args:
        source: path of a .cu or .ptx file, or the text of either.
        kernel: name in the PTX or in C++, without template arguments if it is unique; "" is the only kernel.
        grid: number of blocks, in up to three dimensions, x first.
        block: number of threads per block.
        *arguments: one for each parameter: a NumPy array for a pointer to its elements (C-contiguous; wrapped by
            `out` where the content is not for the kernel), a NumPy scalar or bytes by value, a TensorMap, or
            `pointers` for a pointer to addresses of arrays.
        cluster: number of blocks per cluster.
        shared: bytes of dynamic shared memory.
        schedules: how many run, on all cores; none starts after one with findings.
        seed: of the first schedule; the others have the next numbers.
        threads: how many run at a time; 0: one per CPU.
        allow: what is to be let pass, by the names of the command's options, such as ["late-stores"].
        options: further options of `fovea emulate`, such as ["--policy", "lazy"].
        arch: architecture that nvcc compiles CUDA C++ for.
        flags: further options of nvcc.

    Raises:
        fovea.Error: the emulator cannot run the kernel, with the line of the PTX; or nvcc fails.
        TypeError, ValueError: an argument is of no type that a kernel takes, or an array is not contiguous.
    """
    launch = Launch(kernel, grid, block, arguments, cluster, shared)
    return run_launches(
        source, [launch], schedules=schedules, seed=seed, threads=threads, allow=allow, options=options, arch=arch,
        flags=flags,
    )  # fmt: skip


def check(
    source: Source,
    kernel: str,
    grid: Size,
    block: Size,
    *arguments: Argument,
    cluster: Size = 1,
    shared: int = 0,
    schedules: int = 10,
    seed: int = 0,
    threads: int = 0,
    allow: Collection[str] = (),
    options: Sequence[str] = (),
    arch: str = "sm_90a",
    flags: Sequence[str] = (),
) -> Report:
    """Runs a kernel as `run` does, and raises FindingsError where something is found."""
    report = run(
        source, kernel, grid, block, *arguments, cluster=cluster, shared=shared, schedules=schedules, seed=seed,
        threads=threads, allow=allow, options=options, arch=arch, flags=flags,
    )  # fmt: skip
    if report.findings:
        raise FindingsError(report.findings)
    return report


def run_triton(
    compiled: Any,
    grid: Size,
    *arguments: Argument,
    schedules: int = 10,
    seed: int = 0,
    threads: int = 0,
    allow: Collection[str] = (),
    options: Sequence[str] = (),
) -> Report:
    """Runs a kernel that Triton has compiled, which needs no GPU. The options are those of `run`.

    Args:
        compiled: what `triton.compile` returns.
        grid: number of programs, in up to three dimensions.
        *arguments: one for each parameter that is no `tl.constexpr`: arrays for pointers and tensor descriptors, and
            numbers.
    """
    return run_launches(
        compiled.asm["ptx"], [triton_launch(compiled, grid, arguments)], schedules=schedules, seed=seed,
        threads=threads, allow=allow, options=options,
    )  # fmt: skip


def check_triton(
    compiled: Any,
    grid: Size,
    *arguments: Argument,
    schedules: int = 10,
    seed: int = 0,
    threads: int = 0,
    allow: Collection[str] = (),
    options: Sequence[str] = (),
) -> Report:
    """Runs a kernel as `run_triton` does, and raises FindingsError where something is found."""
    report = run_triton(
        compiled, grid, *arguments, schedules=schedules, seed=seed, threads=threads, allow=allow, options=options
    )
    if report.findings:
        raise FindingsError(report.findings)
    return report
