"""Photos come, change, go and are renamed while `fovea embed --update` is killed again and again.

tests/pipeline/test_update.py runs small trials. A large one, with the figures it prints:

    python tests/pipeline/update_trial.py --photos 20000 --kills 20 --seed 1
"""

import argparse
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
from pipeline_support import jpeg, read_lines, read_output


class Photos:
    """A folder of photos, and what happens to it. All choices are drawn from `rng`."""

    def __init__(self, folder, count, rng):
        self.folder, self.rng, self.seed = folder, rng, 0
        folder.mkdir()
        for number in range(count):
            self.add(folder / f"{number // 50}" / f"{number:06}.jpg")

    def files(self):
        return sorted(p for p in self.folder.rglob("*") if p.is_file())

    def content(self):
        self.seed += 1
        return jpeg(self.seed, 24 + self.seed % 17, 20 + self.seed % 13)

    def add(self, path):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(self.content())

    def change(self, path):
        """Other bytes; as many as before where that is possible, so that only the date tells."""
        old, new = path.read_bytes(), self.content()
        if len(new) < len(old) and self.rng.random() < 0.5:
            new += bytes(len(old) - len(new))  # decoders pass over what follows an image
        path.write_bytes(new)

    def rename(self, path):
        path.rename(path.with_name(f"{self.rng.choice('amz')}{path.name}"))

    def happen(self, count):
        """`count` of everything, and a folder that is renamed."""
        files = self.rng.sample(self.files(), 4 * count)
        for path in files[:count]:
            self.change(path)
        for path in files[count : 2 * count]:
            path.unlink()
        for path in files[2 * count : 3 * count]:
            self.rename(path)
        for path in files[3 * count :]:
            self.add(path.with_name(f"{self.rng.choice('0bzZ')}{self.seed}.jpg"))
        damaged = self.rng.choice(files[3 * count :])
        damaged.write_bytes(b"damaged %d" % self.seed)  # until it is changed, renamed or removed
        folder = self.rng.choice([p for p in self.folder.iterdir() if p.is_dir()])
        self.seed += 1
        folder.rename(folder.with_name(f"{self.rng.randrange(10)}-{self.seed}"))


def rows_by_source(out):
    """{source: (row bytes, line without its number)} of a finished output, and its errors."""
    sources, _, embeddings, errors = read_output(out)
    lines = [
        {key: value for key, value in line.items() if key != "row"}
        for path in sorted(out.glob("index-*.jsonl"))
        for line in read_lines(path)
    ]
    assert len(set(sources)) == len(sources), "a photo has two rows"
    return {
        source: (row.tobytes(), json.dumps(line)) for source, row, line in zip(sources, embeddings, lines, strict=True)
    }, errors


