"""A GPU's path through the emulator: embeddings, searches and the laboratory's check, without a GPU.

Needs a program with kernels; skipped otherwise."""

import json
import pathlib

import numpy
import pytest

PHOTOS = sorted((pathlib.Path(__file__).resolve().parents[2] / "examples" / "photos").glob("*.jpg"))[:3]
BF16_COSINE = 0.9995
MXFP8_COSINE = 0.99


@pytest.fixture(scope="module")
def emulator(run_fovea):
    """Skips where the program was built without kernels."""
    if run_fovea("kernel", "resources", "--json", code=None).returncode != 0:
        pytest.skip("this program has no kernels: scripts/build --test builds them")


def embed(run_fovea, model, device, precision, images, to, **options):
    arguments = ["--device", device, "--precision", precision]
    result = run_fovea("embed", "-m", model, *arguments, *images, "-o", to, timeout=1200, **options)
    return numpy.load(to / "embeddings-00000.npy").astype(float), result.stderr


def cosine(one, other):
    return ((one * other).sum(1) / numpy.linalg.norm(one, axis=1) / numpy.linalg.norm(other, axis=1)).min()


@pytest.mark.parametrize(("device", "arch"), [("emu", "sm_90a"), ("emu:sm_100a", "sm_100a")])
def test_embeds_as_a_cpu_does(run_fovea, emulator, model, tmp_path, device, arch):
    expected, _ = embed(run_fovea, model, "cpu", "fp32", PHOTOS, tmp_path / "cpu")
    found, said = embed(run_fovea, model, device, "bf16", PHOTOS, tmp_path / "emu", env={"FOVEA_EMU_SEED": "1"})
    assert f"PTX emulator of {arch}" in said
    assert cosine(found, expected) >= BF16_COSINE
    other, _ = embed(run_fovea, model, device, "bf16", PHOTOS, tmp_path / "other", env={"FOVEA_EMU_SEED": "2"})
    assert (found == other).all(), "another schedule, other bytes"


def test_scales_of_blocks_go_from_kernel_to_kernel(run_fovea, emulator, model, tmp_path):
    expected, _ = embed(run_fovea, model, "cpu", "fp32", PHOTOS, tmp_path / "cpu")
    found, said = embed(run_fovea, model, "emu:sm_100a", "mxfp8", PHOTOS, tmp_path / "emu")
    assert "sm_100), mxfp8" in said
    assert MXFP8_COSINE <= cosine(found, expected) < BF16_COSINE
    alone, _ = embed(run_fovea, model, "emu:sm_100a", "mxfp8", PHOTOS[1:2], tmp_path / "alone")
    assert (alone == found[1]).all(), "an embedding depends on the photos beside it"


def test_mxfp8_is_refused_without_tensor_cores_for_it(run_fovea, emulator, model, tmp_path):
    arguments = [
        "embed",
        "-m",
        model,
        "--device",
        "emu:sm_90a",
        "--precision",
        "mxfp8",
        *PHOTOS,
        "-o",
        tmp_path / "out",
    ]
    assert "B200 and B300 have tensor cores for it. Use bf16" in run_fovea(*arguments, code=1).stderr
    assert not (tmp_path / "out").exists()


def test_products_that_only_a_library_has_are_refused(run_fovea, emulator, model, tmp_path):
    result = run_fovea("embed", "-m", model, "--device", "emu:sm_80", *PHOTOS, "-o", tmp_path / "out", code=1)
    assert "no kernel for gemm" in result.stderr
    assert "--device emu:sm_90a" in result.stderr


def test_searches_as_a_cpu_does(run_fovea, emulator, tmp_path):
    rows = numpy.random.default_rng(3).standard_normal((300, 48)).astype(numpy.float32)
    numpy.save(tmp_path / "rows.npy", rows)
    numpy.save(tmp_path / "queries.npy", rows[::97] + 0.1)
    (tmp_path / "out").mkdir()
    numpy.save(tmp_path / "out/embeddings-00000.npy", rows)
    lines = [json.dumps({"row": row, "source": f"{row}.jpg", "width": 8, "height": 8}) for row in range(len(rows))]
    (tmp_path / "out/index-00000.jsonl").write_text("\n".join(lines) + "\n")
    manifest = {"finished": True, "model": {"name": "", "sha256": ""}}
    (tmp_path / "out/manifest.json").write_text(json.dumps(manifest))
    arguments = ["similar", tmp_path / "queries.npy", "--in", tmp_path / "out", "--json"]
    expected = run_fovea(*arguments, "--device", "cpu").stdout
    for device in ("emu:sm_80", "emu:sm_90a", "emu:sm_100a"):
        assert run_fovea(*arguments, "--device", device).stdout == expected


@pytest.mark.parametrize("device", ["emu:sm_80", "emu"])
def test_cards_are_checked(run_fovea, emulator, device):
    result = run_fovea("kernel", "check", "pixels_widen", "search_pick", "--device", device, "--schedules", "2")
    *checks, last = result.stdout.splitlines()
    assert len(checks) >= 6
    assert all(check.startswith("pass ") for check in checks)
    assert last == f"{len(checks)}/{len(checks)} passed"


def test_a_device_is_named_as_the_help_says(run_fovea, emulator):
    for device in ("cpu", "emu:sm_70", "cuda"):
        assert "emu:sm_90a" in run_fovea("kernel", "check", "pixels_widen", "--device", device, code=2).stderr
    assert "--gpu" in run_fovea("kernel", "check", "pixels_widen", "--device", "emu", "--gpu", "0", code=2).stderr
