"""Devices by name: refused with a reason before anything is written, or chosen and reported."""

import pathlib
import re

import numpy
import pytest

PHOTOS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "photos"
HAS_DRIVER = any(pathlib.Path("/proc/driver/nvidia").glob("version"))


@pytest.fixture(scope="module")
def tiny(run_fovea, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    run_fovea("init", "--preset", "tiny", "--seed", "3", "-o", folder)
    return folder


@pytest.mark.skipif(HAS_DRIVER, reason="this machine has an NVIDIA driver")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there_ends_the_job_before_it_begins(run_fovea, tiny, tmp_path, device):
    result = run_fovea("embed", "-m", tiny, "-o", tmp_path / "out", PHOTOS, "--device", device, code=1)
    assert "no NVIDIA driver" in result.stderr
    assert "--device cpu" in result.stderr  # what to do
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(HAS_DRIVER, reason="this machine has an NVIDIA driver")
def test_auto_says_that_it_took_the_cpu(run_fovea, tiny, tmp_path):
    result = run_fovea("embed", "-m", tiny, "-o", tmp_path / "out", PHOTOS)
    assert "computing on cpu" in result.stderr
    assert "no NVIDIA driver" in run_fovea("info", tiny).stdout


@pytest.fixture
def unusable_driver(tmp_path):
    """The environment of a program that finds a libcuda.so.1 without the driver's functions: C's library."""
    libc = next(line.split()[-1] for line in open("/proc/self/maps") if "/libc." in line or "/libc-" in line)
    (tmp_path / "libcuda.so.1").symlink_to(libc)
    return {"LD_LIBRARY_PATH": str(tmp_path)}


def test_auto_says_why_it_leaves_a_gpu_alone(run_fovea, tiny, tmp_path, unusable_driver):
    result = run_fovea("embed", "-m", tiny, "-o", tmp_path / "out", PHOTOS, env=unusable_driver)
    assert "computing on cpu" in result.stderr
    assert result.stderr.count("the GPU is not used: the NVIDIA driver is too old") == 1


def test_searches_say_where_they_compute_and_compare(run_fovea, tiny, tmp_path, unusable_driver):
    out = tmp_path / "out"
    run_fovea("embed", "-m", tiny, "-o", out, PHOTOS, "--device", "cpu")
    photo = next(PHOTOS.glob("*.jpg"))
    for device in ("auto", "cpu"):
        words = run_fovea("search", "a cat", "a dog", "--in", out, "--device", device).stderr
        assert re.search(
            r"^fovea: computing on cpu \(.+\), fp32, \d+ threads\nfovea: comparing on cpu \(.+\), \d+ threads$",
            words,
            re.M,
        )
        row = run_fovea("similar", photo, "--in", out, "--device", device).stderr
        assert "comparing on cpu" in row and "computing on" not in row  # it is in the output
    assert run_fovea("search", "a cat", "--in", out, "-q").stderr == ""
    assert "computing on cpu" in run_fovea("heat", "-m", tiny, "a cat", photo, "--json", "--device", "cpu").stderr

    # A GPU is wanted from the 1025th query on, and here it cannot be used.
    queries = numpy.random.default_rng(1).standard_normal(
        (1100, numpy.load(out / "embeddings-00000.npy").shape[1]), "float32"
    )
    numpy.save(tmp_path / "queries.npy", queries)
    arguments = ["similar", tmp_path / "queries.npy", "--in", out, "--json", "-k", "1"]
    result = run_fovea(*arguments, env=unusable_driver)
    assert result.stderr.count("comparing on cpu") == 1
    assert result.stderr.count("the GPU is not used: the NVIDIA driver is too old") == 1
    assert "GPU" not in run_fovea(*arguments, "--device", "cpu", env=unusable_driver).stderr
    if not HAS_DRIVER:
        assert "GPU" not in run_fovea(*arguments).stderr


def test_a_driver_that_is_too_old_ends_the_job_before_it_begins(run_fovea, tiny, tmp_path, unusable_driver):
    result = run_fovea(
        "embed", "-m", tiny, "-o", tmp_path / "out", PHOTOS, "--device", "cuda", code=1, env=unusable_driver
    )
    assert "driver is too old" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("slice", ["many", "-1", "3.5", ""])
def test_a_slice_that_is_no_number_is_refused(run_fovea, tiny, tmp_path, slice):
    result = run_fovea(
        "embed", "-m", tiny, "-o", tmp_path / "out", PHOTOS, "--device", "cuda", code=1, env={"FOVEA_GPU_SLICE": slice}
    )
    assert "FOVEA_GPU_SLICE" in result.stderr


def test_a_forced_kernel_that_there_is_not_is_told_on_the_cpu_too(run_fovea, tiny, tmp_path):
    arguments = ["embed", "-m", tiny, "-o", tmp_path / "out", PHOTOS, "--device", "cpu"]
    result = run_fovea(*arguments, code=1, env={"FOVEA_FORCE_KERNEL": "abacus"})
    assert "FOVEA_FORCE_KERNEL=abacus: the levels are scalar, wmma, mma, wgmma" in result.stderr
    assert not (tmp_path / "out").exists()
    run_fovea(*arguments, env={"FOVEA_FORCE_KERNEL": "mma"})


@pytest.mark.skipif(HAS_DRIVER, reason="this machine has an NVIDIA driver")
def test_bench_of_a_gpu_that_is_not_there_fails(run_fovea, tiny):
    assert "no NVIDIA driver" in run_fovea("bench", "-m", tiny, "--device", "cuda", code=1).stderr


@pytest.mark.parametrize(
    "precision, isa, why",
    [
        ("fp8", "", "fp8 is computed on NVIDIA GPUs only; use fp32, bf16, int8 or auto"),
        ("mxfp8", "", "mxfp8 is computed on NVIDIA's B200 and B300 only; use fp32, bf16, int8 or auto"),
        ("int8", "generic", "int8 needs a CPU with AVX2 instructions, because it would not be faster than fp32"),
        ("bf16", "avx2", "bf16 needs a CPU with AMX or AVX512-BF16 instructions, but this one has avx2"),
    ],
)
def test_what_a_cpu_does_not_compute_is_refused_with_the_reason(run_fovea, tiny, tmp_path, precision, isa, why):
    arguments = ["embed", "-m", tiny, "-o", tmp_path / "out", PHOTOS, "--device", "cpu", "--precision", precision]
    result = run_fovea(*arguments, code=1, env={"FOVEA_CPU_ISA": isa})
    assert why in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1", ""])
def test_unknown_devices_are_a_slip_of_the_hand(run_fovea, tiny, tmp_path, device):
    run_fovea("embed", "-m", tiny, "-o", tmp_path / "out", PHOTOS, "--device", device, code=2)
    assert not (tmp_path / "out").exists()
