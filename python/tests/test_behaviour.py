"""Errors, progress, threads, interruptions and the life of an Encoder."""

import multiprocessing
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import fovea
import numpy as np
import pytest

PIXELS = np.arange(50 * 40 * 3, dtype=np.uint8).reshape(50, 40, 3)


@pytest.fixture
def broken(tmp_path, photos):
    """Five images, of which 1 and 3 cannot be read."""
    truncated = tmp_path / "truncated.jpg"
    truncated.write_bytes(photos[0].read_bytes()[:3000])
    return [photos[0], tmp_path / "absent.jpg", photos[1], truncated.read_bytes(), PIXELS]


def test_a_broken_image_ends_the_call_and_is_named(encoder, broken):
    with pytest.raises(fovea.ImageError, match=r"image 1 \(.*absent.jpg\): cannot open: No such file") as caught:
        encoder.embed(broken)
    assert isinstance(caught.value, fovea.Error)
    assert (caught.value.index, caught.value.source) == (1, str(broken[1]))
    with pytest.raises(fovea.ImageError, match="image 0: JPEG: truncated") as caught:
        encoder.embed(broken[3:])
    assert caught.value.source is None
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_rows_of_nan_when_asked(encoder, broken, assert_near):
    rows = encoder.embed(broken, on_error="nan", batch_size=2)
    assert np.isnan(rows).all(axis=1).tolist() == [False, True, False, True, False]
    assert np.isfinite(rows[[0, 2, 4]]).all()
    good = encoder.embed([broken[i] for i in (0, 2, 4)], batch_size=1)
    assert_near(rows[[0, 2, 4]], good)
    with pytest.raises(AssertionError):
        assert_near(rows[[2, 0, 4]], good)


def test_failures_are_collected_when_asked(encoder, broken):
    failures = []
    rows = encoder.embed(broken, on_error=failures.append)
    assert [failure.index for failure in failures] == [1, 3]
    assert "cannot open" in failures[0].reason
    assert "truncated" in failures[1].reason
    assert np.isnan(rows[[1, 3]]).all()


def test_broken_pil_images_are_failures_too(encoder, photos, tmp_path):
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "truncated.jpg"
    path.write_bytes(photos[0].read_bytes()[:3000])
    failures = []
    rows = encoder.embed([PIXELS, image.open(path), PIXELS], on_error=failures.append)
    assert [failure.index for failure in failures] == [1]
    assert "truncated" in failures[0].reason
    assert np.isnan(rows).all(axis=1).tolist() == [False, True, False]
    with pytest.raises(fovea.ImageError, match="image 1: OSError"):
        encoder.embed([PIXELS, image.open(path)])


def test_failures_behind_the_first_window_have_their_index(encoder, tmp_path):
    image = pytest.importorskip("PIL.Image")
    items = [image.fromarray(PIXELS)] * 300 + [tmp_path / "absent.png"]
    failures = []
    encoder.embed(items, on_error=failures.append)
    assert [failure.index for failure in failures] == [300]


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        (3, TypeError, "image 1: int is not an image"),
        (None, TypeError, "NoneType is not an image"),
        (PIXELS.astype(np.uint16), ValueError, "uint8, 0 to 255, not uint16"),
        (PIXELS / 255.0, ValueError, "not float64"),
        (PIXELS > 7, ValueError, "not bool"),
        (PIXELS.transpose(2, 0, 1), ValueError, "3x50x40; channels come last"),
        (np.zeros((4, 4, 5), np.uint8), ValueError, "not 4x4x5"),
        (np.zeros((2, 4, 4, 3), np.uint8), ValueError, "not 2x4x4x3"),
        (np.zeros((0, 4, 3), np.uint8), ValueError, "both sides must be at least 1"),
    ],
)
def test_what_is_no_image_is_said_so(encoder, item, error, message):
    for on_error in ("raise", "nan"):
        with pytest.raises(error, match=message):
            encoder.embed([PIXELS, item], on_error=on_error)


def test_tensors_of_other_types(encoder):
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="not torch.bfloat16"):
        encoder.embed([torch.zeros(4, 4, 3, dtype=torch.bfloat16)])


class ElsewhereOnly:
    """DLPack on a device that does not copy to the host."""

    def __dlpack__(self, **_):
        raise BufferError("cannot be copied")

    def __dlpack_device__(self):
        return (2, 0)


def test_dlpack_of_other_devices(encoder):
    with pytest.raises(ValueError, match="ElsewhereOnly is not in the host's memory"):
        encoder.embed([ElsewhereOnly()])


@pytest.mark.parametrize("single", ["photo.jpg", pathlib.Path("photo.jpg"), b"bytes", PIXELS, PIXELS[:, :, 0]])
def test_one_image_is_not_a_list(encoder, single):
    with pytest.raises(TypeError, match="pass a list of images"):
        encoder.embed(single)


def test_one_pil_image_or_tensor_is_not_a_list(encoder):
    image = pytest.importorskip("PIL.Image")
    with pytest.raises(TypeError, match="pass a list of images"):
        encoder.embed(image.fromarray(PIXELS))
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="pass a list of images"):
        encoder.embed(torch.from_numpy(PIXELS))


