"""Kernels for matrix products: the supported operations, and the tiles for each."""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Iterator

from kernel_entry import BLACKWELL, BLACKWELL_FAMILY, HOPPER, Kernel, camel, steps

PARAMETERS: dict[str, dict[str, tuple[int, ...]]] = {
    "gemm_cooperative": {
        "consumers": (1, 2, 3),
        "columns": steps(32, 256, 16),
        "stages": steps(2, 16),
        "vector": (4, 8, 16),
        "ahead": (0, 1, 2, 4, 6, 8),
        "raster": (0, 2, 4, 8, 16, 32),
    },
    "gemm_ping_pong": {
        "columns": steps(64, 256, 64),
        "stages": steps(2, 10),
        "vector": (4, 8),
        "ahead": (0, 2, 4, 8),
        "raster": (0, 2, 4, 8, 16, 32),
    },
    "gemm_b_stationary": {
        "consumers": (2, 3),
        "columns": steps(32, 256, 32),
        "stages": steps(2, 16),
        "vector": (4, 8, 16),
        "k_blocks": steps(1, 16),
        "ahead": (0, 2, 4, 8),
    },
    "gemm_pair": {
        "columns": steps(64, 256, 64),
        "stages": steps(2, 10),
        "k_blocks": steps(0, 12),
        "raster": (0, 2, 4, 8, 16, 32),
    },
}

INPUTS = {"bf16": "kBF16", "bf16norm": "kBF16", "e4m3": "kE4M3", "u8s8": "kU8S8", "s8s8": "kS8S8", "mxfp8": "kMXFP8"}
EPILOGUES = {"bias": "kBias", "gelu": "kGelu", "residual": "kResidual", "position": "kPosition"}
OUTPUTS = {"bf16": "kBF16", "e4m3": "kE4M3", "i8": "kI8", "mxfp8": "kMXFP8"}

# Operations as (input, epilogue, output). The epilogue normalises the rows of an input "bf16norm".
OPERATIONS = (
    ("bf16", "bias", "bf16"),
    ("bf16", "gelu", "bf16"),
    ("bf16", "residual", "bf16"),
    ("bf16", "position", "bf16"),
    ("bf16norm", "bias", "bf16"),
    ("bf16norm", "gelu", "bf16"),
    ("u8s8", "position", "bf16"),
    ("s8s8", "bias", "bf16"),
    ("s8s8", "residual", "bf16"),
    ("s8s8", "gelu", "i8"),
    ("s8s8", "gelu", "e4m3"),
    ("e4m3", "residual", "bf16"),
)
# Operations for tensor cores that support block scales.
BLOCK_OPERATIONS = (
    ("mxfp8", "bias", "bf16"),
    ("mxfp8", "gelu", "mxfp8"),
    ("mxfp8", "residual", "bf16"),
)
# The patch embedding in e4m3, which the encoder does not use; it serves for comparisons only.
LAB_OPERATIONS = (("e4m3", "position", "bf16"),)


@dataclasses.dataclass(frozen=True)
class Tile:
    """Tuning parameters of a tile. `consumers`: warpgroups that multiply (in pairs of CTAs: that run the epilogue).
    `columns`: width of the tile. `stages`: stages of the ring buffer. `vector`: columns that a lane stores at once.
    `k_blocks`: maximum number of 128-byte blocks of K in a resident panel; 0: no panel. `ahead`: groups of columns
    whose addends are prefetched. `raster`: order of the tiles (gemm_params.hpp)."""

    design: str
    consumers: int
    columns: int
    stages: int
    vector: int
    k_blocks: int = 0
    ahead: int = 4
    raster: int = 0


def gemm_tiles(operand: str, epilogue: str, output: str) -> Iterator[Tile]:
    vector = 8 if output == "bf16" else 16
    position, residual = epilogue == "position", epilogue == "residual"
    # Tiles for small K, with a panel of B that stays in shared memory.
    if not operand.startswith("bf16"):
        if not residual:
            yield Tile("b_stationary", 2, 192, 9, vector, k_blocks=6)
        if position:
            yield Tile("b_stationary", 2, 128, 9, vector, k_blocks=9)
        else:
            yield Tile("b_stationary", 3, 128, 9, vector, k_blocks=9, ahead=2)
    if residual:
        yield Tile("ping_pong", 2, 192, 4, vector)
    elif output == "bf16" and not position:
        yield Tile("ping_pong", 2, 192, 5, vector)
    if operand.startswith("bf16") and not residual and not position:
        yield Tile("cooperative", 3, 192, 4, vector, ahead=2)
    yield Tile("cooperative", 2, 256, 4, vector)
    yield Tile("cooperative", 2, 128, 6, vector)
    yield Tile("cooperative", 1, 96, 9, 8)
    yield Tile("cooperative", 1, 64, 6, vector)
    yield Tile("cooperative", 1, 32, 16, 8)
    # Tiles for widths that are not a multiple of 32.
    yield Tile("cooperative", 2, 128, 6, 4)
    yield Tile("cooperative", 1, 64, 6, 4)


