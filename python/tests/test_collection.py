"""Collections: what a search finds, in what the program wrote, and what collections say when they cannot."""

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import fovea
import numpy as np
import pytest


@pytest.fixture(scope="module")
def output(program, model, photos, tmp_path_factory):
    """What `fovea embed` wrote of the photos, in two shards of f16 and f32."""
    folder = tmp_path_factory.mktemp("output")
    for shard, dtype in enumerate(("f32", "f16")):
        program(
            "embed", *photos, "-m", model, "-o", folder / f"part-{shard}", "--shard", f"{shard}/2", "--dtype", dtype
        )
    return [folder / "part-0", folder / "part-1"]


@pytest.fixture(scope="module")
def collection(output):
    with fovea.open(output) as opened:
        yield opened


@pytest.fixture(scope="module")
def rows(output):
    """The vectors, by numpy, of length 1."""
    parts = [np.load(path).astype(float) for folder in output for path in sorted(folder.glob("*.npy"))]
    joined = np.concatenate(parts)
    return joined / np.linalg.norm(joined, axis=1, keepdims=True)


def unit(vector):
    return np.asarray(vector, float) / np.linalg.norm(vector)


def assert_best(matches, rows, query, left_out=-1):
    """The matches are all rows by their cosine."""
    cosines = rows @ unit(query)
    order = [row for row in np.argsort(-cosines, kind="stable").tolist() if row != left_out]
    assert [match.row for match in matches] == order
    np.testing.assert_allclose([match.score for match in matches], cosines[order], atol=1e-6)


def test_what_a_collection_says_of_itself(collection, output, model, photos):
    assert len(collection) == len(photos)
    assert collection.dimension == collection.embeddings().shape[1]
    assert collection.model == str(model)
    assert collection.outputs == [str(path) for path in output]
    assert collection.is_finished
    assert str(output[0]) in repr(collection)
    assert sorted(collection.sources) == sorted(map(str, photos))
    assert collection.sources[-1] == list(collection.sources)[-1]
    assert collection.sources[1:3] == [collection.sources[1], collection.sources[2]]
    with pytest.raises(IndexError, match=f"row {len(photos)} is out of range"):
        collection.sources[len(photos)]


def test_words(collection, rows, program, output, tmp_path):
    for words in ("a red bicycle in the snow", "КОТ", ""):
        matches = collection.search(words, k=100)
        assert_best(matches, rows, collection.encoder.embed_text(words))
        scale = collection.encoder.logit_scale
        for match in matches:
            assert match.logit == pytest.approx(scale.factor * match.score + scale.bias)
            assert match.probability == pytest.approx(1 / (1 + np.exp(-match.logit)))
            assert match.source == match.path == collection.sources[match.row]
    # Photos that the program finds.
    found = tmp_path / "found.json"
    inputs = [argument for path in output for argument in ("--in", path)]
    program("search", "A Dog", *inputs, "-k", "5", f"--json={found}")
    matches = json.loads(found.read_text())["queries"][0]["matches"]
    ours = collection.search("A Dog", 5)
    assert [(match.row, match.score, match.source) for match in ours] == [
        (match["row"], pytest.approx(match["score"], abs=1e-9), match["source"]) for match in matches
    ]


def test_words_are_cleaned_as_asked(collection):
    assert collection.search("A Dog!", 3) == collection.search("a  dog!", 3)
    assert collection.search("A Dog!", 3, clean="canonicalize") == collection.search("a dog", 3)
    assert collection.search("A Dog!", 3, clean="none") != collection.search("a dog!", 3)
    with pytest.raises(ValueError, match="clean must be"):
        collection.search("a", clean="upper")