class Trial:
    def __init__(self, fovea, model, folder, photos, seed, shard_rows=65536, flags=()):
        self.rng = random.Random(seed)
        self.fovea, self.model = fovea, model
        self.folder = folder
        self.out = folder / "out"
        self.photos = Photos(folder / "photos", photos, self.rng)
        self.flags = ["--precision", "fp32", "--shard-rows", str(shard_rows), *flags]
        self.seconds = 0.0  # that an update takes
        self.kills = self.rounds = 0
        self.totals = {"added": 0, "reembedded": 0, "dropped": 0, "unchanged": 0, "not_computed": 0}
        self.kept = 0  # rows of which the bytes were compared with those before

    def command(self, out, *flags):
        arguments = ["embed", "photos", "-m", self.model, "-o", out, "--progress", "json"]
        return [self.fovea, *arguments, *self.flags, *flags]

    def run(self, out, *flags):
        result = subprocess.run(self.command(out, *flags), cwd=self.folder, capture_output=True, text=True, check=False)
        assert result.returncode in (0, 3), result.stderr
        return json.loads(result.stderr.splitlines()[-1])

    def kill_one(self):
        """Starts an update and kills it; whether that came in time."""
        process = subprocess.Popen(self.command(self.out, "--update"), cwd=self.folder, stderr=subprocess.DEVNULL)
        start = time.monotonic()
        try:
            assert process.wait(self.rng.uniform(0, self.seconds)) in (0, 3)
            self.seconds = time.monotonic() - start
            return False
        except subprocess.TimeoutExpired:
            process.send_signal(self.rng.choice([signal.SIGKILL] * 4 + [signal.SIGTERM]))
            return process.wait() in (-signal.SIGKILL, 130)

    def is_as_before(self, before):
        """Whether nothing has changed; otherwise, what is there is what the update makes."""
        now = self.files()
        if now == before:
            return True
        manifest = json.loads(now["manifest.json"])
        assert not manifest["finished"] or not (self.out / ".update/new/manifest.json").exists()
        for path in self.out.glob("embeddings-*.npy"):
            lines = read_lines(self.out / path.name.replace("embeddings", "index").replace("npy", "jsonl"))
            assert len(np.load(path)) == len(lines), path  # no reader pairs them wrongly
        return False

    def files(self):
        """The files that readers know."""
        paths = [p for p in self.out.iterdir() if p.is_file() and p.suffix in (".npy", ".json", ".jsonl")]
        return {path.name: path.read_bytes() for path in paths}

    def stamps(self):
        """{source: size and date} of the photos."""
        found = {}
        for path in self.photos.files():
            stat = path.stat()
            found[str(path.relative_to(self.folder))] = (stat.st_size, stat.st_mtime_ns)
        return found

    def round(self, kills, count):
        """`count` photos of each kind change, and an update is killed `kills` times."""
        before, rows_before = self.files(), rows_by_source(self.out)[0]
        stamps = self.stamps()
        self.photos.happen(count)
        done = False
        for _ in range(kills):
            if not self.kill_one():
                done = True  # it ended before
                break
            self.kills += 1
            if not self.is_as_before(before):
                done = True  # it was killed while it put files in place
                break
            if self.rng.random() < 0.3:
                self.photos.happen(max(1, count // 10))
        start = time.monotonic()
        report = self.run(self.out, "--update")
        if not done:
            self.seconds = max(self.seconds / 2, time.monotonic() - start)
        self.compare(rows_before, stamps)
        if not done:
            for key in self.totals:
                self.totals[key] += report["update"][key]
        self.rounds += 1

    def compare(self, rows_before, stamps):
        fresh = self.folder / "fresh"
        self.run(fresh)
        rows, errors = rows_by_source(self.out)
        rows_fresh, errors_fresh = rows_by_source(fresh)
        assert errors == errors_fresh
        assert rows.keys() == rows_fresh.keys()
        different = [name for name in rows if rows[name] != rows_fresh[name]]
        assert not different, different[:5]
        now = self.stamps()
        kept = [name for name in rows_before if name in now and now[name] == stamps[name]]
        assert all(rows[name] == rows_before[name] for name in kept)
        places = {name: place for place, name in enumerate(rows)}
        order = [places[name] for name in kept]
        assert order == sorted(order), "rows that stay change their order"
        self.kept += len(kept)
        check = subprocess.run([self.fovea, "check", self.out], capture_output=True, check=False)
        assert check.returncode == 0, check.stdout
        assert not (self.out / ".update").exists()
        again = self.run(self.out)  # the inputs are those of the manifest
        assert again["already_done"], again
        shutil.rmtree(fresh)

    def begin(self):
        start = time.monotonic()
        self.run(self.out)
        self.seconds = time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=int, default=20000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--per-round", type=int, default=4, help="kills between two comparisons")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fovea", default="build/release/bin/fovea", type=pathlib.Path)
    parser.add_argument("--shard-rows", type=int, default=4096)
    parser.add_argument("--checksum", action="store_true")
    arguments = parser.parse_args()
    fovea = arguments.fovea.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        subprocess.run([fovea, "init", "--preset", "tiny", "-o", folder / "model"], check=True)
        flags = ["--checksum"] if arguments.checksum else []
        trial = Trial(
            fovea,
            folder / "model",
            folder,
            arguments.photos,
            arguments.seed,
            arguments.shard_rows,
            flags,
        )
        trial.begin()
        print(f"{arguments.photos} photos embedded in {trial.seconds:.1f} s", flush=True)
        trial.seconds /= 4
        while trial.kills < arguments.kills:
            left = arguments.kills - trial.kills
            trial.round(min(left, arguments.per_round), max(1, arguments.photos // 50))
            print(
                f"round {trial.rounds}: {trial.kills} kills, an update takes {trial.seconds:.1f} s; "
                f"all rows equal a fresh run's; {trial.kept} untouched rows have the same bytes; "
                f"{trial.totals}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
