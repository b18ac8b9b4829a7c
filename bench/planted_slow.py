#!/usr/bin/env python3
"""Slows the kernels' sources down by a given percentage.

usage: planted_slow.py --percent 2 --program PROGRAM CARD [--case CASE] [--level LEVEL] -o FOLDER
       planted_slow.py --clocks 400 -o FOLDER

Each CTA spins for a number of clocks before it ends. With --percent, the number is calibrated for the case: the first
guess is that percentage of the measured time, and it is corrected by comparing the slowed kernel with the program's
own, in alternating samples, until they differ by the percentage. FOLDER is then an argument for `--sources` of the
kernel commands.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAIRS = 24
ROUNDS = 5
TARGET_ERROR = 0.1  # percentage points at which calibration stops
MAX_ERROR = 0.3  # percentage points; beyond them calibration has failed
MAX_STEP = 4.0  # largest factor of one correction

WARP = "kernels/ptx/warp.cuh"
SPIN = """
/// Planted delay: spins without doing any work.
__device__ __forceinline__ void planted_spin() {{
  const long long start = clock64();
  while (clock64() - start < {clocks}LL) {{
  }}
}}

}}  // namespace fovea::ptx
"""
GEMM_EDIT = ("    gemm.run();\n", "    gemm.run();\n    ptx::planted_spin();\n")
ATTENTION_TAIL = "}\n\n}  // namespace fovea::attention\n"
ATTENTION_EDIT = (ATTENTION_TAIL, "  ptx::planted_spin();\n" + ATTENTION_TAIL)
EDITS = {
    **{f"kernels/gemm/sm90_{name}.cuh": GEMM_EDIT for name in ("cooperative", "ping_pong", "b_stationary")},
    **{
        f"kernels/attention/{name}.cuh": ATTENTION_EDIT
        for name in ("sm90_single_pass", "sm90_online", "mma_attention", "mma_small", "scalar")
    },
}


def write_sources(folder: pathlib.Path, clocks: int, kernels: tuple[str, ...] = tuple(EDITS)) -> None:
    """Writes the changed files of these kernels; for files that the folder lacks, the program uses its own."""
    edits = {path: EDITS[path] for path in kernels} | {
        WARP: ("\n}  // namespace fovea::ptx\n", SPIN.format(clocks=clocks))
    }
    for path, (old, new) in edits.items():
        text = (ROOT / path).read_text()
        assert text.count(old) == 1, f"{path} has changed: {old!r} occurs {text.count(old)} times"
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.replace(old, new))


class Steps:
    """A running program that is driven by the step protocol (lab/measure/steps.hpp)."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read("ready")

    def read(self, key: str) -> dict:
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {}
        if key not in answer:
            sys.exit(f"planted_slow.py: {self.process.args} answered {line!r}")
        return answer

    def sample(self) -> dict:
        self.process.stdin.write("sample\n")
        self.process.stdin.flush()
        return self.read("seconds")

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def calibrate(folder: pathlib.Path, run: list[str], percent: float) -> tuple[int, float]:
    """Returns the calibrated number of clocks, and the slow-down in percent that was measured with it."""
    ours = Steps([*run, "--steps"])
    first = [ours.sample() for _ in range(PAIRS)]
    mhz = statistics.median(reading["sm_mhz"] for reading in first) or 1000
    seconds = statistics.median(reading["seconds"] for reading in first)
    clocks = seconds * mhz * 1e6 * percent / 100
    best = (0, math.inf)
    for _ in range(ROUNDS):
        write_sources(folder, round(clocks))
        planted = Steps([*run, "--sources", str(folder), "--steps"])
        pairs = [(ours.sample()["seconds"], planted.sample()["seconds"]) for _ in range(PAIRS)]
        planted.close()
        measured = 100 * (statistics.median(b / a for a, b in pairs) - 1)
        if abs(measured - percent) < abs(best[1] - percent):
            best = (round(clocks), measured)
        if abs(measured - percent) <= TARGET_ERROR:
            break
        clocks *= min(max(percent / measured if measured > 0 else MAX_STEP, 1 / MAX_STEP), MAX_STEP)
    ours.close()
    if not abs(best[1] - percent) <= MAX_ERROR:
        sys.exit(
            f"planted_slow.py: cannot reach a slow-down of {percent:g}% in {ROUNDS} rounds: the closest was {best[1]:.2f}%"
        )
    write_sources(folder, best[0])
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("card", nargs="?")
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/fovea"))
    parser.add_argument("--case")
    parser.add_argument("--level")
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--percent", type=float)
    amount.add_argument("--clocks", type=int)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    if arguments.clocks is not None:
        write_sources(arguments.output, arguments.clocks)
        return
    if arguments.card is None:
        parser.error("--percent needs a CARD")
    run = [arguments.program, "kernel", "run", arguments.card]
    run += ["--case", arguments.case] if arguments.case else []
    run += ["--level", arguments.level] if arguments.level else []
    clocks, measured = calibrate(arguments.output, run, arguments.percent)
    print(json.dumps({"clocks": clocks, "percent": round(measured, 3)}))


if __name__ == "__main__":
    main()
