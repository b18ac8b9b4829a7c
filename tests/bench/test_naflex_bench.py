"""bench/naflex.py on the small NaFlex model."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.nightly
def test_both_engines_are_compared_and_timed_on_photos_of_many_proportions(run_fovea, fovea_bin, tmp_path):
    model, file = tmp_path / "tiny", tmp_path / "result.json"
    run_fovea("init", "--preset", "tiny-naflex", "-o", model)
    command = [
        sys.executable,
        ROOT / "bench/naflex.py",
        model,
        "--fovea",
        fovea_bin,
        "--precision",
        "fp32,int8",
        "--batch",
        "1,9",
    ]
    done = subprocess.run(
        [*command, "--rounds", "2", "--seconds", "0.01", "--attention", "sdpa", "--no-compile", "--json", file],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "skipped fovea int8: " in done.stderr  # nobody has calibrated this model
    assert "skipped transformers sdpa int8: measured only in fp32 and bf16" in done.stderr
    (result,) = json.loads(file.read_text())["naflex"]
    assert result["most_tokens"] == 64 and 48 < result["mean_tokens"] < 64
    skipped = {(row["engine"], row["precision"]): row["skipped"] for row in result["rates"] if "skipped" in row}
    assert skipped["torch.compile sdpa", "fp32"] == "--no-compile" and skipped["fovea", "int8"]
    rows = {(row["engine"], row["precision"], row["batch"]): row for row in result["rates"] if "skipped" not in row}
    assert set(rows) == {(engine, "fp32", batch) for engine in ("fovea", "transformers sdpa") for batch in (1, 9)}
    for row in rows.values():
        assert len(row["rounds"]) == 2 and row["images_per_second"] > 0 and row["minimum_cosine"] > 0.99999
        assert "device_images_per_second" not in row  # nothing but the CPU computed
    assert " x transformers sdpa " in done.stderr
