#!/usr/bin/env python3
"""Plants a slow-down of so many percent into the kernels' sources.

usage: planted_slow.py --percent 2 --program PROGRAM CARD [--case CASE] [--level LEVEL] -o FOLDER
       planted_slow.py --clocks 400 -o FOLDER

At its end each CTA waits for a number of clocks more. With --percent that number is calibrated for the case: it starts
from the share of the measured time, and is corrected by what the planted kernel takes beside the program's own, sampled
in turns, until both differ by the percentage. FOLDER then holds what `--sources FOLDER` of the kernel commands takes.
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
CLOSE = 0.1  # percent: calibrated well enough to stop
MOST_OFF = 0.3  # percent: farther off, the sources are not what they are said to be
MOST_STEP = 4.0  # of one correction, as a factor

WARP = "kernels/ptx/warp.cuh"
SPIN = """
/// Planted: time in which nothing is done.
__device__ __forceinline__ void planted_spin() {{
  const long long start = clock64();
  while (clock64() - start < {clocks}LL) {{
  }}
}}

}}  // namespace fovea::ptx
"""
GEMM_END = ("    gemm.run();\n", "    gemm.run();\n    ptx::planted_spin();\n")
END = "}\n\n}  // namespace fovea::attention\n"
ATTENTION_END = (END, "  ptx::planted_spin();\n" + END)
EDITS = {
    **{f"kernels/gemm/sm90_{name}.cuh": GEMM_END for name in ("cooperative", "ping_pong", "b_stationary")},
    **{
        f"kernels/attention/{name}.cuh": ATTENTION_END
        for name in ("sm90_single_pass", "sm90_online", "mma_attention", "mma_small", "scalar")
    },
}


def write_sources(folder: pathlib.Path, clocks: int, kernels: tuple[str, ...] = tuple(EDITS)) -> None:
    """The files that differ, of these kernels; what is not in the folder the program has itself."""
    edits = {path: EDITS[path] for path in kernels} | {
        WARP: ("\n}  // namespace fovea::ptx\n", SPIN.format(clocks=clocks))
    }
    for path, (old, new) in edits.items():
        text = (ROOT / path).read_text()
        assert text.count(old) == 1, f"{path} has changed: {old!r} is there {text.count(old)} times"
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.replace(old, new))


class Steps:
    """A program that follows the step protocol (lab/measure/steps.hpp)."""

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
    """Clocks, and the percentage that they were measured to be."""
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
        if abs(measured - percent) <= CLOSE:
            break
        clocks *= min(max(percent / measured if measured > 0 else MOST_STEP, 1 / MOST_STEP), MOST_STEP)
    ours.close()
    if not abs(best[1] - percent) <= MOST_OFF:
        sys.exit(f"planted_slow.py: in {ROUNDS} rounds nothing came nearer to {percent:g}% than {best[1]:.2f}%")
    write_sources(folder, best[0])
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("card", nargs="?")
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/fovea"))
    parser.add_argument("--case")
    parser.add_argument("--level")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--percent", type=float)
    how.add_argument("--clocks", type=int)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    if arguments.clocks is not None:
        write_sources(arguments.output, arguments.clocks)
        return
    if arguments.card is None:
        parser.error("--percent takes a card")
    run = [arguments.program, "kernel", "run", arguments.card]
    run += ["--case", arguments.case] if arguments.case else []
    run += ["--level", arguments.level] if arguments.level else []
    clocks, measured = calibrate(arguments.output, run, arguments.percent)
    print(json.dumps({"clocks": clocks, "percent": round(measured, 3)}))


if __name__ == "__main__":
    main()
