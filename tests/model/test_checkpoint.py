"""Model folders between Fovea and transformers, both ways."""

import json
import shutil

import pytest
import torch
from transformers import SiglipConfig, SiglipModel, SiglipVisionConfig, SiglipVisionModel


def load(folder, kind=SiglipVisionModel):
    """What transformers loads; fails on missing or unexpected weights."""
    model, report = kind.from_pretrained(folder, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not report[kind], (kind, report[kind])
    return model


@pytest.mark.parametrize(
    "arguments",
    [
        ["--preset", "tiny"],
        ["--preset", "tiny", "--dtype", "bf16"],
        ["--preset", "tiny", "--dtype", "f16", "--max-shard-bytes", "300000"],
        ["--preset", "base-patch16-224"],
        ["--preset", "base-patch32-256", "--layers", "1"],
        ["--preset", "large-patch16-384", "--layers", "1", "--dtype", "bf16"],
        ["--preset", "so400m-patch14-384", "--layers", "1"],
        ["--preset", "giant-opt-patch16-256", "--layers", "1", "--max-shard-bytes", "100000000"],
    ],
    ids=" ".join,
)
def test_transformers_loads_what_init_writes(run_fovea, tmp_path, arguments):
    folder = tmp_path / "model"
    run_fovea("init", *arguments, "-o", folder)
    both = load(folder, SiglipModel)
    assert all(torch.isfinite(weight).all() for weight in both.parameters())
    run_fovea("init", *arguments, "--images-only", "-o", tmp_path / "images")
    model = load(tmp_path / "images")
    for name, weight in model.state_dict().items():  # the images' tower does not depend on the other
        found = both.state_dict()[f"vision_model.{name.removeprefix('vision_model.')}"]
        assert torch.equal(found, weight), name
    shutil.rmtree(tmp_path / "images")
    info = json.loads(run_fovea("info", folder, "--json").stdout)
    assert info["usable"] and not info["unused"]
    assert info["parameters"] == sum(weight.numel() for weight in model.parameters())
    config = model.config
    assert info["hidden"] == config.hidden_size
    assert info["mlp"] == config.intermediate_size
    assert info["layers"] == config.num_hidden_layers
    assert info["heads"] == config.num_attention_heads
    assert info["image_size"] == config.image_size
    assert info["patch"] == config.patch_size
    shutil.rmtree(folder)


def test_gflop_of_base(run_fovea, tmp_path):
    run_fovea("init", "--preset", "base-patch16-224", "--layers", "12", "-o", tmp_path / "m")
    assert "35.4 GFLOP per image" in run_fovea("info", tmp_path / "m").stdout


def test_work_of_a_tiny_model(run_fovea, tmp_path):
    run_fovea("init", "--preset", "tiny", "-o", tmp_path / "m")
    gflop = json.loads(run_fovea("info", tmp_path / "m", "--json").stdout)["gflop_per_image"]
    assert f"{gflop * 1000:.1f} MFLOP per image" in run_fovea("info", tmp_path / "m").stdout


def vision_config():
    return SiglipVisionConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=64,
        patch_size=16,
    )


def preprocessor(folder, size=64):
    (folder / "preprocessor_config.json").write_text(
        json.dumps({"resample": 2, "size": {"height": size, "width": size}})
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("max_shard_size", ["5GB", "20KB"])
@pytest.mark.parametrize("whole", [False, True], ids=["vision", "whole"])
def test_what_transformers_saves_is_read(run_fovea, tmp_path, dtype, max_shard_size, whole):
    if whole:  # with a text tower, tensors prefixed as on the hub
        text = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1}
        text |= {"num_attention_heads": 2, "vocab_size": 100}
        model = SiglipModel(SiglipConfig(text_config=text, vision_config=vision_config().to_dict()))
        vision = model.vision_model
    else:
        model = vision = SiglipVisionModel(vision_config())
    model.to(getattr(torch, dtype)).save_pretrained(tmp_path, max_shard_size=max_shard_size)
    sharded = (tmp_path / "model.safetensors.index.json").exists()
    assert sharded == (max_shard_size == "20KB")
    preprocessor(tmp_path)
    info = json.loads(run_fovea("info", tmp_path, "--json").stdout)
    assert info["usable"] and not info["unused"] and not info["missing"]
    assert info["parameters"] == sum(weight.numel() for weight in vision.parameters())
    assert info["dtypes"] == [{"float32": "F32", "bfloat16": "BF16", "float16": "F16"}[dtype]]
    assert "usable" not in run_fovea("info", tmp_path).stderr


def test_info_of_an_unusable_model_fails_and_says_why(run_fovea, tmp_path):
    SiglipVisionModel(vision_config()).save_pretrained(tmp_path)
    assert "preprocessor_config.json" in run_fovea("info", tmp_path, code=1).stderr
    preprocessor(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["num_hidden_layers"] = 3
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = run_fovea("info", tmp_path, "--json", code=1)
    info = json.loads(result.stdout)
    assert not info["usable"] and len(info["missing"]) == 16
    assert "16 tensors are missing" in result.stderr
    config["model_type"] = "siglip2_vision_model"  # whose weights and processor are others
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "2 are unusable" in run_fovea("info", tmp_path, code=1).stderr
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "SiglipImageProcessor"}))
    assert "expected Siglip2ImageProcessor for a NaFlex model" in run_fovea("info", tmp_path, code=1).stderr


def test_init_refuses_wrong_usage(run_fovea, tmp_path):
    message = run_fovea("init", "--preset", "tinny", "-o", tmp_path, code=2).stderr
    assert "did you mean tiny?" in message and "giant" not in message
    (tmp_path / "mine").write_text("")
    refused = run_fovea("init", "--preset", "tiny", "-o", tmp_path, code=1).stderr
    assert "not empty" in refused and "--overwrite" in refused
    run_fovea("init", "--preset", "tiny", "-o", tmp_path, "--overwrite")
