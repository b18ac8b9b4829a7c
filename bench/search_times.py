"""Times exact searches in one collection, Fovea's beside those of faiss, usearch and numpy, all in one run and in
turns:

    python3 bench/search_times.py FOLDER [--rows 10000000] [--dimension 768] [--batches 1,16,256] [--repeats 5] [-k 10]
                                  [--programs build/release] [--peers NAMES] [--json FILE] [--device cuda]

FOLDER is where the collection is, or is made: random unit rows in f16, as `fovea embed` writes them. Peers have all
rows in memory, one part of them a core, as far as the memory reaches: what does not fit maps the files (f16), or is
left out with the reason (f32). What Fovea and they find is compared with scores in float64, of the first queries of
each batch.

With --device cuda, Fovea on the GPU beside torch there, which has all rows in f16 (a product, then topk), and Fovea on
the CPU. torch makes the rows then, and the scores in float64."""

import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # each core has a part of the rows, and a thread for it

import machine
import numpy
from measuring import numbers, parser, unit
from programs import words

SHARD_ROWS = 1 << 20
CHUNK = 8192  # rows that are converted at a time
CHECKED = 16  # queries of each batch
SLOW = 20.0  # seconds: what takes longer has one turn
PAUSE = 0.2  # seconds between turns, in which the threads of the last one fall asleep


def normals(seed, dimension):
    """Draws so many unit rows."""
    random = numpy.random.default_rng([seed, dimension])
    return lambda rows: unit(random.standard_normal((rows, dimension), dtype=numpy.float32))


def normals_on_gpu(seed, dimension):
    """The same, others, as f16."""
    import torch

    random = torch.Generator("cuda").manual_seed(seed)

    def draw(rows):
        values = torch.randn((rows, dimension), generator=random, device="cuda")
        return torch.nn.functional.normalize(values).half().cpu().numpy()

    return draw


def make_shard(folder, index, rows, dimension, on_gpu):
    """Writes the shard unless it is there. Its rows are known by its number."""
    path = folder / f"embeddings-{index:05}.npy"
    if path.is_file():
        have = numpy.load(path, mmap_mode="r")
        if have.shape != (rows, dimension) or have.dtype != numpy.float16:
            sys.exit(f"{path}: is not of this benchmark: {have.dtype} {have.shape}; give another folder")
        return
    draw = normals_on_gpu(index, dimension) if on_gpu else normals(index, dimension)
    array = numpy.lib.format.open_memmap(path.with_suffix(".part"), "w+", numpy.float16, (rows, dimension))
    for first in range(0, rows, CHUNK):
        part = array[first : first + CHUNK]
        part[:] = draw(len(part))
    array.flush()
    lines = (
        f'{{"row": {row}, "source": "photos/{index * SHARD_ROWS + row:08}.jpg", "width": 1024, "height": 768}}\n'
        for row in range(rows)
    )
    with open(folder / f"index-{index:05}.jsonl", "w") as out:
        out.writelines(lines)
    path.with_suffix(".part").rename(path)


def make_collection(options):
    """The f16 arrays of the shards, mapped."""
    options.folder.mkdir(parents=True, exist_ok=True)
    firsts = range(0, options.rows, SHARD_ROWS)
    shards = [(index, min(SHARD_ROWS, options.rows - first)) for index, first in enumerate(firsts)]
    known = {f"embeddings-{index:05}.npy" for index, _ in shards}
    if others := {path.name for path in options.folder.glob("embeddings-*.npy")} - known:
        sys.exit(f"{options.folder}: has other shards than {options.rows} rows make: {', '.join(sorted(others))}")
    on_gpu = options.device == "cuda"
    with concurrent.futures.ThreadPoolExecutor(options.threads) as pool:
        list(pool.map(lambda shard: make_shard(options.folder, *shard, options.dimension, on_gpu), shards))
    return [numpy.load(options.folder / name, mmap_mode="r") for name in sorted(known)]


def available_bytes():
    text = pathlib.Path("/proc/meminfo").read_text()
    return int(text.split("MemAvailable:")[1].split()[0]) * 1024


