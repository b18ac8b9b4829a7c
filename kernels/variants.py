#!/usr/bin/env python3
"""Lists all GPU kernels, with their tuning parameters and compilation targets.

usage: variants.py FOLDER

Writes the files for the build into FOLDER: units/NAME.cu, a file of entry points for each compiler run; units.cmake, the
list of units and their targets; and include/kernels/{archs,kernel_list,variants}.hpp, the architectures, the names of
the kernels and the tables for planning, for host code. A kernel needs to be added only here.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Iterator

import archs
import gemm_variants
from kernel_entry import (
    ALL_GPUS,
    BLOCK_SCALES,
    HOPPER,
    NOT_HOPPER,
    REFERENCE,
    Kernel,
    arch_of,
    camel,
    code_of,
    source_of,
    steps,
)

# Allowed values of the tuning parameters, by family of kernels: `fovea kernel parameters` lists them, and `evolve`
# draws from them. Parameters that are not named keep the kernel's value. The launchers check which combinations are
# legal (can_be_made in src/gpu/launch/).
PARAMETERS: dict[str, dict[str, tuple[int, ...]]] = {
    **gemm_variants.PARAMETERS,
    "attention_single_pass": {"consumers": (1, 2, 3), "key_slots": steps(2, 8), "tile_slots": steps(2, 10)},
    "attention_online": {
        "kv_tile": steps(32, 224, 16),
        "consumers": (1, 2, 3, 4),
        "key_slots": steps(2, 12),
        "tile_slots": steps(2, 10),
    },
    "attention_mma": {
        "warp_rows": (16, 32),
        "row_groups": (1, 2, 4, 8),
        "key_groups": (1, 2, 4, 8),
        "kv_tile": steps(16, 128, 16),
        "stages": (2, 3, 4),
        "ctas_per_sm": (1, 2, 3, 4, 6, 8),
    },
    "attention_mma_small": {
        "ctas_per_sm": (1, 2, 3, 4, 6, 8, 12),
        "warps": (1, 2, 4, 8),
        "kv_tile": (16, 32, 48, 64, 96, 128),
        "stages": (2, 3, 4),
        "score_keys": (16, 32, 48, 64, 128),
        "held_queries": (0, 1),
    },
    "attention_scalar": {"stages": (2, 3, 4)},
}


# Attention

ELEMENTS = {"bf16": "Bf16", "f16": "F16"}


@dataclasses.dataclass(frozen=True)
class Attention:
    """Returns an attention kernel; `values` are the members of its tuning struct in
    kernels/attention/attention_params.hpp."""

    name: str
    values: tuple[int, ...]
    targets: tuple[str, ...]


# (head_dim, keys, consumers, key_slots, tile_slots). Three consumers overlap best; the scores of 256 keys
# leave registers for two.
SINGLE_PASS = (
    Attention("d64_k200", (64, 200, 3, 6, 8), HOPPER),
    Attention("d64_k256", (64, 256, 2, 5, 8), HOPPER),
    Attention("d72_k256", (72, 256, 2, 4, 6), HOPPER),
    Attention("d96_k256", (96, 256, 2, 3, 5), HOPPER),
)
# (head_dim, keys, consumers, key_slots, tile_slots, cost)
ONLINE = (
    Attention("d64_k128", (64, 128, 3, 6, 6, 117), HOPPER),
    Attention("d64_k96", (64, 96, 3, 8, 6, 125), HOPPER),
    Attention("d64_k64", (64, 64, 4, 10, 6, 159), HOPPER),
    Attention("d64_k160", (64, 160, 2, 6, 4, 100), HOPPER),
    Attention("d72_k112", (72, 112, 3, 7, 6, 1), HOPPER),
    Attention("d96_k96", (96, 96, 3, 6, 6, 1), HOPPER),
    Attention("d128_k128", (128, 128, 2, 5, 4, 1), HOPPER),
)
# (columns, warp_rows, row_groups, key_groups, keys, stages, blocks, cost), for each width from the maximum number of
# queries per CTA to the minimum.
MMA = (
    Attention("d32_r128_k128", (32, 32, 4, 1, 128, 2, 2, 100), ALL_GPUS),
    Attention("d32_r64_k128", (32, 16, 4, 1, 128, 2, 3, 105), ALL_GPUS),
    Attention("d64_r128_k128", (64, 32, 4, 1, 128, 2, 2, 100), HOPPER),
    Attention("d64_r128_k64", (64, 32, 4, 1, 64, 2, 2, 109), NOT_HOPPER),
    Attention("d64_r64_k80", (64, 16, 4, 1, 80, 2, 4, 112), HOPPER),
    Attention("d64_r64_k64", (64, 16, 4, 1, 64, 2, 4, 118), NOT_HOPPER),
    Attention("d64_r64_g4", (64, 32, 2, 4, 64, 2, 1, 90), ALL_GPUS),
    Attention("d64_r32_g8", (64, 32, 1, 8, 32, 2, 1, 90), ALL_GPUS),
    Attention("d80_r128_k64", (80, 32, 4, 1, 64, 2, 2, 100), ALL_GPUS),
    Attention("d80_r64_k128", (80, 16, 4, 1, 128, 2, 2, 120), ALL_GPUS),
    Attention("d96_r128_k64", (96, 32, 4, 1, 64, 2, 2, 100), ALL_GPUS),
    Attention("d96_r64_k96", (96, 16, 4, 1, 96, 2, 2, 110), ALL_GPUS),
    Attention("d128_r128_k64", (128, 32, 4, 1, 64, 2, 2, 100), HOPPER),
    Attention("d128_r128_k32", (128, 32, 4, 1, 32, 2, 2, 120), NOT_HOPPER),
    Attention("d128_r64_k64", (128, 16, 4, 1, 64, 2, 3, 130), ALL_GPUS),
)
# Reference kernels, which run on request only.
MMA_SMALL = (
    Attention("d64", (64, 4, 2, 48, 4, 48, 0), REFERENCE),
    Attention("d128", (128, 4, 4, 32, 2, 16, 0), REFERENCE),
)
SCALAR = (
    Attention("d64_s2", (64, 2), REFERENCE),
    Attention("d64_s3", (64, 3), REFERENCE),
    Attention("d128_s2", (128, 2), REFERENCE),
    Attention("d128_s3", (128, 3), REFERENCE),
)

# Members of each design's tuning struct in kernels/attention/attention_params.hpp, in order.
MEMBERS = {
    "single_pass": ("head_dim", "kv_tile", "consumers", "key_slots", "tile_slots"),
    "online": ("head_dim", "kv_tile", "consumers", "key_slots", "tile_slots", "cost"),
    "mma": ("head_dim", "warp_rows", "row_groups", "key_groups", "kv_tile", "stages", "ctas_per_sm", "cost"),
    "mma_small": ("head_dim", "ctas_per_sm", "warps", "kv_tile", "stages", "score_keys", "held_queries"),
    "scalar": ("head_dim", "stages"),
}

ONE_PER_SM = "__launch_bounds__({cfg}::kThreads, 1)"
SEVERAL_PER_SM = "__launch_bounds__({cfg}::kThreads, {cfg}::kTuning.ctas_per_sm)"
# For each design: its file, Params type, launch bound on threads, and kernels.
ATTENTION = {
    "single_pass": ("sm90_single_pass", "Sm90Params", ONE_PER_SM, SINGLE_PASS),
    "online": ("sm90_online", "Sm90Params", ONE_PER_SM, ONLINE),
    "mma": ("mma_attention", "PortableParams", SEVERAL_PER_SM, MMA),
    "mma_small": ("mma_small", "PortableParams", SEVERAL_PER_SM, MMA_SMALL),
    "scalar": ("scalar", "PortableParams", "__maxnreg__({cfg}::kRegisters)", SCALAR),
}


def attention_kernels() -> Iterator[Kernel]:
    for design, (file, params, bound, kernels) in ATTENTION.items():
        title = camel(design)
        for one in kernels:
            for type_name, element in ELEMENTS.items():
                name = f"attention_{design}_{type_name}_{one.name}"
                values = dict(zip(MEMBERS[design], one.values, strict=True))
                template = (
                    f"struct ${{name}}_tuning {{\n  using Element = fovea::attention::{element};\n"
                    f"  static constexpr fovea::attention::{title}Tuning kTuning"
                    f"{{{', '.join(f'${parameter}' for parameter in values)}}};\n}};\n"
                    f"using ${{name}}_cfg = fovea::attention::{title}Cfg<${{name}}_tuning>;\n"
                    f'extern "C" __global__ void {bound.format(cfg="${name}_cfg")}\n'
                    f"    $name(const __grid_constant__ fovea::attention::{params} params) {{\n"
                    f"  fovea::attention::{file}<${{name}}_cfg>(params);\n}}\n"
                )
                # One unit per width of heads: these take longest to compile.
                width = f"_{one.name.split('_')[0]}" if design == "mma" else ""
                where = "" if one.targets != NOT_HOPPER else "_portable"
                alone = "_hopper" if design == "mma" and one.targets == HOPPER else where
                yield Kernel(
                    name,
                    f"attention_{design}_{type_name}{width}{alone}",
                    one.targets,
                    f"attention/{file}.cuh",
                    template,
                    family=f"attention_{design}",
                    values=values,
                    table=design if type_name == "bf16" else "",
                    row=(
                        f".tuning = {{{', '.join(map(str, one.values))}}}, .bf16 = KernelId::{name}, "
                        f".f16 = KernelId::attention_{design}_f16_{one.name}"
                    ),
                )


# Norms, pooling, pixels and others: files that are compiled once per set of macros.


def file_kernel(name: str, source: str, targets: tuple[str, ...], lab: bool = False, **macros: object) -> Kernel:
    lines = [f"#define FOVEA_ENTRY {name}"]
    lines += [f"#define {macro} {value}" for macro, value in macros.items()]
    return Kernel(name, name, targets, source, "\n".join(lines) + "\n", lab=lab)


def other_kernels() -> Iterator[Kernel]:
    # Norms, by the maximum number of 256-element chunks in a row. Those to MXFP8 are for tensor cores that support
    # block scales; row_norm computes the statistics of a LayerNorm for matrix kernels that apply it themselves.
    for name, file, targets, is_f32 in (
        ("layer_norm_bf16", "layer_norm", ALL_GPUS, 0),
        ("layer_norm_f32", "layer_norm", ALL_GPUS, 1),
        ("layer_norm_mxfp8", "layer_norm_mxfp8", BLOCK_SCALES, 0),
        ("row_norm_bf16", "row_norm", (*HOPPER, *BLOCK_SCALES), 0),
    ):
        for chunks in (3, 5, 8):
            macros = {"FOVEA_INPUT_F32": is_f32, "FOVEA_CHUNKS": chunks}
            yield file_kernel(f"{name}_{chunks}", f"norm/{file}.cu", targets, **macros)
    # Pooling head. scores: by the maximum number of 32-column blocks per warp; linear: for few rows and for many.
    for blocks in (3, 6):
        yield file_kernel(f"pool_scores_{blocks}", "pool/scores.cu", ALL_GPUS, FOVEA_BLOCKS=blocks)
    yield file_kernel("pool_mean", "pool/mean.cu", ALL_GPUS)
    for suffix, rows, columns, split in (("skinny", 1, 1, "true"), ("wide", 1, 4, "false"), ("wide_8", 2, 1, "false")):
        macros = {"FOVEA_ROW_TILES": rows, "FOVEA_COLUMN_TILES": columns, "FOVEA_SPLIT_DEPTH": split}
        yield file_kernel(f"pool_linear_{suffix}", "pool/linear.cu", ALL_GPUS, **macros)
    yield file_kernel("pixels_widen", "pixels/widen.cu", ALL_GPUS)
    yield file_kernel("pixels_repeat", "pixels/repeat.cu", ALL_GPUS)
    yield file_kernel("pixels_positions", "pixels/positions.cu", ALL_GPUS)
    # Conversions of results that stay in device memory: from the residual stream's type or f32, to the caller's type.
    for name, from_f32, to_f32 in (("f16", 0, 0), ("f32", 0, 1), ("f32_f16", 1, 0)):
        macros = {"FOVEA_FROM_F32": from_f32, "FOVEA_TO_F32": to_f32}
        yield file_kernel(f"convert_{name}", "convert/convert.cu", ALL_GPUS, **macros)
    # Exact search, by the number of queries per CTA; fine codes take two lines each.
    for suffix, panels, fine, height, ctas in (("8_fine", 1, 1, 4, 2), ("16", 1, 0, 4, 2), ("64", 4, 0, 4, 1)):
        macros = {"FOVEA_PANELS": panels, "FOVEA_FINE": fine, "FOVEA_HEIGHT": height, "FOVEA_CTAS": ctas}
        yield file_kernel(f"search_scan_{suffix}", "search/scan.cu", ALL_GPUS, **macros)
    yield file_kernel("search_pick", "search/pick.cu", ALL_GPUS)
    yield file_kernel("search_bounds", "search/bounds.cu", ALL_GPUS)
    # Addition that follows a vendor library's matrix product: timed together with it, as a rival of the fused kernels.
    yield file_kernel("peer_add", "lab/add.cu", (*HOPPER, *BLOCK_SCALES), lab=True)


def kernels() -> list[Kernel]:
    every = [*gemm_variants.kernels(), *attention_kernels(), *other_kernels()]
    for kernel in every:
        for parameter in PARAMETERS.get(kernel.family, {}):
            assert kernel.values[parameter] in PARAMETERS[kernel.family][parameter], (kernel.name, parameter)
    names = [kernel.name for kernel in every]
    assert len(set(names)) == len(names), "two kernels have the same name"
    return every


def shipped_for(arch: int) -> set[str]:
    """Returns the names of the library's kernels that have machine code for this architecture."""
    return {
        kernel.name
        for kernel in kernels()
        if not kernel.lab and any(arch_of(target) == arch and code_of(target) != "kPtx" for target in kernel.targets)
    }


