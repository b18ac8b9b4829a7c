"""Nothing of an earlier run's files is believed before it is checked, and what is proven is kept.

FOVEA_STATE_SEEDS=0,1,2 FOVEA_STATE_COUNT=700 makes a long run of it.
"""

import collections
import concurrent.futures
import json
import os
import random
import shutil

import cpus
import pytest
from output_damage import alter
from pipeline_support import contents, jpeg

SEEDS = [int(seed) for seed in os.environ.get("FOVEA_STATE_SEEDS", "0").split(",")]
COUNT = int(os.environ.get("FOVEA_STATE_COUNT", "120"))
BAD = (3, 9, 22, 31)  # damaged photos
FIXED = (9, 31)  # mended before a retry
SMALL = ["--shard-rows", "8", "--batch-size", "4"]

# kind: flags of the job, what has led to the state
KINDS = {
    "npy": (SMALL, "stopped"),
    "one file": (["--batch-size", "4"], "stopped"),
    "jsonl": (["--format", "jsonl", *SMALL], "stopped"),
    "f16": (["--dtype", "f16", "--shard-rows", "16", "--batch-size", "8"], "stopped"),
    "one row a file": (["--shard-rows", "1", "--batch-size", "1"], "stopped"),
    "killed": (["--shard-rows", "8", "--batch-size", "2"], "killed"),
    "finished": (SMALL, "finished"),
    "finished jsonl": (["--format", "jsonl", "--batch-size", "4"], "finished"),
    "retrying": (SMALL, "retrying"),
    "retried": (SMALL, "retried"),
}


class Job:
    """An output in some state, and what the next run makes of it."""

    def __init__(self, embed, folder, first, flags, state):
        self.embed = embed
        self.folder = folder
        # Names and errors are those of every other job here; pictures and their sizes are not.
        photos = folder / "in"
        photos.mkdir(parents=True)
        for number in range(40):
            bad = number in BAD
            (photos / f"{number}.jpg").write_bytes(b"damaged" if bad else jpeg(first + number))
        self.flags = ["--threads", "1", "--decode-threads", "1", *flags]
        self.left = folder / "out"  # the state that is altered
        if state in ("stopped", "killed"):
            # It ends before the batch with the third bad photo.
            self.run(self.left, "--max-errors", "2", code=1)
        else:
            self.run(self.left)
        if state == "killed":  # between two checkpoints
            for path in self.left.glob("*.partial"):
                path.write_bytes(path.read_bytes() + b"more" * first)
        if state in ("retrying", "retried"):
            for number in FIXED:
                (photos / f"{number}.jpg").write_bytes(jpeg(first + number))
            self.run(self.left, "--retry-failed", *(["--strict"] if state == "retrying" else []), code=None)
        if state == "retrying":
            self.flags.append("--retry-failed")
            assert json.loads((self.left / "manifest.json").read_text())["resume"]["retrying"]
        self.expected = folder / "expected"
        shutil.copytree(self.left, self.expected)
        self.run(self.expected)

    def run(self, out, *flags, code=3):
        return self.embed("in", out=out, flags=[*self.flags, *flags], code=code, timeout=60, cwd=self.folder)


@pytest.fixture(scope="module")
def jobs(embed, tmp_path_factory):
    """Two jobs of every kind, alike but for their photos."""
    made = {}
    for kind, (flags, state) in KINDS.items():
        folder = tmp_path_factory.mktemp("job")
        made[kind] = [Job(embed, folder / side, 10 + 100 * i, flags, state) for i, side in enumerate("ab")]
    return made


def try_one(jobs, seed, number, folder):
    """Alters a copy of an output and runs the job again. Returns what became of it, and the words."""
    rng = random.Random(f"{seed}/{number}")
    kind = rng.choice(sorted(jobs))
    job, other = jobs[kind]
    out = folder / f"{seed}-{number}"
    shutil.copytree(job.left, out)
    what = f"{seed}/{number} {kind}: {alter(out, rng, other.left)}"
    altered = contents(out)
    result = job.run(out, code=None)
    if result.returncode in (0, 3):
        right = contents(out) == contents(job.expected)
        outcome = "healed" if right else "ACCEPTED with another result"
    elif result.returncode == 1 and str(out) in result.stderr and "internal error" not in result.stderr:
        says = "--overwrite" in result.stderr
        outcome = "refused" if says else "REFUSED without advice"
        outcome = outcome if contents(out) == altered else "REFUSED after changes"
    else:
        outcome = f"DIED with {result.returncode}"
    shutil.rmtree(out)
    return outcome, f"{what}\n{result.stderr}"


