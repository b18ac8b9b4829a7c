"""A photo's embedding has the same bits whatever came with it."""

import pathlib
import re

import numpy
import pytest

PHOTOS = sorted((pathlib.Path(__file__).resolve().parents[2] / "examples" / "photos").glob("*.jpg"))
BATCHES = (1, 7, 32, 300)


@pytest.fixture(scope="module")
def tiny(run_fovea, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    run_fovea("init", "--preset", "tiny", "--seed", "5", "-o", folder)
    return folder


def embed(run_fovea, model, device, precision, images, batch, folder, threads=0, env=None):
    """Bits of the embeddings of made-up images, [images, hidden]."""
    out = folder / f"{batch}-{threads}.npy"
    options = ("-m", model, "--device", device, "--precision", precision, "--no-normalize", "--quiet", "-o", out)
    numbers = ("--synthetic", str(images), "--batch-size", str(batch), "--threads", str(threads))
    run_fovea("embed", *numbers, *options, env=env)
    return numpy.load(out).view(numpy.uint32)


@pytest.mark.parametrize("isa", ["", "generic", "avx2", "avx512_vnni"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_on_the_cpu(run_fovea, tiny, tmp_path, isa, precision):
    env = {"FOVEA_CPU_ISA": isa}
    one = ("embed", "--synthetic", "1", "-m", tiny, "--device", "cpu", "-o", tmp_path / "one.npy")
    said = run_fovea(*one, env=env).stderr
    used = re.search(r"cpu \((\w+)\)", said)[1]
    assert used == isa or isa in ("", "avx512_vnni")  # the CPU may have less
    computed = {"bf16": used in ("avx512_bf16", "amx"), "int8": used != "generic"}
    if not computed.get(precision, True):
        assert (
            f"{precision} needs a CPU with"
            in run_fovea(*one, "--overwrite", "--precision", precision, env=env, code=1).stderr
        )
        return
    if precision == "int8":
        run_fovea("calibrate", tiny, *PHOTOS, "--precision", "int8")
    images = 301  # no multiple of a batch: the last ones differ in size, too
    alone = embed(run_fovea, tiny, "cpu", precision, images, 1, tmp_path, env=env)
    assert len(numpy.unique(alone, axis=0)) == images
    for batch in BATCHES[1:]:
        assert (embed(run_fovea, tiny, "cpu", precision, images, batch, tmp_path, env=env) == alone).all(), batch
    assert (embed(run_fovea, tiny, "cpu", precision, images, 32, tmp_path, threads=3, env=env) == alone).all()


@pytest.mark.parametrize("precision, bf16_layers", [("bf16", 0), ("int8", 0), ("fp8", 0), ("int8", 1)])
@pytest.mark.parametrize("preset", ["tiny", "base-patch16-224", "base-patch16-512"])
def test_on_a_gpu(run_fovea, gpu, tmp_path, preset, precision, bf16_layers):
    model = tmp_path / preset
    run_fovea("init", "--preset", preset, "--seed", "5", "-o", model)
    if precision != "bf16":
        run_fovea("calibrate", model, *PHOTOS, "--precision", precision, "--bf16-layers", str(bf16_layers))
    images = 1024 if preset != "base-patch16-512" else 100
    alone = embed(run_fovea, model, "cuda", precision, images, 1, tmp_path)
    for batch in (*BATCHES[1:], images):
        assert (embed(run_fovea, model, "cuda", precision, images, batch, tmp_path) == alone).all(), batch
