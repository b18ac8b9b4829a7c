"""Times exact searches in one collection by Fovea, faiss, usearch and numpy, in alternating rounds of one run:

    python3 bench/search_times.py FOLDER [--rows 10000000] [--dimension 768] [--batches 1,16,256] [--repeats 5] [-k 10]
                                  [--programs build/release] [--peers NAMES] [--json FILE] [--device cuda]

FOLDER holds the collection, which is made if it is missing: random unit rows in f16, as `fovea embed` writes them.
Peers keep all rows in memory, one part per core. Where memory does not suffice, f16 peers map the files, and f32 peers
are left out with the reason. The results of all engines for the first queries of each batch are compared with scores in
float64.

With --device cuda, the engines are Fovea on the GPU, torch on the GPU with all rows in f16 (a product, then topk), and
Fovea on the CPU. torch then also makes the rows and the scores in float64."""

import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # parallelism comes from one thread per part of the rows

import machine
import numpy
from measuring import numbers, parser, unit
from programs import command_arguments

SHARD_ROWS = 1 << 20
CHUNK = 8192  # rows converted at a time
CHECKED_QUERIES = 16  # queries per batch whose results are checked
SLOW_SECONDS = 20.0  # an engine that takes longer is timed only once
PAUSE = 0.2  # seconds between calls, so that the last engine's spinning threads go to sleep


def normals(seed, dimension):
    """Returns a function that draws a number of random unit rows."""
    random = numpy.random.default_rng([seed, dimension])
    return lambda rows: unit(random.standard_normal((rows, dimension), dtype=numpy.float32))


def normals_on_gpu(seed, dimension):
    """Does the same as `normals` on the GPU, with other values, in f16."""
    import torch

    random = torch.Generator("cuda").manual_seed(seed)

    def draw(rows):
        values = torch.randn((rows, dimension), generator=random, device="cuda")
        return torch.nn.functional.normalize(values).half().cpu().numpy()

    return draw


def make_shard(folder, index, rows, dimension, on_gpu):
    """Writes a shard unless it exists. Its rows depend only on its index."""
    path = folder / f"embeddings-{index:05}.npy"
    if path.is_file():
        have = numpy.load(path, mmap_mode="r")
        if have.shape != (rows, dimension) or have.dtype != numpy.float16:
            sys.exit(
                f"{path} holds {have.dtype} {have.shape}, expected float16 ({rows}, {dimension}); choose another folder"
            )
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
    """Makes the collection if needed, and returns the memory-mapped f16 arrays of its shards."""
    options.folder.mkdir(parents=True, exist_ok=True)
    firsts = range(0, options.rows, SHARD_ROWS)
    shards = [(index, min(SHARD_ROWS, options.rows - first)) for index, first in enumerate(firsts)]
    known = {f"embeddings-{index:05}.npy" for index, _ in shards}
    if others := {path.name for path in options.folder.glob("embeddings-*.npy")} - known:
        sys.exit(f"{options.folder} has shards beyond {options.rows} rows: {', '.join(sorted(others))}")
    on_gpu = options.device == "cuda"
    with concurrent.futures.ThreadPoolExecutor(options.threads) as pool:
        list(pool.map(lambda shard: make_shard(options.folder, *shard, options.dimension, on_gpu), shards))
    return [numpy.load(options.folder / name, mmap_mode="r") for name in sorted(known)]


def available_bytes():
    text = pathlib.Path("/proc/meminfo").read_text()
    return int(text.split("MemAvailable:")[1].split()[0]) * 1024


