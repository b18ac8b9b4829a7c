"""What the emulator finds in kernels, and the exception that has it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fovea._errors import Error

#: The kind of findings about arrays that are not what was expected.
MISMATCH = "mismatch"


@dataclasses.dataclass(frozen=True)
class Access:
    """The earlier of the two accesses of a race.

    Attributes:
        kernel: name in C++, such as "void sum<4>(int*)".
        instruction: opcode, such as "st.shared.u32".
        line: line of the PTX.
        source: "file.cu:12", or "" if the PTX has no line information (`nvcc -lineinfo`): the innermost line outside
            of the CUDA toolkit's headers. Behind it are the calls in whose place that line was inlined, " (inlined at
            file.cu:34)" each, and the lines of the toolkit's headers that were inlined there, " (inside
            cuda_fp16.hpp:56)" each.
        block: x, y and z of the block.
        warp: number of the warp in the block.
    """

    kernel: str
    instruction: str
    line: int
    source: str
    block: tuple[int, int, int]
    warp: int

    @property
    def file(self) -> str:
        """The file of `source`, or ""."""
        return self.source_line.rpartition(":")[0]

    @property
    def source_line(self) -> str:
        """The first line of `source`, "file.cu:12", or ""."""
        return re.split(r" \((?:inlined at|inside) ", self.source, maxsplit=1)[0]

    @property
    def _place(self) -> str:
        return self.source.partition(" (inside ")[0] or f"line {self.line} of the PTX"


@dataclasses.dataclass(frozen=True)
class Finding(Access):
    """An error of a kernel, at the instruction that `line` and `source` name.

    Attributes:
        kind: such as "race", "out of bounds" or "deadlock": docs/emulator.md lists them; "mismatch" where an array is
            not what was expected, which is at no instruction.
        message: what is wrong, with addresses and values, and the element of an array.
        lanes: mask of the lanes of the warp.
        seed: the schedule that has it; the same seed runs it again.
        other: of a race, the access before this one; else None.
        count: how many times it was found at the same instructions.
    """

    kind: str
    message: str
    lanes: int
    seed: int
    other: Access | None = None
    count: int = 1

    def __str__(self) -> str:
        if self.kind == MISMATCH:
            return f"{self.kind}: {self.message} [seed {self.seed}]"
        text = f"{self.kernel}: {self.kind}: {self.instruction} at {self._place}: {self.message}"
        text += f" [block {self.block}, warp {self.warp}, lanes {self.lanes:#010x}, seed {self.seed}]"
        if self.other is not None:
            other = self.other
            text += f"; the other access: {other.instruction} at {other._place}"
            text += f" [block {other.block}, warp {other.warp}]"
        return text + (f" ({self.count} times)" if self.count > 1 else "")


def _access(json: Mapping[str, Any]) -> dict[str, Any]:
    x, y, z = json["block"]
    names = ("kernel", "instruction", "line", "source", "warp")
    return {name: json[name] for name in names} | {"block": (x, y, z)}


def finding(json: Mapping[str, Any], seed: int) -> Finding:
    """Returns the finding that the program describes in JSON."""
    if json["kind"] == MISMATCH:
        return Finding("", "", 0, "", (0, 0, 0), -1, kind=MISMATCH, message=json["message"], lanes=0, seed=seed)
    other = json.get("other")
    return Finding(
        **_access(json),
        kind=json["kind"],
        message=json["message"] + (f" ({json['place']})" if json.get("place") else ""),
        lanes=json["lanes"],
        seed=seed,
        other=None if other is None else Access(**_access(other)),
        count=json["count"],
    )


def _merged_by_line(findings: Sequence[Finding]) -> list[Finding]:
    """The first finding of each kind at each line of the source, with the count of all: loops that are unrolled have a
    line several times."""
    merged: dict[object, Finding] = {}
    for number, found in enumerate(findings):
        lines = [access.source_line or access.line for access in (found, found.other) if access is not None]
        key = (found.kind, found.kernel, *lines) if found.kind != MISMATCH else number
        first = merged.get(key)
        merged[key] = dataclasses.replace(first, count=first.count + found.count) if first else found
    return list(merged.values())


@dataclasses.dataclass(frozen=True)
class Report:
    """What came of the schedules of a run.

    Attributes:
        findings: of the first schedule that has some; empty when all are clean.
        schedules: how many schedules were run; none starts after one with findings.
        operations: how many operations the warps executed in all of them.
    """

    findings: tuple[Finding, ...]
    schedules: int
    operations: int

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


class FindingsError(Error, AssertionError):
    """Raised by `check` when something was found. The message has a line for each finding, and one for those at the same
    lines of the source.

    Attributes:
        findings: what was found.
    """

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__("\n".join(map(str, _merged_by_line(findings))))
        self.findings = findings

    def __reduce__(self) -> tuple[type[FindingsError], tuple[tuple[Finding, ...]]]:
        return (FindingsError, (self.findings,))
