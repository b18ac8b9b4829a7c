"""Bad situations on a machine with a GPU: memory taken by another program, a signal, a hidden device.

Need an NVIDIA GPU, and torch with CUDA to take memory away; skipped elsewhere."""

import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy
import pytest

PHOTOS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "photos"

TAKE_MEMORY = """
import sys, torch
left = int(sys.argv[1])
torch.zeros(1, device="cuda")
free, _ = torch.cuda.mem_get_info()
taken = torch.empty(free - left, dtype=torch.uint8, device="cuda")
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def model(run_fovea, gpu, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "two-layers"
    run_fovea("init", "--preset", "base-patch16-224", "--layers", "2", "-o", folder)
    return folder


@pytest.fixture
def leave_free():
    """leave_free(bytes): another program takes all of the GPU's memory except these bytes."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA here to take memory with")
    taken = []

    def leave(left):
        process = subprocess.Popen(
            [sys.executable, "-c", TAKE_MEMORY, str(left)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        taken.append(process)
        assert process.stdout.readline() == "taken\n"

    yield leave
    for process in taken:
        process.communicate()


def embeddings(folder):
    shards = sorted(folder.glob("embeddings-*.npy"))
    return numpy.concatenate([numpy.load(shard) for shard in shards])


def test_too_little_memory_halves_the_batch_and_says_so(run_fovea, gpu, tmp_path, leave_free):
    """512 images are slices of 128 and 384, of 1024 tokens an image and 12 KB a token: 4.5 GiB, half of
    which is there; CUDA itself takes another half GiB."""
    model = tmp_path / "model"
    run_fovea("init", "--preset", "base-patch16-512", "--layers", "2", "-o", model)
    arguments = ["embed", "-m", model, "--device", "cuda", "--synthetic", "512", "--batch-size", "512"]
    run_fovea(*arguments, "-o", tmp_path / "free")
    leave_free(4200 << 20)
    result = run_fovea(*arguments, "-o", tmp_path / "short", env={"FOVEA_GPU_SLICE": "512"})
    told = re.findall(r"going on with (\d+) images at a time instead of (\d+)", result.stderr)
    assert len(told) == 1, result.stderr
    assert int(told[0][0]) * 2 == int(told[0][1])
    # Only the order of sums may differ with the size of slices.
    cosines = (embeddings(tmp_path / "short") * embeddings(tmp_path / "free")).sum(1)
    assert cosines.shape == (512,)
    assert cosines.min() > 0.9999


def test_no_memory_at_all_ends_with_what_to_do(run_fovea, model, tmp_path, leave_free):
    leave_free(64 << 20)
    result = run_fovea("embed", "-m", model, "--device", "cuda", PHOTOS, "-o", tmp_path / "out", code=1)
    assert "memory" in result.stderr
    assert "--device cpu" in result.stderr
    assert not list(tmp_path.glob("out/embeddings-*"))


def test_an_interrupt_leaves_a_job_that_goes_on_to_the_same_bytes(run_fovea, fovea_bin, model, tmp_path):
    arguments = ["embed", "-m", model, "--device", "cuda", "--synthetic", "120000"]
    run_fovea(*arguments, "-o", tmp_path / "whole")
    process = subprocess.Popen([fovea_bin, *arguments, "-o", tmp_path / "out"], stderr=subprocess.PIPE, text=True)
    while not any(file.stat().st_size > 100_000 for file in tmp_path.glob("out/embeddings-*")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=30)
    assert process.returncode == 130, talk
    assert "terminate called" not in talk
    run_fovea(*arguments, "-o", tmp_path / "out")
    assert numpy.array_equal(embeddings(tmp_path / "out"), embeddings(tmp_path / "whole"))


def test_a_hidden_gpu_is_told_and_auto_takes_the_cpu(run_fovea, model, tmp_path):
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    result = run_fovea("embed", "-m", model, "--device", "cuda", PHOTOS, "-o", tmp_path / "a", code=1, env=hidden)
    assert "--device cpu" in result.stderr
    result = run_fovea("embed", "-m", model, PHOTOS, "-o", tmp_path / "b", env=hidden)
    assert "computing on cpu" in result.stderr


def test_cpu_and_gpu_agree(run_fovea, model, tmp_path):
    for device in ("cpu", "cuda"):
        run_fovea("embed", "-m", model, "--device", device, PHOTOS, "-o", tmp_path / f"{device}.npy")
    cpu, cuda = (numpy.load(tmp_path / f"{device}.npy") for device in ("cpu", "cuda"))
    assert (cpu * cuda).sum(1).min() > 0.9995