def test_messages_of_load(model, tmp_path):
    with pytest.raises(fovea.Error, match="nowhere"):
        fovea.load(tmp_path / "nowhere")
    with pytest.raises(fovea.Error, match="unknown device 'toaster'"):
        fovea.load(model, device="toaster")
    with pytest.raises(fovea.Error, match="fp12"):
        fovea.load(model, precision="fp12")


def test_what_an_encoder_says_of_itself(encoder, model, device):
    assert encoder.model == str(model)
    assert encoder.device.startswith(device.split(":")[0])
    assert encoder.precision in ("fp32", "bf16")
    assert encoder.embed([PIXELS]).shape == (1, encoder.dimension)
    assert encoder.image_size == (64, 64)
    assert encoder.batch_size >= 1
    assert str(model) in repr(encoder)
    assert fovea.__version__.count(".") == 2


def test_closed_encoders_say_so(model, device):
    with fovea.load(model, device=device) as encoder:
        encoder.embed([PIXELS])
    encoder.close()
    with pytest.raises(fovea.Error, match="closed"):
        encoder.embed([PIXELS])


def test_other_threads_run_meanwhile(encoder):
    """A thread counts during a call; it could not if the call held the interpreter."""
    images = [PIXELS] * 20_000
    ticks = 0
    ended = threading.Event()

    def count():
        nonlocal ticks
        while not ended.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=count)
    thread.start()
    started = time.perf_counter()
    encoder.embed(images)
    seconds = time.perf_counter() - started
    ended.set()
    thread.join()
    assert ticks > 20 * seconds, f"{ticks} ticks of a millisecond in {seconds:.2f} s"


def test_calls_from_several_threads(encoder, photos):
    alone = encoder.embed(photos, batch_size=3)
    results = [None] * 4

    def embed(number):
        results[number] = [encoder.embed(photos, batch_size=3) for _ in range(3)]

    threads = [threading.Thread(target=embed, args=(number,)) for number in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rows in sum(results, []):
        np.testing.assert_array_equal(rows, alone)


def test_progress(encoder, photos, capsys):
    pytest.importorskip("tqdm")
    encoder.embed(photos, progress=True)
    shown = capsys.readouterr().err
    assert f"{len(photos)}/{len(photos)}" in shown
    encoder.embed(photos)
    assert capsys.readouterr().err == ""


def test_progress_without_tqdm(encoder, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        encoder.embed([PIXELS], progress=True)


def python(code, *arguments, **options):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], text=True, **options)


INTERRUPTED = """
import signal, sys, numpy, fovea
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
encoder = fovea.load(sys.argv[1], device=sys.argv[2])
images = [numpy.zeros((3000, 4000, 3), numpy.uint8)] * 20_000  # at work for many seconds on any machine
print("ready", flush=True)
try:
    encoder.embed(images)
except KeyboardInterrupt:
    rows = encoder.embed(images[:3])  # still of use
    print("interrupted", numpy.isfinite(rows).all(), flush=True)
"""


def test_ctrl_c_ends_a_call_soon(model, device):
    process = python(INTERRUPTED, model, device, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    sent = time.perf_counter()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert out == "interrupted True\n"
    assert time.perf_counter() - sent < 5  # 2 when nothing else computes


def test_needs_numpy_alone(model):
    """Arrays and files work without torch, PIL and tqdm."""
    code = """
import sys
for name in ("torch", "PIL", "tqdm"):
    sys.modules[name] = None
import numpy, fovea
assert fovea.load(sys.argv[1], device="cpu").embed([numpy.zeros((9, 9, 3), numpy.uint8)]).shape[0] == 1
others = {name.split(".")[0] for name in sys.modules} & {"torch", "PIL", "tqdm", "scipy", "pandas"}
assert all(sys.modules[name] is None for name in others), others
"""
    assert python(code, model).wait(120) == 0


@pytest.mark.parametrize("order", ["torch, fovea", "fovea, torch"])
def test_beside_torch(model, device, photos, encoder, order, tmp_path):
    """Both contain an OpenMP: neither disturbs the other's results, in either order of loading."""
    pytest.importorskip("torch")
    code = f"""
import sys, numpy
import {order}
encoder = fovea.load(sys.argv[1], device=sys.argv[2])
a = torch.rand(300, 300, dtype=torch.float64)
before = a @ a
numpy.save(sys.argv[3], encoder.embed(sys.argv[4:]))
assert torch.equal(a @ a, before)
"""
    output = tmp_path / "rows.npy"
    assert python(code, model, device, output, *photos).wait(120) == 0
    np.testing.assert_array_equal(np.load(output), encoder.embed(photos))


def _embed_in_child(encoder, queue):
    try:
        encoder.embed([PIXELS])
        queue.put("embedded")
    except fovea.Error as error:
        queue.put(str(error))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told(encoder):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_embed_in_child, args=(encoder, queue))
    child.start()
    assert "loaded before the process forked" in queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    assert os.getpid() == encoder._pid
