"""A small part of scripts/attack in every run of the tests; CONTRIBUTING.md says when to run more of it.

It has to hold for every seed: FOVEA_ATTACK_SEED=7 pytest tests/attack tries another one.
"""

import os
import pathlib

import pytest

from attack import kinds
from attack.arena import Arena
from attack.runner import Attacks, describe

SEED = int(os.environ.get("FOVEA_ATTACK_SEED", "1"))
# Cases of each kind: some seconds each on two CPUs.
CASES = {
    "bombs": 24, "huge": 12, "memory": 1, "mutants": 3, "tars": 30, "sources": 12, "models": 8, "hub": 12,
    "states": 8, "process": 24, "signals": 5, "kills": 4, "python": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def attacks(fovea_bin, tmp_path_factory):
    folder = pathlib.Path(os.environ.get("FOVEA_ATTACK_FOLDER") or tmp_path_factory.mktemp("attack"))
    return Attacks(Arena(folder, fovea_bin, small=True), list(kinds.NAMES), SEED)


def test_every_kind_has_its_share():
    assert list(CASES) == list(kinds.NAMES)


@pytest.mark.parametrize("kind", CASES)
def test_nothing_crashes_hangs_or_spoils_a_row(attacks, kind):
    failed = attacks.run(kind, 60, CASES[kind])
    if attacks.tallies[kind].cases == 0:
        pytest.skip("libfovea.so is not beside the program")
    assert not failed, "\n".join(map(describe, failed))
