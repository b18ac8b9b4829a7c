"""Entry points of GPU kernels, and the targets that they are compiled for."""

from __future__ import annotations

import dataclasses
import string

import archs

# Targets, named as for nvcc: "sm_80" is machine code for 8.0 and later 8.x; "sm_90a" may use features specific to 9.0
# and runs on 9.0 only; "sm_100f" may use those of the family of 10.0 and runs on 10.0 and 10.3; "compute_90" is PTX,
# which the driver compiles for later GPUs without machine code in the program.
# Targets of designs for one architecture:
HOPPER = (archs.arch_of(90).target,)
BLACKWELL = (archs.arch_of(100).target,)
BLACKWELL_FAMILY = ("sm_100f",)
REFERENCE = (archs.arch_of(80).target, *HOPPER)
# Targets of all other kernels:
ALL_GPUS = (*(arch.plain_target for arch in archs.with_code(archs.ARCHS)), f"compute_{archs.DEFAULT}")
# Targets of kernels that are tuned separately for Hopper: for others the compiler needs more registers, and desktop
# GPUs have half of the shared memory.
NOT_HOPPER = tuple(target for target in ALL_GPUS if target != archs.arch_of(90).plain_target)
# Targets whose tensor cores support block scales.
BLOCK_SCALES = tuple(arch.plain_target for arch in archs.with_code(archs.ARCHS) if arch.block_scales)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Entry point of a kernel. Kernels of one unit are compiled together, for the same targets."""

    name: str
    unit: str
    targets: tuple[str, ...]  # as nvcc names them
    source: str  # file with its code, relative to kernels/
    template: str  # C++ of the entry point, with placeholders for the name and the tuning parameters
    includes: tuple[str, ...] = ()  # further headers, relative to kernels/
    family: str = ""  # key in PARAMETERS; "": no tuning parameters
    values: dict[str, int] = dataclasses.field(default_factory=dict)  # values of the tuning parameters
    lab: bool = False  # for the laboratory only, not in the library
    table: str = ""  # table in host code that lists the kernel
    row: str = ""  # fields of the C++ initializer in that table

    @property
    def entry(self) -> str:
        """Returns the C++ of the entry point."""
        return string.Template(self.template).substitute(self.values, name=self.name)


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def steps(first: int, last: int, step: int = 1) -> tuple[int, ...]:
    return tuple(range(first, last + 1, step))


def arch_of(target: str) -> int:
    """Returns the number in a target: 90 for "sm_90a" and for "compute_90"."""
    return int(target.split("_")[1].rstrip("af"))


def code_of(target: str) -> str:
    """Returns the enumerator of fovea::gpu::Code for a target."""
    if target.startswith("compute_"):
        return "kPtx"
    return {"a": "kOneArch", "f": "kFamily"}.get(target[-1], "kMachine")


def source_of(target: str, targets: tuple[str, ...]) -> str:
    """Returns the source of a target's compilation: the unit ("cu") for PTX, and PTX for machine code. The PTX is that
    for the driver if possible, so that the compiler's front end runs once for several targets, and else PTX that only
    the emulator uses."""
    if code_of(target) == "kPtx":
        return "cu"
    shared = [other for other in targets if code_of(other) == "kPtx" and arch_of(other) <= arch_of(target)]
    return shared[0] if shared and code_of(target) == "kMachine" else target.replace("sm_", "compute_")
