"""bench/peers_cpu.py on the tiny model, and how its rows are drawn."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
TOOL = pathlib.Path(os.environ.get("FOVEA_ENCODE_TOOL", ROOT / "build/release/tests/encode_tool"))
sys.path.append(str(BENCH))
import hard_photos
from report import plots, sections

COMPILED = "torch.compile,torch.compile freezing,onnxruntime"  # they take seconds to compile or export
OPENVINO = "OpenVINO latency,OpenVINO latency static,OpenVINO throughput,OpenVINO throughput static"


@pytest.fixture
def peers(model, tmp_path):
    """peers(*arguments): the result, and what was told on stderr."""

    def run(*arguments):
        file = tmp_path / "peers.json"
        command = [sys.executable, BENCH / "peers_cpu.py", model, "--tool", TOOL, "--bench", tmp_path / "none"]
        done = subprocess.run([*command, "--json", file, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(file.read_text()), done.stderr

    return run


@pytest.mark.nightly
def test_engines_are_compared_and_timed_and_those_that_fail_are_skipped_with_a_reason(peers):
    result, told = peers(
        "--skip",
        f"{COMPILED},{OPENVINO}",
        "--precision",
        "fp32,int8",
        "--batch",
        "1,2",
        "--rounds",
        "2",
        "--seconds",
        "0",
    )
    reasons = {(row["engine"], row["precision"]): row["skipped"] for row in result["results"] if "skipped" in row}
    assert reasons["torch.compile", "fp32"] == "excluded by --skip" and reasons["fovea", "int8"]
    assert reasons["transformers eager", "int8"] == "measured only in fp32 and bf16"
    assert {name for name, _ in reasons} == {
        "fovea",
        "fovea throughput",
        "transformers eager",
        *f"{COMPILED},{OPENVINO}".split(","),
    }
    rows = {(row["engine"], row["precision"], row["batch"]): row for row in result["results"] if "skipped" not in row}
    assert set(rows) == {("transformers eager", "fp32", 1), ("transformers eager", "fp32", 2)}
    for row in rows.values():
        assert len(row["rounds"]) == 2 and row["images_per_second"] > 0 and row["minimum_cosine"] > 0.99999
    assert "skipped fovea fp32: " in told  # there is no encoder_bench where it was told to look
    assert "skipped fovea int8: " in told  # nobody has calibrated this model
    assert "skipped transformers eager int8: measured only in fp32 and bf16" in told
    assert "accuracy" not in result


def test_the_embeddings_of_photos_are_rows_as_those_of_the_gpu(peers, tmp_path):
    hard_photos.write(tmp_path / "photos", seed=1, each=1, kinds=hard_photos.KINDS[1:-2:3])
    result, _ = peers(
        "--skip", f"{COMPILED},{OPENVINO}", "--precision", "fp32", "--rounds", "0", "--quality", tmp_path / "photos"
    )
    assert all("skipped" in row for row in result["results"])
    assert [row["engine"] for row in result["accuracy"]["rows"]] == ["fovea", "transformers eager"]
    for row in result["accuracy"]["rows"]:
        assert 0.99999 < row["cosine_min"] <= row["cosine_percentile_1"] <= row["cosine_mean"] < 1.00001
        assert row["recall_at_10"] == 1 and not row["calibration"]
        assert len(row["kinds"]) == result["accuracy"]["corpus"]["kinds"]


@pytest.mark.parametrize("package, precision", [("openvino", "fp32"), ("nncf", "int8")])
def test_openvino_is_compared_in_both_forms(peers, package, precision):
    for needed in ("openvino", "onnxscript", package):
        pytest.importorskip(needed)
    result, told = peers(
        "--skip",
        f"fovea,transformers eager,{COMPILED}",
        "--precision",
        precision,
        "--batch",
        "3",
        "--rounds",
        "1",
        "--seconds",
        "0",
        "--quality",
        hard_photos.EXAMPLES,
    )
    forms = OPENVINO.split(",")
    rows = [row for row in result["results"] if "skipped" not in row]
    assert [row["engine"] for row in rows] == forms, told
    calibration = "examples/photos" if precision == "int8" else ""
    assert rows[0]["requests"] == rows[1]["requests"] == 1 <= rows[2]["requests"]
    told = [(row["engine"], row["calibration"]) for row in result["accuracy"]["rows"]]
    assert told == [(forms[0], calibration)]  # both forms give the same embeddings
    assert result["machine"]["versions"][package]


def drawn(*rows):
    """The picture of (engine, precision, batch, rate) on one machine."""
    entries = [dict(zip(("engine", "precision", "batch", "images_per_second"), row, strict=True)) for row in rows]
    return str(plots.encoder_on_cpus({"zen": (entries, {"cpu": {"model": "AMD"}, "date": "2026-11-24"})}))


def test_the_range_is_of_all_batches_losses_included():
    picture = drawn(
        ("fovea", "fp32", 1, 90),
        ("onnxruntime", "fp32", 1, 45),
        ("fovea", "fp32", 32, 60),
        ("onnxruntime", "fp32", 32, 50),
        ("OpenVINO latency", "fp32", 32, 120),
        ("OpenVINO latency", "int8", 32, 300),
    )
    assert "Fovea is 0.50 to 2.00x the best peer of the same run" in picture and "batch 32: 0.50x" in picture
    assert "zen, fp32" in picture and "beside onnxruntime, OpenVINO" in picture and "int8" not in picture


def test_many_batches_at_once_are_drawn_beside_all_that_peers_do():
    picture = drawn(
        ("fovea", "bf16", 32, 60),
        ("fovea throughput", "bf16", 32, 90),
        ("OpenVINO latency", "bf16", 32, 45),
        ("OpenVINO throughput", "bf16", 32, 75),
    )
    assert "Fovea is 0.80 to 1.20x" in picture and "zen, bf16, many batches" in picture


def entry(engine, requests, rate):
    return {"engine": engine, "precision": "bf16", "batch": 32, "requests": requests, "images_per_second": rate}


def test_a_batch_at_a_time_is_compared_with_such_and_many_with_the_best_of_all_forms():
    table = sections.encoder_section(
        [
            entry("fovea", 1, 60),
            entry("OpenVINO latency", 1, 50),
            entry("fovea throughput", 4, 66),
            entry("OpenVINO throughput", 4, 40),
        ]
    )
    assert "| fovea | bf16 | 32 | 1 | 60 | 1.20x |" in table
    assert "| fovea throughput | bf16 | 32 | 4 | 66 | 1.32x |" in table
    assert "| OpenVINO throughput | bf16 | 32 | 4 | 40 | 0.80x |" in table


def test_shares_of_the_ceilings_count_what_int8_leaves_in_bf16():
    rows = [
        {
            "precision": "int8",
            "batch": 8,
            "engine": engine,
            "milliseconds": {"products": 40, "attention": 10, "norms": 2},
        }
        for engine in ("fovea", "OpenVINO")
    ]
    section = sections.cpu_times_section(
        {
            "threads": 2,
            "ceilings": {"matrix_gigaops": {"bf16": 100, "int8": 200}, "copy_gigabytes": 10},
            "work": {"out": 1e9, "other_products": 2e9, "attention": 5e8, "normed": 2e6},
            "rows": rows,
        }
    )
    # 2e9 / 200e9 + 1e9 / 100e9 seconds of 40 ms, 5 of 10 ms, and 5 bytes a number: 1 of 2 ms.
    assert "| 50% | 50% | 50% |" in section
    assert section.splitlines()[-1].startswith("| OpenVINO") and section.count("50%") == 3


def test_what_was_skipped_and_what_an_old_run_says_nothing_of_is_told():
    table = sections.encoder_section(
        [
            entry("fovea", 1, 60),
            entry("OpenVINO latency", 1, 50),
            {"precision": "bf16", "engine": "onnxruntime", "skipped": "only its fp32 is measured"},
        ]
    )
    assert "onnxruntime bf16: only its fp32 is measured;" in table
    assert (
        "torch.compile freezing bf16, OpenVINO latency static bf16" in table
        and "the run has neither a figure nor a reason" in table
    )
