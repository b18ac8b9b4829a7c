"""Runs CUDA kernels on the CPU, and tells what they do wrong: races, accesses out of bounds, deadlocks and the like.

    import numpy as np
    from fovea import emu

    x = np.arange(1000, dtype=np.float32)
    y = np.ones_like(x)
    emu.check("saxpy.cu", "saxpy", 4, 256, np.int32(x.size), np.float32(2), x, y)  # raises where something is wrong
    assert (y == 2 * x + 1).all()  # arrays get what the kernel has written
    y[:] = 1
    emu.check("saxpy.cu", "saxpy", 4, 256, np.int32(x.size), np.float32(2), x, y, expect={3: 2 * x + 1})  # always

No GPU is needed, and no library but NumPy. A source is CUDA C++ (then nvcc is needed), or PTX from anywhere; kernels
that Triton has compiled run with `run_triton` and `check_triton`. docs/emulator.md says what the emulator runs and finds.

For pytest there is a fixture `emu`, with the same functions, and the options `--emu-schedules` and `--emu-seed`.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from fovea._errors import Error
from fovea.emu._findings import Access, Finding, FindingsError, Report, finding
from fovea.emu._launch import (
    Argument,
    Expected,
    Launch,
    LaunchFile,
    Size,
    TensorMap,
    expected_of,
    out,
    pointers,
    struct,
)
from fovea.emu._source import Source, compile
from fovea.emu._triton import triton_launch

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "Access",
    "Finding",
    "FindingsError",
    "Launch",
    "Options",
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
    "struct",
    "triton_launch",
]

_FOUND, _REFUSED = 1, 2  # exit codes of the program


def _program() -> str:
    # FOVEA_BIN is for use in the source tree, where the program is not in the package.
    program = os.environ.get("FOVEA_BIN") or os.path.join(os.path.dirname(__file__), os.pardir, "bin", "fovea")
    if not os.path.isfile(program):
        raise Error(
            f"{program} is missing: this Fovea was installed without the program; the variable FOVEA_BIN may name one, such "
            "as build/release/bin/fovea of the source tree"
        )
    return program


def _emulate(ptx: str, folder: str, options: Sequence[str]) -> dict[str, object]:
    """Runs `fovea emulate` on the text, and returns its JSON. What it notes is a warning."""
    file = pathlib.Path(folder, "kernels.ptx")
    file.write_text(ptx)
    done = subprocess.run(
        [_program(), "emulate", str(file), *options, "--json"], capture_output=True, text=True, check=False
    )
    said = done.stderr.strip().replace(f"{file}: ", "")
    if done.returncode not in (0, _FOUND):
        raise Error(said.removeprefix("fovea: ") or f"the emulator ended with exit code {done.returncode}")
    for line in said.splitlines():
        warnings.warn(line.removeprefix("fovea: "), stacklevel=_caller_level())
    document: dict[str, object] = json.loads(done.stdout)
    return document


def _caller_level() -> int:
    """The `stacklevel` at which `warnings.warn` in the calling function names the first frame beyond this package."""
    level, frame = 1, sys._getframe(1)
    ours = ("fovea", "pytest_fovea")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        level, frame = level + 1, frame.f_back
    return level


def kernels(source: Source, *, arch: str = "sm_90a", flags: Sequence[str] = ()) -> list[str]:
    """Returns the names in C++ of a source's kernels, such as "void sum<4>(int*)". Raises what `compile` raises."""
    _program()  # its absence is told before a compiler runs
    with tempfile.TemporaryDirectory(prefix="fovea-") as folder:
        listed = _emulate(compile(source, arch=arch, flags=flags), folder, [])["kernels"]
    assert isinstance(listed, list)
    return [kernel["source_name"] for kernel in listed]


class Options(TypedDict, total=False):
    """How `run`, `check` and `run_launches` run kernels: keyword arguments of all three.

    Attributes:
        schedules: how many run, on all cores; none starts after one with findings (default: 10).
        seed: of the first schedule; the others have the next numbers (default: 0).
        threads: how many run at a time; 0, the default: one per CPU.
        allow: what is to be let pass, by the names of the command's options, such as ["late-stores"].
        options: further options of `fovea emulate`, such as ["--policy", "lazy"].
        arch: architecture that nvcc compiles CUDA C++ for (default: "sm_90a").
        flags: further options of nvcc.
    """

    schedules: int
    seed: int
    threads: int
    allow: Collection[str]
    options: Sequence[str]
    arch: str
    flags: Sequence[str]


_DEFAULTS: Options = {
    "schedules": 10,
    "seed": 0,
    "threads": 0,
    "allow": (),
    "options": (),
    "arch": "sm_90a",
    "flags": (),
}


def _words(chosen: Options) -> list[str]:
    """Options of the command."""
    words = ["--schedules", str(chosen["schedules"]), "--seed", str(chosen["seed"])]
    words += ["--threads", str(chosen["threads"])] if chosen["threads"] else []
    return [*words, *(f"--{name}" for name in chosen["allow"]), *chosen["options"]]


def run_launches(source: Source, launches: Sequence[Launch], **options: Unpack[Options]) -> Report:
    """Runs several launches after one another on the same arrays. Options are those of `Options`, errors of `run`."""
    return _run_launches(source, launches, None, options)