def parts_of(count, parts):
    """Ranges of `count` rows, nearly alike."""
    return [(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def beside(found):
    """Several (scores, rows), each [queries, <= k], as one."""
    return tuple(numpy.concatenate(parts, axis=1) for parts in zip(*found, strict=True))


def merge(found, k):
    """The k best of several (scores, rows), the best one first."""
    scores, rows = beside(found)
    order = numpy.argsort(-scores, axis=1, kind="stable")[:, :k]
    return numpy.take_along_axis(scores, order, axis=1), numpy.take_along_axis(rows, order, axis=1)


class Rows:
    """The rows as peers want them, each kept once."""

    def __init__(self, shards):
        self.shards = shards
        self.count = sum(map(len, shards))
        self.dimension = shards[0].shape[1]
        self._halves = None

    def pieces(self, step=CHUNK):
        """Number of the first row of each piece, and the piece as it is mapped."""
        first = 0
        for shard in self.shards:
            for offset in range(0, len(shard), step):
                yield first + offset, shard[offset : offset + step]
            first += len(shard)

    def bytes_as(self, dtype):
        return self.count * self.dimension * numpy.dtype(dtype).itemsize

    def copy(self, begin, end, dtype, normalize):
        """Rows [begin, end) in memory."""
        array = numpy.empty((end - begin, self.dimension), dtype)
        first = 0
        for shard in self.shards:
            for offset in range(max(begin - first, 0), min(end - first, len(shard)), CHUNK):
                part = shard[offset : min(offset + CHUNK, end - first)]
                to = first + offset - begin
                array[to : to + len(part)] = unit(part.astype(numpy.float32)) if normalize else part
            first += len(shard)
        return array

    def halves(self, room):
        """f16, in memory if that leaves `room` bytes free; else as they are mapped. Says which."""
        if self._halves is None:
            if available_bytes() - 2 * self.bytes_as(numpy.float16) > room:  # the files stay in the page cache
                self._halves = [self.copy(0, self.count, numpy.float16, False)], "in memory"
            else:
                self._halves = self.shards, "mapped files"
        return self._halves


class Engine:
    """What searches: search(queries, path of the same) gives seconds, rows, and scores where they are exact."""

    def close(self):
        pass


class Fovea(Engine):
    """A program that has the collection open."""

    def __init__(self, options, way):
        command = [options.programs / "bin/search_bench", options.folder, str(options.k), way, str(options.threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.open_seconds = self._answer()["open_seconds"]
        self.first_seconds = None

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"search_bench ended with {self.process.wait()}")
        return json.loads(line)

    def search(self, queries, path):
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        told = self._answer()
        self.first_seconds = self.first_seconds or told["seconds"]
        return told["seconds"], numpy.array(told["rows"]), numpy.array(told["scores"])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class ColdProgram(Engine):
    """`fovea similar`, from its start to its end."""

    def __init__(self, options):
        names = {"in": options.folder, "k": options.k, "threads": options.threads, "json": True}
        self.command = words(options.programs / "bin/fovea", "similar", **names)

    def search(self, queries, path):
        start = time.perf_counter()
        done = subprocess.run([*self.command, str(path)], check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        found = [query["matches"] for query in json.loads(done.stdout)["queries"]]
        rows, scores = (numpy.array([[match[key] for match in row] for row in found]) for key in ("row", "score"))
        return seconds, rows, scores


class Peer(Engine):
    """search_part(part, queries) of every part at once, one thread each; (scores, rows) of each part, rows of all."""

    def __init__(self, options, parts):
        self.k = options.k
        self.parts = parts
        self.pool = concurrent.futures.ThreadPoolExecutor(len(parts), initializer=self.start_thread)

    def start_thread(self):
        pass

    def search(self, queries, path):
        start = time.perf_counter()
        found = merge(list(self.pool.map(lambda part: self.search_part(part, queries), self.parts)), self.k)
        return time.perf_counter() - start, found[1], None

    def close(self):
        self.pool.shutdown()


class Faiss(Peer):
    """Flat indexes, which use one thread for one query: so each core has one of its own."""

    def __init__(self, options, rows, make, normalize):
        import faiss

        self.faiss = faiss
        parts = []
        for begin, end in parts_of(rows.count, options.threads):
            index = make(faiss, rows.dimension)
            index.train(numpy.zeros((1, rows.dimension), numpy.float32))
            index.add(rows.copy(begin, end, numpy.float32, normalize))  # at once: it would keep room for more
            parts.append((begin, index))
        super().__init__(options, parts)

    def start_thread(self):
        self.faiss.omp_set_num_threads(1)

    def search_part(self, part, queries):
        first, index = part
        scores, found = index.search(queries, self.k)
        return scores, found + first


class Numpy(Peer):
    """Products by its BLAS, of as many rows as stay in the cache, and a partition of the scores."""

    def __init__(self, options, arrays):
        parts = []
        first = 0
        for array in arrays:
            parts += [(first, array, range_) for range_ in parts_of(len(array), options.threads)]
            first += len(array)
        super().__init__(options, parts)

    def search_part(self, part, queries):
        first, array, (begin, end) = part
        found = []
        for offset in range(begin, end, CHUNK):
            chunk = numpy.asarray(array[offset : min(offset + CHUNK, end)], numpy.float32)
            scores = queries @ chunk.T
            k = min(self.k, len(chunk))
            best = numpy.argpartition(-scores, k - 1, axis=1)[:, :k]
            found.append((numpy.take_along_axis(scores, best, axis=1), best + offset + first))
        return beside(found)


class Usearch(Engine):
    """Exact search of usearch, with all threads."""

    def __init__(self, options, arrays):
        from usearch.index import MetricKind, search

        self.k, self.arrays = options.k, arrays
        exact = {"exact": True, "threads": options.threads}
        self.search_array = lambda array, queries: search(array, queries, self.k, MetricKind.IP, **exact)

    def search(self, queries, path):
        queries = queries.astype(numpy.float16)
        start = time.perf_counter()
        found = []
        first = 0
        for array in self.arrays:
            matches = self.search_array(array, queries)
            keys = numpy.atleast_2d(matches.keys).astype(numpy.int64)
            found.append((-numpy.atleast_2d(matches.distances), keys + first))
            first += len(array)
        return time.perf_counter() - start, merge(found, self.k)[1], None


class TorchOnGpu(Engine):
    """All rows in f16 on the GPU: a product, of as many rows as its scores leave room for, and topk."""

    MOST_SCORES = 1 << 30

    def __init__(self, options, rows):
        import torch

        self.torch, self.k = torch, options.k
        self.rows = torch.empty((rows.count, rows.dimension), dtype=torch.float16, device="cuda")
        for first, piece in rows.pieces(SHARD_ROWS):
            self.rows[first : first + len(piece)] = torch.from_numpy(numpy.array(piece)).cuda()
        torch.cuda.synchronize()

    def search(self, queries, path):
        torch = self.torch
        start = time.perf_counter()
        wanted = torch.from_numpy(queries).cuda().half()
        step = max(self.k, self.MOST_SCORES // len(queries))
        scores, found = [], []
        for first in range(0, len(self.rows), step):
            part = (wanted @ self.rows[first : first + step].T).topk(min(self.k, len(self.rows) - first))
            scores.append(part.values)
            found.append(part.indices + first)
        best = torch.cat(scores, 1).topk(self.k)
        rows = torch.cat(found, 1).gather(1, best.indices).cpu().numpy()
        return time.perf_counter() - start, rows, None

    def close(self):
        del self.rows


def best_on_gpu(queries, k):
    """What best_on_cpu gives, from the GPU."""
    import torch

    wanted = torch.nn.functional.normalize(torch.from_numpy(queries).cuda().double())

    def best_of(piece):
        there = torch.nn.functional.normalize(torch.from_numpy(numpy.array(piece)).cuda().double())
        best = (wanted @ there.T).topk(min(k, len(piece)))
        return best.values.cpu().numpy(), best.indices.cpu().numpy()

    return best_of


def best_on_cpu(queries, k):
    """Function that finds the k best rows of a piece: cosines in float64, and places in the piece."""
    wanted = unit(queries.astype(numpy.float64))

    def best_of(piece):
        scores = wanted @ unit(piece.astype(numpy.float64)).T
        best = numpy.argsort(-scores, axis=1, kind="stable")[:, :k]
        return numpy.take_along_axis(scores, best, axis=1), best

    return best_of


def exact_answers(options, rows, queries):
    """Cosines in float64 and rows, by one pass over all rows."""
    best, step = (best_on_gpu, 16 * CHUNK) if options.device == "cuda" else (best_on_cpu, CHUNK)
    best_of = best(queries, options.k)
    found = [(first, best_of(piece)) for first, piece in rows.pieces(step)]
    return merge([(scores, places + first) for first, (scores, places) in found], options.k)


def same_answers(rows, scores, wanted_rows, wanted_scores):
    """Whether all rows are the right ones, with scores as exact as binary64; rows of equal scores may change places."""
    near = numpy.abs(scores - wanted_scores).max() < 1e-12
    return bool(near and all(set(a) == set(b) for a, b in zip(rows, wanted_rows, strict=True)))


def engines_of(options, rows, skipped):
    """Engines by name, in the order in which they are measured."""
    copy = rows.count * (rows.dimension + 16)
    peers = options.peers.split(",")
    if options.device == "cuda":
        yield "Fovea, 8-bit copy on the GPU", lambda: Fovea(options, "cuda")
        yield "Fovea, 8-bit copy in memory", lambda: Fovea(options, "always")
        yield "torch, f16 on the GPU", lambda: TorchOnGpu(options, rows)
        return
    yield "Fovea, 8-bit copy in memory", lambda: Fovea(options, "always")
    yield "Fovea, f16 rows from files", lambda: Fovea(options, "never")
    yield "fovea similar, a process for each", lambda: ColdProgram(options)
    full = rows.bytes_as(numpy.float32)

    def fits(name, size):
        free = available_bytes() - rows.bytes_as(numpy.float16) - copy
        if size < free:
            return True
        skipped.append({"engine": name, "why": f"it needs {size / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free"})
        return False

    for peer in ("usearch", "numpy", "faiss"):
        if peer not in peers:
            skipped.append({"engine": peer, "why": "--peers left it out"})
    if "usearch" in peers:
        arrays, where = rows.halves(copy)
        yield f"usearch exact, f16 {where}", lambda: Usearch(options, arrays)
    if "numpy" in peers:
        arrays, where = rows.halves(copy)
        yield f"numpy, f16 {where}, converted", lambda: Numpy(options, arrays)
    name = "faiss IndexScalarQuantizer fp16"
    if "faiss" in peers and fits(name, full / 2):

        def quantizer(faiss, dimension):
            kind = faiss.ScalarQuantizer.QT_fp16
            return faiss.IndexScalarQuantizer(dimension, kind, faiss.METRIC_INNER_PRODUCT)

        yield name, lambda: Faiss(options, rows, quantizer, False)
    name = "faiss IndexFlatIP, f32"
    if "faiss" in peers and fits(name, full + full / options.threads):
        yield name, lambda: Faiss(options, rows, lambda faiss, dimension: faiss.IndexFlatIP(dimension), True)
    name = "numpy, f32"
    if "numpy" in peers and fits(name, full):
        yield name, lambda: Numpy(options, [rows.copy(0, rows.count, numpy.float32, True)])


def in_turns(options, engines, queries, path):
    """Seconds of each engine's searches, and what it found last."""
    times = {name: [] for name in engines}
    found = {}
    for turn in range(options.repeats + 1):  # the first one warms up
        for name, engine in engines.items():
            if turn > 1 and min(times[name]) > SLOW:
                continue
            seconds, *found[name] = engine.search(queries, path)
            if turn > 0 or seconds > SLOW:
                times[name].append(seconds)
            time.sleep(PAUSE)
    return times, found


def measure(options, rows, engines):
    """A row for each batch of queries and engine."""
    batches = {}
    random = numpy.random.default_rng(0)
    for size in numbers(options.batches):
        queries = unit(random.standard_normal((size, rows.dimension), dtype=numpy.float32))
        path = options.folder / f"queries-{size}.npy"
        numpy.save(path, queries)
        batches[size] = queries, path, exact_answers(options, rows, queries[:CHECKED])
    for size, (queries, path, (true_scores, true_rows)) in batches.items():
        times, found = in_turns(options, engines, queries, path)
        for name, (found_rows, scores) in found.items():
            checked = found_rows[:CHECKED]
            shared = [len(set(a) & set(b)) / options.k for a, b in zip(checked, true_rows, strict=True)]
            row = {
                "engine": name,
                "queries": size,
                "seconds": statistics.median(times[name]),
                "least_seconds": min(times[name]),
                "rows_shared_with_float64": float(numpy.mean(shared)),
            }
            if scores is not None:
                row["is_exact"] = same_answers(checked, scores[:CHECKED], true_rows, true_scores)
            print(json.dumps(row), file=sys.stderr)
            yield row


def main():
    given = parser(__doc__, device="cpu", program="--programs", path=machine.PROGRAM.parents[1])
    given.add_argument("folder", type=pathlib.Path)
    given.add_argument("--rows", type=int, default=10_000_000)
    given.add_argument("--dimension", type=int, default=768)
    given.add_argument("--batches", default="1,16,256")
    given.add_argument("--repeats", type=int, default=5)
    given.add_argument("-k", type=int, default=10)
    given.add_argument("--threads", type=int, default=machine.cpus())
    given.add_argument("--peers", default="faiss,usearch,numpy")
    options = given.parse_args()
    rows = Rows(make_collection(options))
    for _, piece in rows.pieces():  # into the page cache
        piece.max()
    skipped = []
    engines = {}
    for name, make in engines_of(options, rows, skipped):
        engines[name] = make()
        print(f"ready: {name}", file=sys.stderr)
    results = list(measure(options, rows, engines))
    opened = {
        name: {"open_seconds": engine.open_seconds, "first_search_seconds": engine.first_seconds}
        for name, engine in engines.items()
        if isinstance(engine, Fovea)
    }
    for engine in engines.values():
        engine.close()
    told = {name: getattr(options, name) for name in ("dimension", "k", "threads", "device")}
    told |= {"checked_queries": CHECKED, "rows": rows.count, "opened": opened, "results": results, "skipped": skipped}
    where = machine.describe(options.programs / "bin/fovea")
    section = "search_times_gpu" if options.device == "cuda" else "search_times"
    machine.hand_over({"machine": where, section: [told]}, options.json)
    if not all(row.get("is_exact", True) for row in results):
        sys.exit("Fovea's results differ from float64's")


if __name__ == "__main__":
    main()
