"""Kernels with a planted fault, by `fovea emulate --launch`: the fault is found, and what mends it is clean.

tests/emulator/faults holds the table.
"""

import collections
import concurrent.futures
import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.extend(str(ROOT / folder) for folder in ("scripts", "tests/emulator"))

import cpus  # noqa: E402
import everyday.compile  # noqa: E402
from everyday.emulate import run  # noqa: E402
from faults import FAULTS, INNOCENT  # noqa: E402

# Kernels that are run by day: some of each architecture.
SAMPLE = ("tree_reduction", "flag_without_a_fence", "stage_that_is_under_way", "ring_is_freed_by_one_warp",
          "operands_are_not_fenced", "product_is_not_awaited", "ring_with_parity", "bulk_ring_with_leaders")  # fmt: skip
# Schedules that are run, and the end of those in which threads poll for ever.
OPTIONS = ("--all", "--schedules", "20", "--most-operations", "200000")


@pytest.fixture(scope="session")
def judged(fovea_bin, tmp_path_factory):
    """judged(names): what became of the cases of the faults, by the names of the cases."""
    if everyday.compile.compiler() is None:
        pytest.skip("there is no CUDA compiler here: scripts/setup --test installs one")

    def judge(names):
        folder = tmp_path_factory.mktemp("faults")
        chosen = [entry for entry in [*FAULTS.values(), *INNOCENT.values()] if entry.name in names]
        units = collections.defaultdict(list)
        for entry in chosen:
            units[entry.architecture] += [entry.right] + ([entry.wrong] if entry.name in FAULTS else [])

        def compiled(architecture):
            return everyday.compile.compile_unit(
                units[architecture], folder, architecture, (), architecture
            ).read_text()

        with concurrent.futures.ThreadPoolExecutor(cpus.available()) as pool:
            jobs = [(case, ptx) for ptx, cases in zip(pool.map(compiled, units), units.values()) for case in cases]
            results = pool.map(lambda job: run(fovea_bin, *job, folder / job[0].name, *OPTIONS), jobs)
            outcomes = {case.name: outcome for (case, _), outcome in zip(jobs, results)}
        shutil.rmtree(folder)
        return outcomes

    return judge


def complaints(outcomes, names):
    """Lines of the wrong kernels in which something else was found, and of the right ones that are not clean."""
    lines = []
    for name in names:
        right = FAULTS[name].right if name in FAULTS else INNOCENT[name].right
        if outcomes[right.name].kind != "right":
            lines.append(f"{right.name}: {outcomes[right.name].kind}: {outcomes[right.name].said}")
        if name in FAULTS:
            wrong = outcomes[FAULTS[name].wrong.name]
            if FAULTS[name].kind not in wrong.kinds:
                lines.append(f"{name}: not {FAULTS[name].kind}, but {wrong.kind}: {wrong.said}")
    return lines


def test_a_sample_of_faults_is_found(judged):
    assert complaints(judged(SAMPLE), SAMPLE) == []


@pytest.mark.nightly
def test_all_faults_are_found(judged):
    names = [*FAULTS, *INNOCENT]
    assert complaints(judged(names), names) == []


def test_the_table_is_broad():
    counts = collections.Counter(fault.architecture for fault in FAULTS.values())
    assert min(counts[architecture] for architecture in ("sm_80", "sm_90a", "sm_100a")) >= 10
    assert len(INNOCENT) >= 12 and not set(FAULTS) & set(INNOCENT)