def test_photos_rows_and_vectors(collection, rows, photos):
    row = collection.find(photos[2])
    for query in (photos[2], row, np.int64(row)):
        matches = collection.search(query, k=100)
        assert_best(matches, rows, rows[row], left_out=row)
        assert matches[0].logit is None and matches[0].probability is None
    for query in (rows[row], rows[row].astype(np.float32) * 7, collection.embedding(row)):
        assert_best(collection.search(query, k=100), rows, rows[row])
    torch = pytest.importorskip("torch")
    assert_best(collection.search(torch.from_numpy(rows[row]), k=100), rows, rows[row])


def test_photos_that_are_not_in_it(collection, rows, photos, tmp_path):
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "turned.png"
    turned = image.open(photos[1]).convert("RGB").rotate(90, expand=True)
    turned.save(path)
    want = collection.encoder.embed([path])[0]
    for query in (path, path.read_bytes(), turned, np.asarray(turned)):
        assert_best(collection.search(query, k=100), rows, want)


def test_several_queries_are_searches_of_their_own(collection, photos):
    queries = ["a dog", photos[0], 3, collection.embedding(1)]
    found = collection.search(queries, k=4)
    assert found == [collection.search(query, k=4) for query in queries]
    assert found == collection.search(tuple(queries), k=4)
    assert collection.search([]) == []
    assert [match.probability is None for match in (matches[0] for matches in found)] == [False, True, True, True]


def test_words_beside_photos_and_without_words(collection, rows, photos):
    text, other = (unit(collection.encoder.embed_text(words)) for words in ("at night", "people"))
    a, b = (rows[collection.find(path)] for path in photos[:2])
    asked = {"photo": [str(photos[0]), photos[1]], "photo_weight": 0.4, "without": "people", "without_weight": 0.7}
    matches = collection.search("at night", 100, **asked)
    assert_best(matches, rows, text + 0.4 * (a + b) - 0.7 * other)
    assert matches[0].probability is None
    assert_best(collection.search("at night", 100, without=["people", photos[0]]), rows, text - other - a)
    assert_best(collection.search("at night", 100, photo=photos[0]), rows, text + a)
    row = collection.find(photos[0])
    assert_best(collection.search(photos[0], 100, without="people"), rows, a - other, left_out=row)


def test_searches_are_those_of_the_program(collection, output, photos, program):
    """Scores are equal to the last bit: both have the library add up the vectors."""
    found = program(
        *("search", "at night", "--not", "people", "--not-weight", "0.71", "--photo-weight", "0.37"),
        *(word for photo in photos[:2] for word in ("--photo", photo)),
        *("-k", "100", "--device", "cpu", "--json", *(word for part in output for word in ("--in", part))),
    )
    asked = {"photo": photos[:2], "photo_weight": 0.37, "without": "people", "without_weight": 0.71}
    matches = collection.search("at night", 100, **asked)
    told = [(match["row"], match["score"]) for match in json.loads(found.stdout)["queries"][0]["matches"]]
    assert told == [(match.row, match.score) for match in matches]


def test_nearest_takes_arrays(collection, rows):
    queries = np.random.default_rng().normal(size=(30, rows.shape[1])).astype(np.float32)
    found = collection.nearest(queries, k=5)
    cosines = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(float) @ rows.T
    np.testing.assert_array_equal(found.rows, np.argsort(-cosines, axis=1)[:, :5])
    np.testing.assert_allclose(found.scores, -np.sort(-cosines, axis=1)[:, :5], atol=1e-6)
    assert (found.rows.dtype, found.scores.dtype) == (np.int64, np.float64)
    single = collection.nearest(queries[3].astype(float), k=5)
    np.testing.assert_array_equal(single.rows, found.rows[3])
    np.testing.assert_array_equal(single.scores, found.scores[3])
    itself = collection.nearest(rows, 2, left_out=np.arange(len(rows)))
    assert not (itself.rows == np.arange(len(rows))[:, np.newaxis]).any()
    more = collection.nearest(queries[:1], k=len(rows) + 2)
    assert more.rows[0, -2:].tolist() == [-1, -1]
    assert np.isnan(more.scores[0, -2:]).all() and np.isfinite(more.scores[0, :-2]).all()
    assert collection.nearest(queries[:0], 3).rows.shape == (0, 3)