def units(every: list[Kernel]) -> dict[str, list[Kernel]]:
    found: dict[str, list[Kernel]] = {}
    for kernel in every:
        found.setdefault(kernel.unit, []).append(kernel)
    for unit, members in found.items():
        assert len({(kernel.targets, kernel.lab) for kernel in members}) == 1, (
            f"{unit}: its kernels have different targets"
        )
    return found


def unit_text(members: list[Kernel]) -> str:
    text = "// Made by kernels/variants.py.\n"
    if members[0].source.endswith(".cu"):
        return f'{text}{members[0].entry}#include "kernels/{members[0].source}"\n'
    includes = {include for kernel in members for include in (*kernel.includes, kernel.source)}
    text += "".join(f'#include "kernels/{include}"\n' for include in sorted(includes))
    return text + "".join(f"\n{kernel.entry}" for kernel in members)


# Arrays have explicit sizes: Clang does not deduce sizes above 256.
def tables_text(every: list[Kernel]) -> str:
    tables = ""
    for table, kind in (
        ("gemm", "GemmVariant"),
        *((design, f"AttentionVariant<attention::{camel(design)}Tuning>") for design in ATTENTION),
    ):
        rows = [kernel for kernel in every if kernel.table == table]
        own = ".kernel = KernelId::{}, " if table == "gemm" else ""
        lines = "".join(f"    {kind}{{{own.format(kernel.name)}{kernel.row}}},\n" for kernel in rows)
        tables += f"inline constexpr std::array<{kind}, {len(rows)}> k{camel(table)}Variants = {{\n{lines}}};\n"
    return tables


