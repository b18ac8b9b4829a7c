"""Iterables of any length: Encoder.stream, and embed over generators."""

import asyncio
import ctypes
import io
import itertools
import os
import subprocess
import sys
import time

import fovea
import numpy as np
import pytest
from PIL import Image

PIXELS = np.arange(50 * 40 * 3, dtype=np.uint8).reshape(50, 40, 3)

# How many arrays of 224x224 pixels go through a generator; set FOVEA_TEST_ARRAYS to 100000 for a thorough run.
ARRAYS = int(os.environ.get("FOVEA_TEST_ARRAYS", "3000"))


def pictures(count, size=50):
    for number in range(count):
        yield np.full((size, size, 3), number % 251, np.uint8)


def test_a_generator_gives_what_a_list_gives(encoder, photos):
    items = [*photos, *pictures(600), photos[0].read_bytes()]
    want = encoder.embed(items)
    np.testing.assert_array_equal(encoder.embed(item for item in items), want)
    results = list(encoder.stream(iter(items), batch_size=7))
    assert [result.index for result in results] == list(range(len(items)))
    np.testing.assert_array_equal([result.embedding for result in results], want)
    assert results[0].source == str(photos[0])
    assert all(result.error is None for result in results)
    assert encoder.embed(iter([])).shape == (0, encoder.dimension)
    assert list(encoder.stream([])) == []


def test_a_source_may_refill_one_buffer(encoder):
    def refilled(give):
        buffer = np.zeros((50, 50, 3), np.uint8)
        for picture in pictures(40):
            buffer[:] = picture
            yield give(buffer)
        buffer[:] = 0

    want = encoder.embed(list(pictures(40)))
    for give in (lambda buffer: buffer, lambda buffer: buffer[:, ::-1][:, ::-1], lambda buffer: buffer[:, :, :1]):
        np.testing.assert_array_equal(encoder.embed(refilled(give)), want)
        rows = [result.embedding for result in encoder.stream(refilled(give), batch_size=7)]
        np.testing.assert_array_equal(rows, want)

    encoded = []
    for picture in pictures(9):
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "BMP")  # as many bytes whatever is in it
        encoded.append(file.getvalue())

    def files():
        buffer = bytearray(encoded[0])
        for content in encoded:
            buffer[:] = content
            yield memoryview(buffer)

    np.testing.assert_array_equal(encoder.embed(files()), encoder.embed(encoded))


def test_failures_have_their_place(encoder, photos, tmp_path):
    items = [*pictures(300), tmp_path / "absent.png", *pictures(2)]
    results = list(encoder.stream(items))
    assert len(results) == 303
    assert [result.index for result in results if result.error] == [300]
    failed = results[300]
    assert failed.embedding is None
    assert (failed.source, failed.error.index) == (str(tmp_path / "absent.png"), 300)
    assert "cannot open" in failed.error.reason
    seen = []
    with pytest.raises(fovea.ImageError, match="image 300 "):
        seen.extend(result.index for result in encoder.stream(items, on_error="raise"))
    with pytest.raises(fovea.ImageError, match="image 300 "):
        for result in encoder.stream(items, on_error="raise"):
            seen.append(result.index)
    assert seen[-300:] == list(range(300))
    failures = []
    assert np.isnan(encoder.embed(iter(items), on_error=failures.append)[300]).all()
    assert [failure.index for failure in failures] == [300]


def test_an_exception_comes_after_the_rows_before_it(encoder):
    def source():
        yield from pictures(100)
        raise OSError("the disk is gone")

    seen = []
    with pytest.raises(OSError, match="the disk is gone"):
        for result in encoder.stream(source(), batch_size=30):
            seen.append(result.index)
    assert seen == list(range(100))
    with pytest.raises(TypeError, match="image 100: int is not an image"):
        for result in encoder.stream(itertools.chain(pictures(100), [3]), batch_size=30):
            seen.append(result.index)
    assert seen == list(range(100)) * 2
    with pytest.raises(OSError, match="the disk is gone"):
        encoder.embed(source())


def test_reading_is_as_slow_as_the_results_are_taken(encoder):
    """At most the windows in work, the one that is filled, and one image more are read ahead."""
    taken = itertools.count()
    last = 0

    def source():
        nonlocal last
        for picture in pictures(100_000):
            last = next(taken)
            yield picture

    stream = encoder.stream(source(), batch_size=16)
    for number in range(200):
        assert next(stream).index == number
        assert last <= number + 5 * 16
    stream.close()
    before = last
    assert next(stream, None) is None
    assert last == before


