"""What the emulator finds in kernels, and the exception that has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fovea._errors import Error


@dataclasses.dataclass(frozen=True)
class Access:
    """The earlier of the two accesses of a race.

    Attributes:
        kernel: name in C++, such as "void sum<4>(int*)".
        instruction: opcode, such as "st.shared.u32".
        line: line of the PTX.
        source: "file.cu:12", or "" if the PTX has no line information (`nvcc -lineinfo`).
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
        return self.source.rpartition(":")[0]


@dataclasses.dataclass(frozen=True)
class Finding(Access):
    """An error of a kernel, at the instruction that `line` and `source` name.

    Attributes:
        kind: such as "race", "out of bounds" or "deadlock": docs/emulator.md lists them.
        message: what is wrong, with addresses and values, and the element of an array.
        lanes: mask of the lanes of the warp.
        seed: the schedule that has it; the same seed runs it again.
        other: of a race, the access before this one; else None.
    """

    kind: str
    message: str
    lanes: int
    seed: int
    other: Access | None = None

    def __str__(self) -> str:
        place = self.source or f"line {self.line} of the PTX"
        text = f"{self.kernel}: {self.kind}: {self.instruction} at {place}: {self.message}"
        text += f" [block {self.block}, warp {self.warp}, lanes {self.lanes:#010x}, seed {self.seed}]"
        if self.other is not None:
            other = self.other
            place = other.source or f"line {other.line} of the PTX"
            text += f"; the other access: {other.instruction} at {place} [block {other.block}, warp {other.warp}]"
        return text


def _access(json: Mapping[str, Any]) -> dict[str, Any]:
    x, y, z = json["block"]
    names = ("kernel", "instruction", "line", "source", "warp")
    return {name: json[name] for name in names} | {"block": (x, y, z)}


def finding(json: Mapping[str, Any], seed: int) -> Finding:
    """Returns the finding that the program describes in JSON."""
    other = json.get("other")
    return Finding(
        **_access(json),
        kind=json["kind"],
        message=json["message"] + (f" ({json['place']})" if json.get("place") else ""),
        lanes=json["lanes"],
        seed=seed,
        other=None if other is None else Access(**_access(other)),
    )


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
    """Raised by `check` when something was found. The message has a line for each finding.

    Attributes:
        findings: what was found.
    """

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = findings

    def __reduce__(self) -> tuple[type[FindingsError], tuple[tuple[Finding, ...]]]:
        return (FindingsError, (self.findings,))
