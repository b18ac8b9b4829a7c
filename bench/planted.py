#!/usr/bin/env python3
"""Plants a known cause of slowness in the kernels' sources, to check that `fovea kernel profile` names it.

usage: planted.py CAUSE -o FOLDER

Copies kernels/ to FOLDER/kernels with one edit, which does not change the results, and prints the command that profiles
them with `--sources FOLDER`. The same command without `--sources` gives the baseline. `planted.py --list` prints all
causes as JSON.
"""

import argparse
import dataclasses
import json
import pathlib
import shlex
import shutil
import sys

KERNELS = pathlib.Path(__file__).resolve().parent.parent / "kernels"


@dataclasses.dataclass(frozen=True)
class Cause:
    """One edit, the case where it dominates the run time, and the rule that must name it."""

    file: str  # relative to kernels/
    old: str  # occurs exactly once in the file
    new: str
    run: tuple[str, ...]  # the card, and its options
    rule: str


ATTENTION = ("attention", "--level", "wmma")  # its first timed case has 86,016 CTAs of 32 queries
GEMM = ("gemm_qkv_bf16",)

CAUSES = {
    # Lanes of the epilogue store elements one by one, so that only a few bytes of each 32-byte sector are used.
    "store": Cause(
        "epilogue/words.cuh",
        """  using Type = typename Words<kCount * 4>::Type;
  Type value;
  __builtin_memcpy(&value, from, sizeof(Type));
  *static_cast<Type*>(to) = value;
""",
        """#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    static_cast<volatile std::uint16_t*>(to)[2 * i] = static_cast<std::uint16_t>(from[i]);
    static_cast<volatile std::uint16_t*>(to)[2 * i + 1] = static_cast<std::uint16_t>(from[i] >> 16);
  }
""",
        GEMM,
        "scattered stores",
    ),
    # Rows of 128 bytes lose their swizzle, so that all eight rows of a matrix start in the same bank.
    "banks": Cause(
        "attention/row_tile.cuh",
        "(row * kUnits + (unit ^ (row >> kSpreadShift & (kSpread - 1)))) * 16;",
        "(row * kUnits + unit) * 16;",
        ATTENTION,
        "bank conflicts",
    ),
    # A device-wide fence is added to the loop over the keys.
    "fence": Cause(
        "attention/mma_small.cuh",
        "      thread = ptx::read_tid_x();\n      const int lane = static_cast<int>(thread % 32);\n      const int warp_row",
        "      __threadfence();\n"
        "      thread = ptx::read_tid_x();\n      const int lane = static_cast<int>(thread % 32);\n      const int warp_row",
        ATTENTION,
        "fences in the loop",
    ),
    # 12 CTAs of 64 threads per SM instead of 4 leave 80 registers per thread, and the accumulators spill.
    "spill": Cause(
        "attention/mma_small.cuh",
        "  using Variant::kTuning;\n",
        """  static constexpr auto kTuning = [] {
    auto tuning = Variant::kTuning;
    tuning.ctas_per_sm = 12;
    return tuning;
  }();
""",
        ATTENTION,
        "spilled registers",
    ),
    # The pipeline has two stages instead of the three in the parameters.
    "stage": Cause(
        "gemm/config.cuh",
        "kStages = kTuning.stages;",
        "kStages = kTuning.stages - 1;",
        (*GEMM, "--parameters", '{"stages": 3}'),
        "fewer stages than the latency",
    ),
}


def plant(cause: Cause, folder: pathlib.Path, kernels: pathlib.Path = KERNELS) -> None:
    """Writes FOLDER/kernels. Raises ValueError unless the text to replace occurs exactly once."""
    text = (kernels / cause.file).read_text()
    if text.count(cause.old) != 1:
        raise ValueError(
            f"{cause.file}: the text to replace must occur once, but occurs {text.count(cause.old)} times; adapt the edit"
        )
    target = folder / "kernels"
    if target.exists():
        raise ValueError(f"{target} already exists; name another folder")
    shutil.copytree(kernels, target, ignore=shutil.ignore_patterns("__pycache__"))
    (target / cause.file).write_text(text.replace(cause.old, cause.new))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cause", nargs="?", choices=sorted(CAUSES))
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the folder to write kernels/ into")
    parser.add_argument("--list", action="store_true", help="print all causes as JSON")
    arguments = parser.parse_args()
    if arguments.list:
        json.dump({name: {"run": list(cause.run), "rule": cause.rule} for name, cause in CAUSES.items()}, sys.stdout)
        return
    if arguments.cause is None or arguments.output is None:
        parser.error("CAUSE and -o FOLDER are required")
    cause = CAUSES[arguments.cause]
    try:
        plant(cause, arguments.output)
    except ValueError as error:
        sys.exit(f"planted.py: {error}")
    command = shlex.join(["fovea", "kernel", "profile", *cause.run, "--sources", str(arguments.output)])
    print(f"{command}  # {cause.rule}")


if __name__ == "__main__":
    main()