def test_results_of_a_slow_source_do_not_wait_for_a_batch(encoder):
    pulled = 0

    def source():
        nonlocal pulled
        for picture in pictures(400):
            time.sleep(0.02)
            pulled += 1
            yield picture

    next(encoder.stream(source(), batch_size=1000))
    assert pulled < 400


def test_several_streams_at_once(encoder):
    want = encoder.embed(list(pictures(90)))
    streams = [encoder.stream(pictures(90), batch_size=size) for size in (1, 8, 64)]
    for number, results in enumerate(zip(*streams, strict=True)):
        for result in results:
            np.testing.assert_array_equal(result.embedding, want[number])


def test_from_other_threads(encoder):
    async def read():
        stream = encoder.stream(pictures(50), batch_size=4)
        rows = []
        while (result := await asyncio.to_thread(next, stream, None)) is not None:
            rows.append(result.embedding)
        return rows

    np.testing.assert_array_equal(asyncio.run(read()), encoder.embed(list(pictures(50))))


def test_a_stream_of_a_closed_encoder(model, device):
    encoder = fovea.load(model, device=device)
    stream = encoder.stream(pictures(1000), batch_size=8)
    next(stream)
    encoder.close()
    with pytest.raises(fovea.Error, match="closed"):
        list(stream)


def test_streams_that_are_left_end_their_threads(encoder):
    def threads():
        """Once there are as many for half a second, because those of a run end after it."""
        counts, end = [], time.monotonic() + 30
        while len(counts) < 6 or (len(set(counts[-6:])) > 1 and time.monotonic() < end):
            time.sleep(0.1)
            counts.append(len(os.listdir("/proc/self/task")))
        return counts[-1]

    before = threads()
    for _ in range(3):
        for result in encoder.stream(pictures(10_000, size=224)):
            if result.index == 3:
                break
    assert threads() <= before
    assert encoder.embed([PIXELS]).shape == (1, encoder.dimension)


MEMORY = """
import re, sys, numpy, fovea
encoder = fovea.load(sys.argv[1], device=sys.argv[2])
height, width, count = map(int, sys.argv[3].split("x"))
def arrays(count):
    for number in range(count):
        yield numpy.full((height, width, 3), number % 251, numpy.uint8)
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1000  # MB
encoder.embed(arrays(1))
start = peak()
rows = encoder.embed(arrays(count))
assert rows.shape == (count, encoder.dimension) and numpy.isfinite(rows).all()
embedded = peak()
assert sum(result.embedding is not None for result in encoder.stream(arrays(count))) == count
print(f"{embedded - start:.0f} {peak() - start:.0f} {rows.nbytes / 1e6:.0f}")
"""


@pytest.mark.parametrize("images", [f"224x224x{ARRAYS}", "1500x2000x100"])
def test_memory_does_not_grow_with_the_images(model, device, images):
    process = subprocess.run(
        [sys.executable, "-c", MEMORY, model, device, images], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    embedded, streamed, result = map(float, process.stdout.split())
    print(f"{images}: {embedded} MB above the start, {streamed} with a stream, of which {result} MB are the result")
    assert embedded - result < 200
    assert streamed - result < 200


IN_USE = """
import ctypes, io, random, sys, fovea
from PIL import Image

class Heap(ctypes.Structure):  # mallinfo2(3)
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

ask = ctypes.CDLL(None).mallinfo2
ask.restype = Heap
encoder = fovea.load(sys.argv[1], device=sys.argv[2])
chance = random.Random(0)
files = []
for number in range(30):
    picture = Image.effect_noise((chance.randrange(20, 400), chance.randrange(20, 400)), 60)
    picture.save(file := io.BytesIO(), ("JPEG", "PNG", "WEBP")[number % 3])
    files.append(file.getvalue())
used = []
for turn in range(4):
    for result in encoder.stream(chance.choice(files) for _ in range(int(sys.argv[3]))):
        assert result.error is None
    heap = ask()
    used.append(heap.uordblks + heap.hblkhd)
print(*used)
"""


def test_nothing_is_kept_of_images_of_many_sizes(model, device):
    """What the C library has freed, it keeps in part, so the resident memory grows for a while: what is in use does
    not."""
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("needs glibc 2.33")
    process = subprocess.run(
        [sys.executable, "-c", IN_USE, model, device, str(ARRAYS // 10)], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    first, *later = map(int, process.stdout.split())
    print(f"in use after each quarter: {first / 1e6:.2f} MB, then {[round(used / 1e6, 2) for used in later]}")
    # What each thread keeps of its largest image may come after the first quarter. Half of the images come later.
    assert later[-1] - later[0] < ARRAYS // 10 // 2 * 500  # bytes: less than a small part of an image's pixels each