def split_range(count, parts):
    """Splits `count` rows into ranges of nearly equal length."""
    return [(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def concatenate_columns(results):
    """Joins several (scores, rows), each [queries, <= k], along the second axis."""
    return tuple(numpy.concatenate(parts, axis=1) for parts in zip(*results, strict=True))


def merge(results, k):
    """Returns the k best of several (scores, rows), the best first."""
    scores, rows = concatenate_columns(results)
    order = numpy.argsort(-scores, axis=1, kind="stable")[:, :k]
    return numpy.take_along_axis(scores, order, axis=1), numpy.take_along_axis(rows, order, axis=1)


class Rows:
    """The rows of the collection in the forms that peers need; the f16 form is shared."""

    def __init__(self, shards):
        self.shards = shards
        self.count = sum(map(len, shards))
        self.dimension = shards[0].shape[1]
        self._halves = None

    def pieces(self, step=CHUNK):
        """Yields the number of the first row of each piece, and the memory-mapped piece."""
        first = 0
        for shard in self.shards:
            for offset in range(0, len(shard), step):
                yield first + offset, shard[offset : offset + step]
            first += len(shard)

    def bytes_as(self, dtype):
        return self.count * self.dimension * numpy.dtype(dtype).itemsize

    def copy(self, begin, end, dtype, normalize):
        """Returns a copy of rows [begin, end) in memory."""
        array = numpy.empty((end - begin, self.dimension), dtype)
        first = 0
        for shard in self.shards:
            for offset in range(max(begin - first, 0), min(end - first, len(shard)), CHUNK):
                part = shard[offset : min(offset + CHUNK, end - first)]
                target = first + offset - begin
                array[target : target + len(part)] = unit(part.astype(numpy.float32)) if normalize else part
            first += len(shard)
        return array

    def halves(self, free_bytes):
        """Returns the rows in f16 and where they are: in memory if that leaves `free_bytes` bytes free, otherwise mapped."""
        if self._halves is None:
            if available_bytes() - 2 * self.bytes_as(numpy.float16) > free_bytes:  # the files stay in the page cache
                self._halves = [self.copy(0, self.count, numpy.float16, False)], "in memory"
            else:
                self._halves = self.shards, "mapped files"
        return self._halves


class Engine:
    """A search engine: search(queries, path of the same queries) returns seconds, rows, and scores or None."""

    def close(self):
        pass


class Fovea(Engine):
    """A search_bench process, which keeps the collection open."""

    def __init__(self, options, rows_in_memory):
        command = [
            options.programs / "bin/search_bench",
            options.folder,
            str(options.k),
            rows_in_memory,
            str(options.threads),
        ]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.open_seconds = self._answer()["open_seconds"]
        self.first_seconds = None

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"search_bench ended with exit code {self.process.wait()}")
        return json.loads(line)

    def search(self, queries, path):
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        answer = self._answer()
        self.first_seconds = self.first_seconds or answer["seconds"]
        return answer["seconds"], numpy.array(answer["rows"]), numpy.array(answer["scores"])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class ColdProgram(Engine):
    """`fovea similar`, timed as a whole process."""

    def __init__(self, options):
        names = {"in": options.folder, "k": options.k, "threads": options.threads, "json": True}
        self.command = command_arguments(options.programs / "bin/fovea", "similar", **names)

    def search(self, queries, path):
        start = time.perf_counter()
        done = subprocess.run([*self.command, str(path)], check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        matches_by_query = [query["matches"] for query in json.loads(done.stdout)["queries"]]
        rows, scores = (
            numpy.array([[match[key] for match in row] for row in matches_by_query]) for key in ("row", "score")
        )
        return seconds, rows, scores


class Peer(Engine):
    """An engine that searches all parts in parallel, one thread each. search_part(part, queries) returns (scores, rows)
    of one part, and search() merges them."""

    def __init__(self, options, parts):
        self.k = options.k
        self.parts = parts
        self.pool = concurrent.futures.ThreadPoolExecutor(len(parts), initializer=self.start_thread)

    def start_thread(self):
        pass

    def search(self, queries, path):
        start = time.perf_counter()
        merged = merge(list(self.pool.map(lambda part: self.search_part(part, queries), self.parts)), self.k)
        return time.perf_counter() - start, merged[1], None

    def close(self):
        self.pool.shutdown()


class Faiss(Peer):
    """faiss with one flat index per core, because a flat index uses a single thread for a single query."""

    def __init__(self, options, rows, make, normalize):
        import faiss

        self.faiss = faiss
        parts = []
        for begin, end in split_range(rows.count, options.threads):
            index = make(faiss, rows.dimension)
            index.train(numpy.zeros((1, rows.dimension), numpy.float32))
            index.add(
                rows.copy(begin, end, numpy.float32, normalize)
            )  # in one call: an index that grows would over-allocate
            parts.append((begin, index))
        super().__init__(options, parts)

    def start_thread(self):
        self.faiss.omp_set_num_threads(1)

    def search_part(self, part, queries):
        first, index = part
        scores, rows = index.search(queries, self.k)
        return scores, rows + first


class Numpy(Peer):
    """numpy: BLAS products of CHUNK rows, which stay in the cache, and a partition of the scores."""

    def __init__(self, options, arrays):
        parts = []
        first = 0
        for array in arrays:
            parts += [(first, array, range_) for range_ in split_range(len(array), options.threads)]
            first += len(array)
        super().__init__(options, parts)

    def search_part(self, part, queries):
        first, array, (begin, end) = part
        results = []
        for offset in range(begin, end, CHUNK):
            chunk = numpy.asarray(array[offset : min(offset + CHUNK, end)], numpy.float32)
            scores = queries @ chunk.T
            k = min(self.k, len(chunk))
            best = numpy.argpartition(-scores, k - 1, axis=1)[:, :k]
            results.append((numpy.take_along_axis(scores, best, axis=1), best + offset + first))
        return concatenate_columns(results)


class Usearch(Engine):
    """usearch's exact search, with all threads."""

    def __init__(self, options, arrays):
        from usearch.index import MetricKind, search

        self.k, self.arrays = options.k, arrays
        exact = {"exact": True, "threads": options.threads}
        self.search_array = lambda array, queries: search(array, queries, self.k, MetricKind.IP, **exact)

    def search(self, queries, path):
        queries = queries.astype(numpy.float16)
        start = time.perf_counter()
        results = []
        first = 0
        for array in self.arrays:
            matches = self.search_array(array, queries)
            keys = numpy.atleast_2d(matches.keys).astype(numpy.int64)
            results.append((-numpy.atleast_2d(matches.distances), keys + first))
            first += len(array)
        return time.perf_counter() - start, merge(results, self.k)[1], None


class TorchOnGpu(Engine):
    """torch with all rows in f16 on the GPU: products of blocks with at most MAX_SCORES scores, and topk."""

    MAX_SCORES = 1 << 30

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
        device_queries = torch.from_numpy(queries).cuda().half()
        step = max(self.k, self.MAX_SCORES // len(queries))
        scores, row_blocks = [], []
        for first in range(0, len(self.rows), step):
            part = (device_queries @ self.rows[first : first + step].T).topk(min(self.k, len(self.rows) - first))
            scores.append(part.values)
            row_blocks.append(part.indices + first)
        best = torch.cat(scores, 1).topk(self.k)
        rows = torch.cat(row_blocks, 1).gather(1, best.indices).cpu().numpy()
        return time.perf_counter() - start, rows, None

    def close(self):
        del self.rows


def make_gpu_reference(queries, k):
    """Does the same as make_cpu_reference, on the GPU."""
    import torch

    unit_queries = torch.nn.functional.normalize(torch.from_numpy(queries).cuda().double())

    def find_best(piece):
        piece_rows = torch.nn.functional.normalize(torch.from_numpy(numpy.array(piece)).cuda().double())
        best = (unit_queries @ piece_rows.T).topk(min(k, len(piece)))
        return best.values.cpu().numpy(), best.indices.cpu().numpy()

    return find_best


def make_cpu_reference(queries, k):
    """Returns a function that finds the k best rows of a piece: cosines in float64, and positions in the piece."""
    unit_queries = unit(queries.astype(numpy.float64))

    def find_best(piece):
        scores = unit_queries @ unit(piece.astype(numpy.float64)).T
        best = numpy.argsort(-scores, axis=1, kind="stable")[:, :k]
        return numpy.take_along_axis(scores, best, axis=1), best

    return find_best


def exact_answers(options, rows, queries):
    """Returns the k best cosines in float64 and their rows, from one pass over all rows."""
    best, step = (make_gpu_reference, 16 * CHUNK) if options.device == "cuda" else (make_cpu_reference, CHUNK)
    find_best = best(queries, options.k)
    results = [(first, find_best(piece)) for first, piece in rows.pieces(step)]
    return merge([(scores, positions + first) for first, (scores, positions) in results], options.k)


def same_answers(rows, scores, wanted_rows, wanted_scores):
    """Returns whether the rows are right, in any order, and the scores exact to within 1e-12."""
    near = numpy.abs(scores - wanted_scores).max() < 1e-12
    return bool(near and all(set(a) == set(b) for a, b in zip(rows, wanted_rows, strict=True)))


def make_engines(options, rows, skipped):
    """Yields the names of engines, and functions that make them, in the order of measurement."""
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
        skipped.append(
            {"engine": name, "why": f"needs {size / 2**30:.1f} GiB, but only {free / 2**30:.1f} GiB are free"}
        )
        return False

    for peer in ("usearch", "numpy", "faiss"):
        if peer not in peers:
            skipped.append({"engine": peer, "why": "excluded by --peers"})
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


def time_engines(options, engines, queries, path):
    """Returns the seconds of each engine's searches, and its last result."""
    times = {name: [] for name in engines}
    results = {}
    for turn in range(options.repeats + 1):  # the first round warms up
        for name, engine in engines.items():
            if turn > 1 and min(times[name]) > SLOW_SECONDS:
                continue
            seconds, *results[name] = engine.search(queries, path)
            if turn > 0 or seconds > SLOW_SECONDS:
                times[name].append(seconds)
            time.sleep(PAUSE)
    return times, results


def measure(options, rows, engines):
    """Yields a row for each batch of queries and engine."""
    batches = {}
    random = numpy.random.default_rng(0)
    for size in numbers(options.batches):
        queries = unit(random.standard_normal((size, rows.dimension), dtype=numpy.float32))
        path = options.folder / f"queries-{size}.npy"
        numpy.save(path, queries)
        batches[size] = queries, path, exact_answers(options, rows, queries[:CHECKED_QUERIES])
    for size, (queries, path, (true_scores, true_rows)) in batches.items():
        times, results = time_engines(options, engines, queries, path)
        for name, (found_rows, scores) in results.items():
            checked = found_rows[:CHECKED_QUERIES]
            shared = [len(set(a) & set(b)) / options.k for a, b in zip(checked, true_rows, strict=True)]
            row = {
                "engine": name,
                "queries": size,
                "seconds": statistics.median(times[name]),
                "least_seconds": min(times[name]),
                "rows_shared_with_float64": float(numpy.mean(shared)),
            }
            if scores is not None:
                row["is_exact"] = same_answers(checked, scores[:CHECKED_QUERIES], true_rows, true_scores)
            print(json.dumps(row), file=sys.stderr)
            yield row


def main():
    argument_parser = parser(__doc__, device="cpu", program="--programs", path=machine.PROGRAM.parents[1])
    argument_parser.add_argument("folder", type=pathlib.Path)
    argument_parser.add_argument("--rows", type=int, default=10_000_000)
    argument_parser.add_argument("--dimension", type=int, default=768)
    argument_parser.add_argument("--batches", default="1,16,256")
    argument_parser.add_argument("--repeats", type=int, default=5)
    argument_parser.add_argument("-k", type=int, default=10)
    argument_parser.add_argument("--threads", type=int, default=machine.cpus())
    argument_parser.add_argument("--peers", default="faiss,usearch,numpy")
    options = argument_parser.parse_args()
    rows = Rows(make_collection(options))
    for _, piece in rows.pieces():  # reads the files into the page cache
        piece.max()
    skipped = []
    engines = {}
    for name, make in make_engines(options, rows, skipped):
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
    result = {name: getattr(options, name) for name in ("dimension", "k", "threads", "device")}
    result |= {
        "checked_queries": CHECKED_QUERIES,
        "rows": rows.count,
        "opened": opened,
        "results": results,
        "skipped": skipped,
    }
    where = machine.describe(options.programs / "bin/fovea")
    section = "search_times_gpu" if options.device == "cuda" else "search_times"
    machine.write_result({"machine": where, section: [result]}, options.json)
    if not all(row.get("is_exact", True) for row in results):
        sys.exit("Fovea's results differ from those in float64")


if __name__ == "__main__":
    main()
