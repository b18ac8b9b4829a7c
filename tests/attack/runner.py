"""Runs the kinds of attack in turn, with fresh seeds, until the time is up: scripts/attack."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import pathlib
import random as random_module
import sys
import time
from collections.abc import Iterator

from attack import kinds
from attack.arena import CRASH, HANG, MEMORY_USE, OTHER, ROOT, ROWS, Arena, Case


@dataclasses.dataclass
class Tally:
    """What the cases of one kind came to."""

    cases: int = 0
    accepted: int = 0
    refused: int = 0
    slowest: tuple[float, str] = (0.0, "-")
    peak: int = 0
    seconds: float = 0.0
    problems: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, case: Case) -> None:
        self.cases += 1
        self.accepted += case.accepted
        self.refused += case.refused
        self.slowest = max(self.slowest, (case.seconds, case.name))
        self.peak = max(self.peak, case.peak)
        self.problems.update(problem.category for problem in case.problems)

    def line(self, name: str) -> str:
        found = ", ".join(f"{count} {category}" for category, count in sorted(self.problems.items())) or "clean"
        return (
            f"{name:<10}{self.cases:>6}{self.accepted:>9}{self.refused:>9}{self.slowest[0]:>9.2f}"
            f"{self.peak / 1e6:>9.0f}{self.seconds:>8.0f}  {found}"
        )


_ROUNDS = 3
_WEIGHTS = {
    "bombs": 2,
    "memory": 2,
    "signals": 4,
    "python": 5,
}  # whose cases take long, or that are to be many

HEADER = f"{'kind':<10}{'cases':>6}{'accepted':>9}{'refused':>9}{'slowest':>9}{'peak MB':>9}{'seconds':>8}  found"


class Attacks:
    """The kinds, each with its place in an endless row of cases."""

    def __init__(self, arena: Arena, names: list[str], seed: int) -> None:
        self.arena = arena
        self.tallies = {name: Tally() for name in names}
        self._cases = {name: self._endless(arena, name, seed) for name in names}

    @staticmethod
    def _endless(arena: Arena, name: str, seed: int) -> Iterator[Case]:
        number = 0
        while True:
            arena.label = f"seed{seed}-round{number}-"
            found = False
            for case in kinds.kind(name)(arena, random_module.Random(f"{seed} {name} {number}")):
                found = True
                yield case
                arena.label = f"seed{seed}-round{number}-"
            if not found:
                return
            number += 1

    def run(self, name: str, seconds: float, cases: int = sys.maxsize) -> list[Case]:
        """Cases of one kind for about so long, or until there were so many; at least one. Returns those with problems."""
        tally, start, failed = self.tallies[name], time.monotonic(), []
        for case in self._cases[name]:
            tally.add(case)
            if case.problems:
                failed.append(case)
            if tally.cases >= cases or time.monotonic() - start >= seconds:
                break
        tally.seconds += time.monotonic() - start
        return failed


def describe(case: Case) -> str:
    """What is wrong, and the command that shows it again."""
    lines = [f"  {problem.category}: {problem.text}" for problem in case.problems[:5]]
    if len(case.problems) > 5:
        lines.append(f"  and {len(case.problems) - 5} more")
    return "\n".join([f"{case.kind}: {case.name}", *lines, f"  repeat it with {case.folder / 'repeat.sh'}"])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/attack", description="Attacks Fovea with hostile files, hubs and signals."
    )
    parser.add_argument("--minutes", type=float, default=5, help="how long (default: 5)")
    parser.add_argument("--seed", type=int, help="which files are made (default: a random one, printed)")
    parser.add_argument("--only", default=",".join(kinds.NAMES), metavar="KIND,...", help="some of: %(default)s")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/fovea")
    parser.add_argument("--small", action="store_true", help="the small files of the test in CI")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := set(names) - set(kinds.NAMES):
        parser.error(f"there is no kind {', '.join(sorted(unknown))}; there are {', '.join(kinds.NAMES)}")
    if not options.program.is_file():
        parser.error(f"{options.program} is not there: run scripts/build, or name it with --program")
    seed = options.seed if options.seed is not None else random_module.randrange(10**6)
    print(f"attacking {options.program} for {options.minutes:g} minutes with seed {seed}", flush=True)
    arena = Arena(ROOT / "build/attack", options.program, options.small)
    attacks = Attacks(arena, names, seed)
    end = time.monotonic() + 60 * options.minutes
    share = 60 * options.minutes / _ROUNDS / sum(_WEIGHTS.get(name, 1) for name in names)
    print(HEADER, flush=True)
    while time.monotonic() < end:
        for name in names:
            left = end - time.monotonic()
            if left <= 0 and attacks.tallies[name].cases > 0:
                continue
            for case in attacks.run(name, min(share * _WEIGHTS.get(name, 1), left)):
                print(describe(case), flush=True)
            print(attacks.tallies[name].line(name), flush=True)
    return summary(attacks)


def summary(attacks: Attacks) -> int:
    print(f"\n{HEADER}")
    total: collections.Counter = collections.Counter()
    for name, tally in attacks.tallies.items():
        print(tally.line(name))
        total.update(tally.problems)
    cases = sum(tally.cases for tally in attacks.tallies.values())
    print(
        f"\n{cases} cases, {total[CRASH]} crashes, {total[HANG]} hangs, {total[ROWS]} wrong rows, "
        f"{total[MEMORY_USE]} over the memory, {total[OTHER]} other"
    )
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
