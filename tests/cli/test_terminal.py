"""Hostile names and texts: what reaches a terminal holds no control characters, and no line that looks like
the program's own."""

import json
import os
import shutil
import struct
import subprocess

import pytest

# Sets the window's title, hides, colours (CSI in one byte of C1), reverses, isolates, ends lines.
HOSTILE = "x\x1b]0;owned\x07\x7f\u009b31m\u202e\u2066\u200f\u061c\u200b\u2028\r\nfovea: forged"
FORBIDDEN = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - {"\n"}
FORBIDDEN |= set("\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


def assert_harmless(text):
    assert not FORBIDDEN & set(text), sorted(map(hex, map(ord, FORBIDDEN & set(text))))
    assert not any(line.startswith("fovea: forged") for line in text.splitlines())
    assert "owned" in text  # the name was there to be shown
    assert "\udcff" not in text  # surrogates stand for bytes that are not UTF-8


@pytest.fixture(scope="module")
def model(run_fovea, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    run_fovea("init", "--preset", "tiny", "-o", folder)
    return folder


@pytest.fixture
def own_model(model, tmp_path):
    return shutil.copytree(model, tmp_path / "model")


def test_config(run_fovea, own_model):
    config = json.loads((own_model / "config.json").read_text())
    (own_model / "config.json").write_text(json.dumps(config | {"model_type": HOSTILE}))
    assert_harmless(run_fovea("info", own_model, code=1).stderr)


def rename_tensor(path, old, new):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header[new] = header.pop(old)
    text = json.dumps(header, ensure_ascii=False).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])


def test_tensors(run_fovea, own_model):
    rename_tensor(own_model / "model.safetensors", "vision_model.post_layernorm.weight", "vision_model." + HOSTILE)
    result = run_fovea("info", own_model, code=1)
    assert_harmless(result.stdout)
    assert "vision_model.post_layernorm.weight" in result.stdout  # missing
    described = run_fovea("info", own_model, "--json", code=1).stdout
    assert_harmless(described)
    assert json.loads(described)["unused"] == ["vision_model." + HOSTILE]


def test_shards(run_fovea, own_model):
    (own_model / "model.safetensors").unlink()
    index = {"weight_map": {"vision_model.post_layernorm.weight": HOSTILE}}
    (own_model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert_harmless(run_fovea("info", own_model, code=1).stderr)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Two photos, alike, and two that are broken, all of hostile names."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("photos")
    image.new("RGB", (40, 30)).save(folder / f"{HOSTILE}.png")
    image.new("RGB", (40, 30)).save(folder / f"{HOSTILE} too.png")
    (folder / f"{HOSTILE}.jpg").write_bytes(b"no photo")
    with open(os.fsencode(folder) + b"/z-owned\x9b\xff.jpg", "wb") as stream:
        stream.write(b"no photo")
    return folder


@pytest.mark.parametrize("options", [(), ("--strict",), ("--progress", "json"), ("--quiet", "--strict")])
def test_failed_inputs(run_fovea, model, photos, tmp_path, options):
    result = run_fovea("embed", photos, "-m", model, "-o", tmp_path / "out", *options, code=None)
    assert result.returncode == (1 if "--strict" in options else 3)
    assert_harmless(result.stderr)


def test_output_and_model(run_fovea, model, photos, tmp_path):
    output = tmp_path / f"{HOSTILE}.npy"
    assert_harmless(run_fovea("preprocess", photos, "-m", model, "-o", output, code=3).stderr)
    assert_harmless(run_fovea("embed", photos, "-m", HOSTILE, "-o", output, code=1).stderr)


def test_similar(run_fovea, model, photos, tmp_path):
    output = tmp_path / HOSTILE
    run_fovea("embed", photos, "-m", model, "-o", output, code=3)
    for arguments in [(), ("--duplicates",), ("--json",), ("--html", tmp_path / HOSTILE / "p.html")]:
        result = run_fovea("similar", "--in", output, *arguments)
        assert_harmless(result.stdout + result.stderr)
        if "--json" in arguments:
            sources = {query["query"] for query in json.loads(result.stdout)["queries"]}
            assert sources == {f"{photos}/{HOSTILE}.png", f"{photos}/{HOSTILE} too.png"}
    assert_harmless(run_fovea("similar", HOSTILE, "--in", output, code=1).stderr)
    assert_harmless(run_fovea("similar", "--in", tmp_path / "nowhere" / HOSTILE, code=1).stderr)


def test_verify(run_fovea, model, photos):
    for arguments in [(), ("--json",)]:
        result = run_fovea("verify", model, photos, "--device", "cpu", "--min-recall", "0", *arguments, code=None)
        if "bf16 needs a CPU" in result.stdout:
            pytest.skip("no bf16 on this CPU: verify compares nothing, and names no photo")
        assert_harmless(result.stdout)


def test_calibrate(run_fovea, own_model, photos):
    assert_harmless(run_fovea("calibrate", own_model, photos, "--images", "1", code=None).stderr)


def test_usage_and_environment(run_fovea, model):
    assert_harmless(run_fovea("info", model, HOSTILE, code=2).stderr)
    assert_harmless(run_fovea("embed", "--device", HOSTILE, code=2).stderr)
    assert_harmless(run_fovea("embed", "y", "-o", "x", code=1, env={"FOVEA_MODEL": HOSTILE}).stderr)


def test_pull(run_fovea, tmp_path):
    env = {"HF_ENDPOINT": "http://127.0.0.1:1/" + HOSTILE, "HF_HOME": str(tmp_path)}
    assert_harmless(run_fovea("pull", "org/name", "--retries", "0", code=1, env=env).stderr)
    assert_harmless(run_fovea("pull", HOSTILE, code=1).stderr)


def test_kernel(run_fovea):
    assert_harmless(run_fovea("kernel", "list", HOSTILE, code=2).stderr)


@pytest.mark.parametrize("strict", [True, False])
def test_long_names_are_cut_on_the_terminal_alone(fovea_bin, run_fovea, model, tmp_path, strict):
    name = "start-" + "n" * 900_000 + "-end.jpg"
    output = tmp_path / "out"
    result = subprocess.run(
        [fovea_bin, "embed", "-", "-m", model, "-o", output, *(["--strict"] if strict else [])],
        input=f"{name}\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == (1 if strict else 3)
    assert len(result.stderr) < 3000
    line = next(line for line in result.stderr.splitlines() if "start-" in line)
    assert "nnn ... nnn" in line and "-end.jpg" in line and "cannot open" in line
    if not strict:
        assert json.loads((output / "errors.jsonl").read_text())["source"] == name
        result = run_fovea("embed", "-", "-m", model, "-o", tmp_path / "json", "--progress", "json", code=None,
                           stdin=open(_list_of(tmp_path, name)))  # fmt: skip
        assert name in result.stderr


def _list_of(folder, name):
    path = folder / "list.txt"
    path.write_text(f"{name}\n")
    return path
