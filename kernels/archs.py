"""The architectures of GPUs, a row each: kernels are compiled, launched, emulated, judged and documented by these.

variants.py writes them as kernels/archs.hpp, in the terms of kernels/arch_info.hpp.
"""

from __future__ import annotations

import dataclasses

# Mnemonics of the machine code by what they do (fovea::gpu::InstructionKind), in the groups in which architectures
# gain and lose them (CUDA Binary Utilities, "Instruction Set Reference").
Instructions = dict[str, str]
EVERYWHERE: Instructions = {
    "kMultiply": "HMMA IMMA BMMA DMMA",
    "kAccess": "LD LDG LDS LDL LDSM LDGSTS ST STG STS STL ATOM ATOMG ATOMS RED REDG SULD SUST SUATOM SURED TEX TLD TLD4",
    "kReduce": "REDUX",
    "kSynchronise": "BAR MEMBAR LDGDEPBAR",
    "kLeave": "CALL EXIT",
    "kOther": "LDC",  # constants, whose mnemonic is like one of memory
}
E4M3: Instructions = {"kMultiply": "QMMA"}
WARPGROUPS: Instructions = {"kMultiply": "HGMMA QGMMA IGMMA BGMMA"}
BULK_COPIES: Instructions = {
    "kAccess": "STSM STAS REDAS UTMALDG UTMASTG UTMAREDG UTMAPF UBLKCP UBLKRED UBLKPF",
    "kSynchronise": "UCGABAR_ARV UCGABAR_WAIT SYNCS FENCE UTMACMDFLUSH USETMAXREG",
    "kOther": "UTMACCTL",  # descriptors
}
BLOCK_SCALES: Instructions = {"kMultiply": "OMMA", "kReduce": "CREDUX", "kOther": "LDCU"}
TENSOR_MEMORY: Instructions = {
    "kMultiply": "UTCHMMA UTCQMMA UTCIMMA UTCOMMA",
    "kAccess": "LDTM LDT STTM STT UTCCP UTCSHIFT",
    "kSynchronise": "UTCBAR",
    "kOther": "UTCATOMSWS",  # the right to columns
}


@dataclasses.dataclass(frozen=True)
class Arch:
    """A row: what is true of GPUs from this compute capability on, until the next row."""

    number: int  # compute capability, times ten
    family: str
    gpus: str  # examples
    shared_kib: int  # shared memory that a CTA may have
    instructions: tuple[Instructions, ...]
    target: str = ""  # "sm_90a": what kernels may use all of it in; the emulator has those that are named
    registers: int = 65536  # of 32 bits, of an SM
    exponentials: int = 16  # and other special functions, of an SM per clock cycle
    wide_products: int = 0  # multiply-adds of two-byte types of an SM per clock cycle; 0: not known
    overlaps: bool = False  # a grid may begin before the one that it depends on has ended
    e4m3: bool = False  # matrix units multiply e4m3
    block_scales: bool = False  # and numbers in blocks with a scale each
    predicted_as: str = ""  # the GPU of lab/predict/gpu_rates.cpp for which instructions are counted

    @property
    def plain_target(self) -> str:
        """Machine code without what the architecture alone has, which later ones of its major version run."""
        return f"sm_{self.number}"


AMPERE = (EVERYWHERE,)
HOPPER = (EVERYWHERE, E4M3, WARPGROUPS, BULK_COPIES)
BLACKWELL = (EVERYWHERE, E4M3, BULK_COPIES, BLOCK_SCALES, TENSOR_MEMORY)
BLACKWELL_DESKTOP = (EVERYWHERE, E4M3, BULK_COPIES, BLOCK_SCALES)

# In the order of their numbers.
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

# What "emu" emulates, and whose PTX the drivers of later GPUs compile.
DEFAULT = 90


def arch_of(number: int) -> Arch:
    """The row of that number."""
    return next(arch for arch in ARCHS if arch.number == number)


def with_code(archs: tuple[Arch, ...]) -> tuple[Arch, ...]:
    """Those that kernels are compiled to machine code for, and that are emulated."""
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
    """The C++ header of the rows, for the host alone."""
    return f"""// Made by kernels/archs.py: the architectures of GPUs.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/arch_info.hpp"

namespace fovea::gpu {{

{"".join(map(instructions_text, archs))}
/// By number.
inline constexpr std::array<Arch, {len(archs)}> kArchs = {{{{
{"".join(map(row_text, archs))}}}}};

/// What "emu" emulates.
inline constexpr int kDefaultArch = {DEFAULT};

}}  // namespace fovea::gpu
"""