def test_embeddings_as_they_were_written(collection, output):
    parts = [np.load(path).astype(np.float32) for folder in output for path in sorted(folder.glob("*.npy"))]
    want = np.concatenate(parts)
    np.testing.assert_array_equal(collection.embeddings(), want)
    np.testing.assert_array_equal(collection.embeddings(4, 5), want[4:9])
    np.testing.assert_array_equal(collection.embeddings(len(want) - 1), want[-1:])
    np.testing.assert_array_equal(collection.embedding(7), want[7])
    assert collection.embeddings(len(want)).shape == (0, want.shape[1])
    for first, count in ((len(want), 1), (0, len(want) + 1)):
        with pytest.raises(IndexError, match=f"the collection has {len(want)}"):
            collection.embeddings(first, count)


def test_photos_and_their_files(program, model, photos, tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    exif = image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2024:05:01 12:30:00"
    image.open(photos[0]).convert("RGB").save(tmp_path / "a.jpg", exif=exif)
    image.open(photos[1]).convert("RGB").save(tmp_path / "b.jpg")
    monkeypatch.chdir(tmp_path)
    program("embed", "a.jpg", "b.jpg", "-m", model, "-o", "out")
    (tmp_path / "b.jpg").unlink()
    monkeypatch.chdir("/")
    with fovea.open(tmp_path / "out") as opened:
        a, b = opened.photo(0), opened.photo(1)
        assert (a.row, a.source, a.path, a.output) == (0, "a.jpg", str(tmp_path / "a.jpg"), str(tmp_path / "out"))
        assert (a.width, a.height) == image.open(photos[0]).size
        assert a.bytes == (tmp_path / "a.jpg").stat().st_size
        assert a.modified.timestamp() == int((tmp_path / "a.jpg").stat().st_mtime)
        assert a.captured == "2024-05-01 12:30:00"
        assert (a.error, a.is_member, a.has_changed) == (None, False, False)
        assert (b.bytes, b.modified, b.captured) == (None, None, None)
        assert b.error
        assert opened.search(np.ones(opened.dimension))[0].path.startswith(str(tmp_path))
        assert opened.find("b.jpg") == 1
        assert opened.find(tmp_path / "a.jpg") == 0
        assert opened.find("c.jpg") is None
        with pytest.raises(IndexError, match="row 2 is out of range"):
            opened.photo(2)
    with fovea.open(tmp_path / "out", root="elsewhere") as opened:
        assert opened.photo(0).path == "elsewhere/a.jpg"
        assert opened.photo(0).error


def test_other_models_and_encoders(output, model, program, tmp_path, photos):
    moved = tmp_path / "moved"
    moved.symlink_to(model)
    with fovea.open(output, model=moved) as opened:
        assert opened.model == str(moved)
        found = opened.search("a dog", 2)
        encoder = opened.encoder
    with pytest.raises(fovea.Error, match="closed"):
        encoder.embed_text("a dog")
    with fovea.load(model, "cpu", "fp32") as encoder:
        with fovea.open(output, encoder=encoder) as opened:
            assert opened.encoder is encoder
            assert opened.search("a dog", 2) == found
        assert encoder.embed_text("a dog").shape == (encoder.dimension,), "it is its owner's"
    with pytest.raises(ValueError, match="a model or an encoder, not both"):
        fovea.open(output, model=model, encoder=encoder)
    with pytest.raises(TypeError, match="encoder must be a fovea.Encoder, not str"):
        fovea.open(output, encoder=str(model))
    program("init", "--preset", "base-patch32-256", "--layers", "1", "-o", tmp_path / "wide")
    with fovea.open(output, model=tmp_path / "wide") as opened:
        for query in ("a dog", photos[0].read_bytes()):
            with pytest.raises(ValueError, match="makes vectors of 768 numbers"):
                opened.search(query)


def test_outputs_without_a_model(tmp_path):
    np.save(tmp_path / "rows.npy", np.eye(3, dtype=np.float32))
    (tmp_path / "rows.index.jsonl").write_text(
        "".join(json.dumps({"row": row, "source": f"{row}.jpg", "width": 1, "height": 1}) + "\n" for row in range(3))
    )
    with fovea.open(tmp_path / "rows.npy") as opened:
        assert opened.model == ""
        assert [match.row for match in opened.search(np.array([0, 0.5, 1]))] == [2, 1, 0]
        assert [match.row for match in opened.search(1)] == [0, 2]
        with pytest.raises(fovea.Error, match=r"rows.npy names the model: pass model= or encoder="):
            opened.search("a dog")


def test_what_queries_may_not_be(collection, photos, tmp_path):
    for query in (True, 1.5, None, {"a": 1}):
        with pytest.raises(TypeError, match="query 1 must be words, a photo .*, a row or a vector, not"):
            collection.search(["a dog", query])
    for vector, message in (
        (np.zeros((2, collection.dimension)), "pass several vectors to `nearest`"),
        (np.ones(3), "query 0 is a vector of shape 3"),
        (np.zeros(collection.dimension), "query 0: cannot compare a vector of zeros"),
        (np.full(collection.dimension, np.nan), "query 0 holds NaN or infinity"),
        (np.zeros((9, 9, 3), np.uint16), "query 0: pixels must be uint8"),
    ):
        with pytest.raises(ValueError, match=message):
            collection.search(vector)
    for row in (len(photos), -1):
        with pytest.raises((IndexError, ValueError), match="row"):
            collection.search(row)
    for k in (0, -3):
        with pytest.raises(ValueError, match="k must be 1 or more"):
            collection.search("a", k)
    for weight in (-1, 0, 1001, float("nan")):
        with pytest.raises(ValueError, match=f"photo_weight must be more than 0 and at most 1000, not {weight}"):
            collection.search("a", photo=photos[0], photo_weight=weight)
    for weight in ("1", None, True, [1]):
        with pytest.raises(TypeError, match=f"without_weight must be a number, not {type(weight).__name__}"):
            collection.search("a", without="b", without_weight=weight)
    with pytest.raises(fovea.Error, match="query 0 and the terms cancel each other"):
        collection.search("a", without="a")
    with pytest.raises(fovea.Error, match="absent.jpg: is neither the name of a photo in the collection nor a file"):
        collection.search("a", photo="absent.jpg")
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(photos[0].read_bytes()[:3000])
    with pytest.raises(fovea.Error, match=r"query 1 \(.*broken.jpg\): JPEG: truncated"):
        collection.search(["a", broken])
    for vectors in (np.ones((2, 3)), np.ones((2, collection.dimension), int), 5):
        with pytest.raises(ValueError, match="vectors must be floating-point"):
            collection.nearest(vectors)
    with pytest.raises(ValueError, match="left_out must hold 1 integers"):
        collection.nearest(np.ones(collection.dimension), left_out=[1, 2])
    with pytest.raises(fovea.Error, match="query 1 is all zeros"):
        collection.nearest(np.eye(2, collection.dimension) * [[1], [0]])


def test_messages_of_open(tmp_path, output, model):
    with pytest.raises(fovea.Error, match="nowhere"):
        fovea.open(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="at least one path"):
        fovea.open([])
    with pytest.raises(TypeError, match="outputs must be a string or a path, not int"):
        fovea.open([5])
    with pytest.raises(ValueError, match=r"threads must be 0 \(one per CPU\) or more"):
        fovea.open(output, threads=-1)
    with pytest.raises(ValueError, match="root must not contain a NUL"):
        fovea.open(output, root="a\0b")
    opened = fovea.open(output)
    opened.close()
    opened.close()
    for call in (
        lambda: opened.search("a"),
        lambda: opened.photo(0),
        lambda: opened.encoder,
        lambda: opened.sources[0],
    ):
        with pytest.raises(fovea.Error, match="this Collection is closed"):
            call()
    with pytest.raises(TypeError, match="fovea.open"):
        pickle.dumps(opened)


def test_matches_can_be_kept_and_sent(output):
    with fovea.open(output) as opened:
        matches = opened.search("a dog", 3)
        photo = opened.photo(0)
    assert pickle.loads(pickle.dumps((matches, photo))) == (matches, photo)


def test_searches_from_several_threads(collection):
    words = [f"thing {number}" for number in range(8)]
    alone = [collection.search(text, 3) for text in words]
    results = {}

    def search(text):
        results[text] = [collection.search(text, 3) for _ in range(5)]

    threads = [threading.Thread(target=search, args=(text,)) for text in words]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[text] for text in words] == [[want] * 5 for want in alone]


