"""A small part of scripts/attack in every run of the tests; CONTRIBUTING.md says when to run more of it.

It has to hold for every seed: FOVEA_ATTACK_SEED=7 pytest tests/attack tries another one.
"""

import os
import pathlib

import pytest

from attack import kinds
from attack.arena import CRASH, HANG, MEMORY_USE, OTHER, ROWS, Arena, Case
from attack.jobs import ERROR, ROW, Input, Rows, judge_rows
from attack.runner import Attacks, describe

SEED = int(os.environ.get("FOVEA_ATTACK_SEED", "1"))
# Cases of each kind in every run, and at night: some seconds each on two CPUs. Kinds whose cases are quick, and differ
# from each other, have all of them always.
CASES = {
    "bombs": (8, 24),
    "huge": (4, 12),
    "memory": (1, 1),
    "mutants": (1, 3),
    "tars": (10, 30),
    "sources": (12, 12),
    "models": (8, 8),
    "hub": (12, 12),
    "states": (4, 8),
    "process": (8, 24),
    "signals": (2, 5),
    "kills": (2, 4),
    "python": (2, 5),
}


@pytest.fixture(scope="module")
def attacks(fovea_bin, tmp_path_factory):
    folder = pathlib.Path(os.environ.get("FOVEA_ATTACK_FOLDER") or tmp_path_factory.mktemp("attack"))
    return Attacks(Arena(folder, fovea_bin, small=True), list(kinds.NAMES), SEED)


def test_every_kind_has_its_share():
    assert list(CASES) == list(kinds.NAMES)


@pytest.mark.parametrize(
    ("command", "category"),
    [
        ("exit 0", None),
        ("exit 1", OTHER),
        ("kill -SEGV $$", CRASH),
        ("sleep 60", HANG),
        ("while :; do :; done", HANG),
        ("exec python3 -c 'bytearray(300_000_000)'", MEMORY_USE),
        ("printf '\\033[2J' >&2", OTHER),
        ("echo 'internal error: x' >&2", OTHER),
    ],
)
def test_supervision_notices(attacks, tmp_path, command, category):
    case = Case(attacks.arena, "test", "test", tmp_path)
    patience = 0.5 if category == HANG else 30  # a busy machine needs long to start Python
    case.run("-c", command, program=["bash"], patience=patience, codes=(0,), memory=200_000_000)
    assert [problem.category for problem in case.problems] == ([category] if category else [])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: rows.sources.pop() and rows.rows.pop(),
        lambda rows: rows.rows.reverse(),
        lambda rows: rows.sources.reverse() or rows.rows.reverse(),
        lambda rows: rows.sources.append("stranger") or rows.rows.append(b""),
        lambda rows: rows.errors.append((rows.sources[0], "damaged")),
        lambda rows: rows.errors.append((rows.sources.pop(0), "damaged")) or rows.rows.pop(0),
        lambda rows: rows.errors.clear(),
    ],
)
def test_judge_notices(attacks, tmp_path, spoil):
    arena = attacks.arena
    inputs = [Input(os.fsencode(path), ROW) for path in arena.photos] + [Input(b"damaged.jpg", ERROR)]
    sources = [item.source for item in inputs[:-1]]
    case = Case(arena, "test", "test", tmp_path)
    rows = Rows(sources, [row.tobytes() for row in arena.pixels], [("damaged.jpg", "damaged")])
    judge_rows(case, inputs, rows, "preprocess")
    assert not case.problems
    spoil(rows)
    judge_rows(case, inputs, rows, "preprocess")
    assert ROWS in [problem.category for problem in case.problems]


@pytest.mark.parametrize(
    ("kind", "cases"),
    [
        pytest.param(kind, cases, id=f"{kind}-{cases}", marks=[pytest.mark.nightly] if index > 0 else [])
        for kind, counts in CASES.items()
        for index, cases in enumerate(sorted(set(counts)))
    ],
)
def test_nothing_crashes_hangs_or_spoils_a_row(attacks, kind, cases):
    failed = attacks.run(kind, 60, cases)
    if attacks.tallies[kind].cases == 0:
        pytest.skip("libfovea.so is not beside the program")
    assert not failed, "\n".join(map(describe, failed))
