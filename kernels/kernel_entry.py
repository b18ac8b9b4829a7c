"""An entry point of a GPU kernel, and what kernels are compiled to."""

from __future__ import annotations

import dataclasses
import string

import archs

# "sm_80" is machine code that runs on all of 8.x from 8.0 on; "sm_90a" may use what 9.0 alone has, and runs
# nowhere else; "compute_90" is PTX, which the driver compiles for what came after 9.0 and has no machine code here.
# "sm_100f" may use what the family of 10.0 has: it runs on 10.0 and 10.3.
# The targets of designs for one architecture:
HOPPER = (archs.arch_of(90).target,)
BLACKWELL = (archs.arch_of(100).target,)
BLACKWELL_FAMILY = ("sm_100f",)
REFERENCE = (archs.arch_of(80).target, *HOPPER)
# Of all others:
ALL_GPUS = (*(arch.plain_target for arch in archs.with_code(archs.ARCHS)), f"compute_{archs.DEFAULT}")
# Where Hopper has tuning parameters of its own: elsewhere the compiler needs more registers, and GPUs for
# desktops have half of the shared memory.
NOT_HOPPER = tuple(target for target in ALL_GPUS if target != archs.arch_of(90).plain_target)
# Where tensor cores take scales of blocks.
BLOCK_SCALES = tuple(arch.plain_target for arch in archs.with_code(archs.ARCHS) if arch.block_scales)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An entry point. Kernels of one unit are compiled together, for the same targets."""

    name: str
    unit: str
    targets: tuple[str, ...]  # what it is compiled to, as nvcc names it
    source: str  # the file that has its code, below kernels/
    template: str  # the C++ of the entry point, with $name and the names of the tuning parameters for their values
    includes: tuple[str, ...] = ()  # below kernels/, beside `source`
    family: str = ""  # in PARAMETERS; "": it has no tuning parameters
    values: dict[str, int] = dataclasses.field(default_factory=dict)  # of the tuning parameters
    lab: bool = False  # part of the laboratory alone, not of the library
    table: str = ""  # of the host, that lists it
    row: str = ""  # what that table says of it: the fields of its C++ initializer

    @property
    def entry(self) -> str:
        """The C++ of the entry point."""
        return string.Template(self.template).substitute(self.values, name=self.name)


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def steps(first: int, last: int, step: int = 1) -> tuple[int, ...]:
    return tuple(range(first, last + 1, step))


def arch_of(target: str) -> int:
    """90 of "sm_90a" and of "compute_90"."""
    return int(target.split("_")[1].rstrip("af"))


def code_of(target: str) -> str:
    """The enumerator of fovea::gpu::Code."""
    if target.startswith("compute_"):
        return "kPtx"
    return {"a": "kOneArch", "f": "kFamily"}.get(target[-1], "kMachine")


def source_of(target: str, targets: tuple[str, ...]) -> str:
    """What the target is compiled from: PTX from the unit, "cu"; machine code from PTX, either what the driver gets as
    well, so that the compiler's first half runs once for several, or what is kept for the emulator alone."""
    if code_of(target) == "kPtx":
        return "cu"
    shared = [other for other in targets if code_of(other) == "kPtx" and arch_of(other) <= arch_of(target)]
    return shared[0] if shared and code_of(target) == "kMachine" else target.replace("sm_", "compute_")
