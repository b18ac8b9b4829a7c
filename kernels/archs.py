"""Table of GPU architectures, from which kernels are compiled, launched, emulated, checked and documented.

variants.py writes them as kernels/archs.hpp, in the terms of kernels/arch_info.hpp.
"""

from __future__ import annotations

import dataclasses

# Machine code mnemonics by kind (fovea::gpu::InstructionKind), in groups that architectures add or drop together
# (CUDA Binary Utilities, "Instruction Set Reference").
Instructions = dict[str, str]
EVERYWHERE: Instructions = {
    "kMultiply": "HMMA IMMA BMMA DMMA",
    "kAccess": "LD LDG LDS LDL LDSM LDGSTS ST STG STS STL ATOM ATOMG ATOMS RED REDG SULD SUST SUATOM SURED TEX TLD TLD4",
    "kReduce": "REDUX",
    "kSynchronise": "BAR MEMBAR LDGDEPBAR",
    "kLeave": "CALL EXIT",
    "kOther": "LDC",  # loads constants, although its name begins like that of a memory load
}
E4M3: Instructions = {"kMultiply": "QMMA"}
WARPGROUPS: Instructions = {"kMultiply": "HGMMA QGMMA IGMMA BGMMA"}
BULK_COPIES: Instructions = {
    "kAccess": "STSM STAS REDAS UTMALDG UTMASTG UTMAREDG UTMAPF UBLKCP UBLKRED UBLKPF",
    "kSynchronise": "UCGABAR_ARV UCGABAR_WAIT SYNCS FENCE UTMACMDFLUSH USETMAXREG",
    "kOther": "UTMACCTL",  # cache control for tensor map descriptors
}
BLOCK_SCALES: Instructions = {"kMultiply": "OMMA", "kReduce": "CREDUX", "kOther": "LDCU"}
TENSOR_MEMORY: Instructions = {
    "kMultiply": "UTCHMMA UTCQMMA UTCIMMA UTCOMMA",
    "kAccess": "LDTM LDT STTM STT UTCCP UTCSHIFT",
    "kSynchronise": "UTCBAR",
    "kOther": "UTCATOMSWS",  # allocation of tensor memory
}


@dataclasses.dataclass(frozen=True)
class Arch:
    """Properties of GPUs from this compute capability up to the next row's."""

    number: int  # compute capability times ten
    family: str
    gpus: str  # examples
    shared_kib: int  # maximum shared memory per CTA, in KiB
    instructions: tuple[Instructions, ...]
    target: str = ""  # "sm_90a", which has all features; only named ones are emulated
    registers: int = 65536  # 32-bit registers per SM
    exponentials: int = 16  # special functions per SM and clock cycle
    wide_products: int = 0  # 16-bit multiply-adds per SM and clock cycle; 0: unknown
    overlaps: bool = False  # supports programmatic dependent launch
    e4m3: bool = False  # matrix units multiply e4m3
    block_scales: bool = False  # matrix units multiply blocks of numbers with a scale each
    predicted_as: str = ""  # the GPU of lab/predict/gpu_rates.cpp for which instructions are counted

    @property
    def plain_target(self) -> str:
        """Target without architecture-specific features; its machine code also runs on later minor versions."""
        return f"sm_{self.number}"


AMPERE = (EVERYWHERE,)
HOPPER = (EVERYWHERE, E4M3, WARPGROUPS, BULK_COPIES)
BLACKWELL = (EVERYWHERE, E4M3, BULK_COPIES, BLOCK_SCALES, TENSOR_MEMORY)
BLACKWELL_DESKTOP = (EVERYWHERE, E4M3, BULK_COPIES, BLOCK_SCALES)

# Sorted by number.
ARCHS = (
    Arch(80, "Ampere", "A100", 163, AMPERE, target="sm_80", wide_products=1024),
    Arch(89, "Ada", "L40S", 99, (EVERYWHERE, E4M3), e4m3=True),
    Arch(90, "Hopper", "H100, H200", 227, HOPPER, target="sm_90a", wide_products=2048, overlaps=True, e4m3=True,
         predicted_as="h200"),
    Arch(100, "Blackwell", "B200", 227, BLACKWELL, target="sm_100a", wide_products=4096, overlaps=True, e4m3=True,
         block_scales=True, predicted_as="b200"),
    Arch(103, "Blackwell", "B300", 227, BLACKWELL, wide_products=4096, overlaps=True, e4m3=True, block_scales=True),
    Arch(120, "Blackwell", "RTX 50", 99, BLACKWELL_DESKTOP, overlaps=True, e4m3=True, block_scales=True),
)  # fmt: skip

# Architecture of the device "emu", and of the PTX that drivers compile for later GPUs.
DEFAULT = 90


def arch_of(number: int) -> Arch:
    """Returns the row with this number."""
    return next(arch for arch in ARCHS if arch.number == number)


def with_code(archs: tuple[Arch, ...]) -> tuple[Arch, ...]:
    """Returns the architectures with machine code, which are those that are emulated, too."""
    return tuple(arch for arch in archs if arch.target)


def row_text(arch: Arch) -> str:
    return (
        f'    Arch{{.number = {arch.number}, .target = "{arch.target}", .family = "{arch.family}", .gpus = "{arch.gpus}",\n'
        f"         .shared_bytes = std::size_t{{{arch.shared_kib}}} << 10, .registers = {arch.registers}, "
        f".exponentials = {arch.exponentials},\n"
        f"         .wide_products = {arch.wide_products}, .overlaps = {str(arch.overlaps).lower()},\n"
        f"         .e4m3 = {str(arch.e4m3).lower()}, .block_scales = {str(arch.block_scales).lower()}, "
        f".instructions = kInstructionsOf{arch.number}}},\n"
    )


def instructions_text(arch: Arch) -> str:
    listed = sorted(
        (name, kind) for group in arch.instructions for kind, names in group.items() for name in names.split()
    )
    rows = "".join(f'    {{"{name}", InstructionKind::{kind}}},\n' for name, kind in listed)
    return f"inline constexpr std::array<ListedInstruction, {len(listed)}> kInstructionsOf{arch.number} = {{{{\n{rows}}}}};\n"


def header_text(archs: tuple[Arch, ...]) -> str:
    """Returns the text of kernels/archs.hpp, which only host code includes."""
    return f"""// Made by kernels/archs.py: the architectures of GPUs.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/arch_info.hpp"

namespace fovea::gpu {{

{"".join(map(instructions_text, archs))}
/// Sorted by number.
inline constexpr std::array<Arch, {len(archs)}> kArchs = {{{{
{"".join(map(row_text, archs))}}}}};

/// The architecture of the device "emu".
inline constexpr int kDefaultArch = {DEFAULT};

}}  // namespace fovea::gpu
"""