def list_text(every: list[Kernel]) -> str:
    """Returns the text of the C++ header that lists all kernels."""
    ids = "".join(f"  {kernel.name},\n" for kernel in every)
    infos = "".join(
        f'    KernelInfo{{"{kernel.name}", "{kernel.source}", {{{{{", ".join(f"{{{arch_of(t)}, Code::{code_of(t)}}}" for t in kernel.targets)}}}}}, '
        f"{str(kernel.lab).lower()}}},\n"
        for kernel in every
    )
    return f"""// Made by kernels/variants.py: every kernel.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/kernel_info.hpp"

namespace fovea::gpu {{

enum class KernelId : std::uint16_t {{
{ids}}};

inline constexpr std::array<KernelInfo, {len(every)}> kKernels = {{
{infos}}};

}}  // namespace fovea::gpu
"""


def variants_text(every: list[Kernel]) -> str:
    """Returns the text of the C++ header with the tables for launch planning."""
    return f"""// Made by kernels/variants.py: the tables that launches are planned with.
#pragma once

#include <array>

#include "kernels/attention/attention_params.hpp"
#include "kernels/gemm/gemm_params.hpp"
#include "kernels/kernel_list.hpp"

namespace fovea::gpu {{

struct GemmVariant {{
  KernelId kernel;
  gemm::Tuning tuning;
}};

template <typename Tuning>
struct AttentionVariant {{
  Tuning tuning;
  KernelId bf16;
  KernelId f16;
}};

{tables_text(every)}
}}  // namespace fovea::gpu
"""


def write(path: pathlib.Path, text: str) -> None:
    """Writes a file unless it already has this text, so that nothing is compiled again."""
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    every = kernels()
    for unit, members in units(every).items():
        write(folder / "units" / f"{unit}.cu", unit_text(members))
    lines = []
    for unit, members in units(every).items():
        targets, where = members[0].targets, "lab" if members[0].lab else "product"
        for target in sorted({*targets, *(source_of(target, targets) for target in targets)} - {"cu"}):
            from_, ships = source_of(target, targets), "ON" if target in targets else "OFF"
            lines.append(f"{unit}|{target}|{from_}|{where}|{ships}")
    write(folder / "units.cmake", "set(FOVEA_KERNEL_UNITS\n  " + "\n  ".join(lines) + ")\n")
    write(folder / "include/kernels/archs.hpp", archs.header_text(archs.ARCHS))
    write(folder / "include/kernels/kernel_list.hpp", list_text(every))
    write(folder / "include/kernels/variants.hpp", variants_text(every))


if __name__ == "__main__":
    main()
