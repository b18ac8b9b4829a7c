"""bench/texts.py on the small model: everybody from the same texts, and a reason for who is missing."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_text_towers_are_compared_and_timed(model, fovea_bin, tmp_path):
    file = tmp_path / "texts.json"
    library = pathlib.Path(fovea_bin).parents[1] / "lib/libfovea.so"
    command = [
        sys.executable,
        ROOT / "bench/texts.py",
        model,
        "--device",
        "cpu",
        "--precision",
        "fp32,int8",
        "--texts",
        "64",
        "--batch",
        "1,8",
        "--no-compile",
        "--seconds",
        "0",
        "--program",
        fovea_bin,
        "--json",
        file,
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python"), "FOVEA_LIBRARY": str(library)},
    )
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(file.read_text())["texts"]
    assert found["tokens"] == 64 and found["texts"] == 64
    measured = {(row["engine"], row["precision"], row["batch"]): row for row in found["rows"] if "skipped" not in row}
    skipped = {(row["engine"], row["precision"]): row["skipped"] for row in found["rows"] if "skipped" in row}
    assert skipped["transformers sdpa", "int8"] == "measured only in fp32 and bf16"
    assert skipped["torch.compile max-autotune", "fp32"] == "--no-compile"
    for engine in ("fovea, Encoder.embed_text", "transformers sdpa"):
        for batch in (1, 8):
            row = measured[engine, "fp32", batch]
            assert row["from_texts_per_second"] > 0 and row["minimum_cosine"] > 0.99999
            assert ("from_tokens_per_second" in row) == (engine == "transformers sdpa")
    # So few texts may take less time than the program's start does from one run to the next.
    if "fovea embed --text" not in {engine for engine, _ in skipped}:
        assert measured["fovea embed --text", "int8", "all"]["from_texts_per_second"] > 0
    else:
        assert "cannot measure a rate" in skipped["fovea embed --text", "int8"]