def _run_launches(source: Source, launches: Sequence[Launch], expected: Expected | None, options: Options) -> Report:
    unknown = options.keys() - _DEFAULTS.keys()
    if unknown:
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}; expected {', '.join(_DEFAULTS)}")
    chosen: Options = {**_DEFAULTS, **options}
    _program()  # its absence is told before a compiler runs
    ptx = compile(source, arch=chosen["arch"], flags=chosen["flags"])
    with tempfile.TemporaryDirectory(prefix="fovea-") as folder:
        file = LaunchFile(pathlib.Path(folder))
        path = pathlib.Path(folder, "launch.json")
        document = file.json(launches)
        if expected is not None:
            file.expect(expected)
        path.write_text(json.dumps(document))
        result = _emulate(ptx, folder, ["--launch", str(path), *_words(chosen)])
        file.read_results()
    found = result["found"]
    ran, operations = result["schedules_run"], result["operations"]
    assert isinstance(found, list) and isinstance(ran, int) and isinstance(operations, int)
    findings = [finding(each, schedule["seed"]) for schedule in found for each in schedule["findings"]]
    return Report(tuple(findings), ran, operations)


def run(
    source: Source,
    kernel: str,
    grid: Size,
    block: Size,
    *arguments: Argument,
    cluster: Size = 1,
    shared: int = 0,
    cooperative: bool = False,
    expect: Any = None,
    rtol: float = 0,
    atol: float = 0,
    **options: Unpack[Options],
) -> Report:
    """Runs a kernel in many schedules, each of which has the warps and copies take turns in another order.

    Arrays get what the kernel has written: in the first schedule with findings, or else in the first one. What they get in
    every schedule is compared with `expect`; a difference is a finding of the kind "mismatch".

    Args:
        source: path of a .cu or .ptx file, or the text of either.
        kernel: name in the PTX or in C++, without template arguments if it is unique; "" is the only kernel.
        grid: number of blocks, in up to three dimensions, x first.
        block: number of threads per block.
        *arguments: one for each parameter: a NumPy array for a pointer to its elements (C-contiguous; wrapped by
            `out` where the content is not for the kernel), a NumPy scalar or bytes by value, a TensorMap, `pointers`
            for a pointer to addresses of arrays, or `struct` for a struct by value that has such addresses.
        cluster: number of blocks per cluster.
        shared: bytes of dynamic shared memory.
        cooperative: whether all blocks run at a time, as `grid.sync()` needs.
        expect: what arrays should have in the end, in every schedule: {3: wanted} for the argument 3, or an array where
            only one argument is an array, or only one is wrapped by `out`.
        rtol: allowed difference, relative to the expected number.
        atol: allowed difference; where both are 0, all bits must be the same.
        **options: `schedules`, `seed` and the others of `Options`.

    Raises:
        fovea.Error: the emulator cannot run the kernel, with the line of the PTX; or nvcc fails.
        TypeError, ValueError: an argument is of no type that a kernel takes, or an array is not contiguous.
    """
    launch = Launch(kernel, grid, block, arguments, cluster, shared, cooperative=cooperative)
    return _run_launches(source, [launch], expected_of(arguments, expect, rtol, atol), options)


def check(
    source: Source,
    kernel: str,
    grid: Size,
    block: Size,
    *arguments: Argument,
    cluster: Size = 1,
    shared: int = 0,
    cooperative: bool = False,
    expect: Any = None,
    rtol: float = 0,
    atol: float = 0,
    **options: Unpack[Options],
) -> Report:
    """Runs a kernel as `run` does, and raises FindingsError where something is found."""
    report = run(
        source, kernel, grid, block, *arguments, cluster=cluster, shared=shared, cooperative=cooperative, expect=expect,
        rtol=rtol, atol=atol, **options,
    )  # fmt: skip
    if report.findings:
        raise FindingsError(report.findings)
    return report


def run_triton(
    compiled: Any,
    grid: Size,
    *arguments: Argument,
    expect: Any = None,
    rtol: float = 0,
    atol: float = 0,
    **options: Unpack[Options],
) -> Report:
    """Runs a kernel that Triton has compiled, which needs no GPU. `expect` and the options are those of `run`.

    Args:
        compiled: what `triton.compile` returns.
        grid: number of programs, in up to three dimensions.
        *arguments: one for each parameter that is no `tl.constexpr`: arrays for pointers and tensor descriptors, and
            numbers.
    """
    launch = triton_launch(compiled, grid, arguments)
    return _run_launches(compiled.asm["ptx"], [launch], expected_of(arguments, expect, rtol, atol), options)


def check_triton(
    compiled: Any,
    grid: Size,
    *arguments: Argument,
    expect: Any = None,
    rtol: float = 0,
    atol: float = 0,
    **options: Unpack[Options],
) -> Report:
    """Runs a kernel as `run_triton` does, and raises FindingsError where something is found."""
    report = run_triton(compiled, grid, *arguments, expect=expect, rtol=rtol, atol=atol, **options)
    if report.findings:
        raise FindingsError(report.findings)
    return report