def in_parallel(work, numbers):
    with concurrent.futures.ThreadPoolExecutor(cpus.available()) as pool:
        return list(pool.map(work, numbers))


@pytest.mark.parametrize("seed", SEEDS)
def test_altered_state_is_refused_or_healed(jobs, tmp_path, seed):
    results = in_parallel(lambda number: try_one(jobs, seed, number, tmp_path), range(COUNT))
    counts = collections.Counter(outcome for outcome, _ in results)
    print(f"seed {seed}: {dict(counts)}")
    wrong = [f"{outcome}: {what}" for outcome, what in results if outcome not in ("refused", "healed")]
    assert not wrong, f"{len(wrong)} of {COUNT}: {dict(counts)}\n" + "\n".join(wrong[:20])
    assert counts["refused"] > COUNT / 3 and counts["healed"] > 0


def try_repair(jobs, seed, number, folder):
    """Damages a copy of an output, repairs it and runs the job again: the same bytes, or no change."""
    rng = random.Random(f"repair/{seed}/{number}")
    kind = rng.choice(sorted(jobs))
    job, other = jobs[kind]
    out = folder / f"{seed}-{number}"
    shutil.copytree(job.left, out)
    what = f"{seed}/{number} {kind}: {alter(out, rng, other.left)}"
    if "checksums" in what and "of another output" in what:
        shutil.rmtree(out)
        return "of another output", 0, what  # which is what would be proven then
    altered = contents(out)
    checked = job.embed.run_fovea("check", out, "--json", code=None)
    found = json.loads(checked.stdout)
    mended = job.embed.run_fovea("check", out, "--repair", code=None)
    words = f"{what}\n{checked.stdout}\n{mended.stdout}{mended.stderr}"
    if checked.returncode == 0:
        outcome = "nothing wrong" if contents(out) == altered else "CHANGED what was right"
    elif mended.returncode == 0:
        outcome = "repaired"
        if job.embed.run_fovea("check", out, code=None).returncode != 0:
            outcome = "REPAIRED but still wrong"
    else:
        outcome = "not provable" if contents(out) == altered else "CHANGED without repairing"
    if outcome in ("repaired", "nothing wrong"):
        result = job.run(out, code=None)
        left, expected = contents(out), contents(job.expected)
        if "checksums.jsonl" in what:  # a line of it that was lost stays lost
            for name in ("checksums.jsonl", "manifest.json"):
                left.pop(name, None), expected.pop(name)
        # The check names foreign files and leaves them alone.
        left = {name: left[name] for name in left if name in expected}
        if result.returncode not in (0, 3) or left != expected:
            outcome = f"{outcome}, but then ANOTHER RESULT ({result.returncode}: {result.stderr[-300:]})"
    shutil.rmtree(out)
    kept = found["kept_rows"] if outcome == "repaired" else 0
    return outcome, kept, words


@pytest.mark.parametrize("seed", SEEDS)
def test_repaired_output_ends_as_if_undamaged(jobs, tmp_path, seed):
    count = max(COUNT // 3, 1)
    results = in_parallel(lambda number: try_repair(jobs, seed, number, tmp_path), range(count))
    counts = collections.Counter(outcome for outcome, _, _ in results)
    print(f"seed {seed}: {dict(counts)}, {sum(kept for _, kept, _ in results)} rows kept")
    allowed = ("repaired", "nothing wrong", "not provable", "of another output")
    wrong = [f"{outcome}: {words}" for outcome, _, words in results if outcome not in allowed]
    assert not wrong, f"{len(wrong)} of {count}: {dict(counts)}\n" + "\n".join(wrong[:20])
    assert counts["repaired"] > count / 3