@pytest.fixture(scope="module")
def large_output(tmp_path_factory):
    """30,000 rows of 200 numbers, some of them alike, in two shards of f16 and f32."""
    random = np.random.default_rng(7)
    folder = tmp_path_factory.mktemp("many")
    common = random.standard_normal(200)
    for shard, (rows, dtype) in enumerate(((20_000, np.float16), (10_000, np.float32))):
        vectors = random.standard_normal((rows, 200)) + common
        vectors[100:140] = vectors[100] + random.standard_normal((40, 200)) * 1e-3
        np.save(folder / f"embeddings-{shard:05}.npy", vectors.astype(dtype))
        lines = (json.dumps({"row": row, "source": f"{shard}-{row}.jpg"}) for row in range(rows))
        (folder / f"index-{shard:05}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_devices_find_the_same_to_the_last_bit(large_output, device):
    """Compares devices: the CPU alone unless $FOVEA_TEST_DEVICE names another."""
    random = np.random.default_rng(8)
    with fovea.open(large_output) as expected, fovea.open(large_output, device=device) as found:
        for count, k in ((1, 10), (1, 1), (5, 3), (16, 10), (100, 4), (300, 1), (2, 1000)):
            queries = random.standard_normal((count, 200)).astype(np.float32)
            queries[::3] = expected.embedding(120) + queries[::3] * 1e-2
            wanted = expected.nearest(queries, k)
            got = found.nearest(queries, k)
            np.testing.assert_array_equal(got.rows, wanted.rows)
            np.testing.assert_array_equal(got.scores, wanted.scores)
        query_rows = [100, 119, 29_999]
        queries = np.stack([expected.embedding(row) for row in query_rows])
        wanted = expected.nearest(queries, 2, left_out=query_rows)
        got = found.nearest(queries, 2, left_out=query_rows)
        np.testing.assert_array_equal(got.rows, wanted.rows)
        np.testing.assert_array_equal(got.scores, wanted.scores)
        assert (got.rows != np.array(query_rows)[:, None]).all()


def test_a_gpu_finds_words_too(output, collection, device):
    if not device.startswith("cuda"):
        pytest.skip("FOVEA_TEST_DEVICE names no GPU")
    with fovea.open(output, device=device) as opened:
        assert opened.encoder.device.startswith("cuda")
        found = [match.row for match in opened.search("a red bicycle", k=100)]
        assert sorted(found) == list(range(len(collection)))


def test_a_device_that_is_not_there_is_refused(output):
    with pytest.raises(fovea.Error, match="unknown device 'tpu'"):
        fovea.open(output, device="tpu")
    with pytest.raises(fovea.Error, match="cuda|GPU|NVIDIA"):
        fovea.open(output, device="cuda:77")
    with pytest.raises(TypeError):
        fovea.open(output, device=3)
    with fovea.open(output, device="auto") as opened:
        first = opened.nearest(opened.embedding(0), 3)
        second = opened.nearest(opened.embedding(0), 3)
        np.testing.assert_array_equal(first.scores, second.scores)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Rows enough for a search of many seconds with as many queries."""
    folder = tmp_path_factory.mktemp("large")
    rows = np.random.default_rng(5).normal(size=(30_000, 512)).astype(np.float32)
    np.save(folder / "rows.npy", rows)
    with (folder / "rows.index.jsonl").open("w") as index:
        for row in range(len(rows)):
            index.write(f'{{"row": {row}, "source": "{row}.jpg", "width": 1, "height": 1}}\n')
    return folder / "rows.npy"


def test_many_rows_are_read_in_parts(large):
    with fovea.open(large) as opened:
        np.testing.assert_array_equal(opened.embeddings(), np.load(large))


LONG = """
import signal, sys, threading, time, numpy, fovea
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
opened = fovea.open(sys.argv[1])
queries = numpy.tile(opened.embeddings(0, 1000), (400, 1))
print("begun", flush=True)
"""


def start(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", LONG + code, *map(str, arguments)],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_ctrl_c_ends_a_search(large):
    process = start(
        "try:\n    opened.nearest(queries)\nexcept KeyboardInterrupt:\n    print(len(opened.nearest(queries[:2]).rows))\n",
        large,
    )
    assert process.stdout.readline() == "begun\n"
    time.sleep(1)
    assert process.poll() is None, "the search is too short to be ended"
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "2\n", "")
    assert time.monotonic() - sent < 5


def test_the_interpreter_ends_while_threads_search(large):
    code = """
def work():
    try:
        while True:
            opened.nearest(queries)
    except fovea.Error as error:
        assert "the process is ending" in str(error), error
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
"""
    process = start(code, large)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_other_threads_run_while_one_searches(large):
    ticks, ended = 0, threading.Event()

    def count():
        nonlocal ticks
        while not ended.wait(0.001):
            ticks += 1

    with fovea.open(large) as opened:
        queries = np.tile(opened.embeddings(0, 1000), (3, 1))
        thread = threading.Thread(target=count)
        thread.start()
        started = time.perf_counter()
        opened.nearest(queries)
        seconds = time.perf_counter() - started
        ended.set()
        thread.join()
    assert ticks > 20 * seconds, f"{ticks} ticks of a millisecond in {seconds:.2f} s"


def _in_child(opened, queue):
    said = []
    for call in (
        lambda: opened.search("a"),
        lambda: opened.nearest(np.ones(opened.dimension)),
        lambda: opened.photo(0),
    ):
        try:
            call()
        except fovea.Error as error:
            said.append(str(error))
    opened.close()
    queue.put(said)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told(collection):
    collection.search("a", 1)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(collection, queue))
    child.start()
    said = queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    assert "loaded before the process forked" in said[0]
    assert ["open it in the process that uses it" in message for message in said[1:]] == [True, True]
    assert collection.search("a", 1), "the parent's is as it was"


def test_why_auto_leaves_a_gpu_alone_is_a_warning(output, tmp_path):
    """Puts C's library in the place of the driver, whose functions it lacks. A GPU is wanted from the second search on."""
    libc = next(line.split()[-1] for line in open("/proc/self/maps") if "/libc." in line or "/libc-" in line)
    (tmp_path / "libcuda.so.1").symlink_to(libc)
    search = (
        "import sys, warnings, fovea, numpy\n"
        "with fovea.open(sys.argv[1], device='auto') as collection, warnings.catch_warnings(record=True) as told:\n"
        "    warnings.simplefilter('always')\n"
        "    for _ in range(3):\n"
        "        collection.nearest(numpy.ones((1, collection.dimension), 'f4'), 1)\n"
        "print(*(note.message for note in told), sep='\\n')\n"
    )
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    said = subprocess.check_output([sys.executable, "-c", search, output[0]], env=environment, text=True)
    assert said.count("the GPU is not used: the NVIDIA driver is too old") == 1