def pair_tiles(operand: str, output: str) -> Iterator[Tile]:
    """Returns the tiles for pairs of CTAs. The stages fill the shared memory that the output leaves free; tensor memory
    has room for the block scales beside two accumulators of 192 columns."""
    in_blocks = operand == "mxfp8"
    if not in_blocks:
        yield Tile("pair", 2, 256, 4 if output == "bf16" else 5, 0, ahead=0)
    yield Tile("pair", 2, 192, 5 if in_blocks and output == "bf16" else 6, 0, ahead=0)
    # Tile for few rows.
    yield Tile("pair", 2, 64, 8, 0, ahead=0)
    # Tile for small K, with a panel of A that stays in shared memory. Last, since it needs several tiles per row.
    if not operand.startswith("bf16"):
        columns, stages = (192, 5 if output == "bf16" else 7) if in_blocks else (256, 3 if output == "bf16" else 5)
        yield Tile("pair", 2, columns, stages, 0, k_blocks=6, ahead=0)


def kernel_of(operation: tuple[str, str, str], tile: Tile, name: str, arch: str, targets: tuple[str, ...]) -> Kernel:
    operand, epilogue, output = operation
    values = {key: value for key, value in dataclasses.asdict(tile).items() if key != "design"}
    tuning = (
        f"{{.design = fovea::gemm::Design::k{camel(tile.design)}, "
        f".input = fovea::tile::Input::{INPUTS[operand]}, "
        f".epilogue = fovea::epilogue::Kind::{EPILOGUES[epilogue]}, "
        f".output = fovea::epilogue::Output::{OUTPUTS[output]}, "
        f".normed = {str(operand == 'bf16norm').lower()}, "
        + ", ".join(f".{parameter} = ${parameter}" for parameter in values)
        + "}"
    )
    cfg = "PairCfg" if tile.design == "pair" else "Cfg"
    # A cluster size that the compiler knows, so that a cluster barrier compiles to the barrier instruction alone.
    cluster = "__cluster_dims__(2, 1, 1) " if tile.design == "pair" else ""
    params = "${name}_design::KernelParams" if tile.design == "pair" else "fovea::gemm::Params"
    template = (
        f"using ${{name}}_design =\n    fovea::gemm::{camel(tile.design)}Gemm"
        f"<fovea::gemm::{cfg}<fovea::gemm::Tuning{tuning}>>;\n"
        f'extern "C" __global__ void {cluster}__launch_bounds__(${{name}}_design::kThreads,\n'
        "                                             ${name}_design::kCtasPerSm)\n"
        f"    $name(const __grid_constant__ {params} params) {{\n"
        "  ${name}_design::run_block(params);\n}\n"
    )
    return Kernel(
        name,
        f"gemm_{arch}_{'_'.join(operation)}",
        targets,
        f"gemm/{arch}_{tile.design}.cuh",
        template,
        includes=("gemm/config.cuh",) if cfg == "Cfg" else (),
        family=f"gemm_{tile.design}",
        values=values,
        lab=operation in LAB_OPERATIONS,
        table="gemm",
        row=f".tuning = {string.Template(tuning).substitute(values)}",
    )


def kernels() -> Iterator[Kernel]:
    for operation in (*OPERATIONS, *BLOCK_OPERATIONS, *LAB_OPERATIONS):
        words = "_".join(operation)
        for tile in gemm_tiles(*operation) if operation not in BLOCK_OPERATIONS else ():
            name = f"gemm_sm90_{tile.design}_{words}_{tile.consumers}x{tile.columns}_v{tile.vector}"
            yield kernel_of(operation, tile, name, "sm90", HOPPER)
        # The family of 10.0 supports all kinds of products except integer ones, which only 10.0 has.
        targets = BLACKWELL if operation[0] in ("u8s8", "s8s8") else BLACKWELL_FAMILY
        for tile in pair_tiles(operation[0], operation[2]):
            panel = f"_k{tile.k_blocks}" if tile.k_blocks > 0 else ""
            name = f"gemm_sm100_{tile.design}_{words}_{tile.columns}{panel}"
            yield kernel_of(operation, tile, name, "sm100", targets)
