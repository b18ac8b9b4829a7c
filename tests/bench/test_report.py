"""bench/report.py: what falls short of the bars of accuracy is said in the guide."""

import json
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import report


def row(engine, precision, mean, recall, calibration="", **more):
    return more | {"model": "m", "engine": engine, "precision": precision, "calibration": calibration, "cosine_mean": mean,
            "cosine_percentile_1": mean - 0.001, "cosine_min": mean - 0.002, "recall_at_10": recall, "kinds": {"fog": mean}}


def table(bf16=0.9997, int8=0.98, fp8=0.975):
    return {"corpus": {"photos": 300, "kinds": 50}, "rows": [
        row("torch, eager", "bf16", 0.9995, 0.97), row("torch, sdpa", "bf16", 0.9996, 0.984), row("fovea", "bf16", bf16, 0.99),
        row("fovea", "int8", 0.999, int8, "examples/photos"), row("fovea", "fp8", 0.998, fp8, "examples/photos")]}


@pytest.mark.parametrize("change, told", [
    ({}, []),
    ({"bf16": 0.99955}, ["bf16 of m is farther from fp32 than torch's bf16 in the mean", "in the 1st percentile"]),
    ({"int8": 0.978}, ["recall@10 of int8 of m calibrated on examples/photos is 0.0060 below"]),
    ({"fp8": 0.973}, ["recall@10 of fp8 of m calibrated on examples/photos is 0.0110 below"]),
])
def test_what_falls_short_is_told(change, told):
    found = report.shortfalls(table(**change))
    assert len(found) == len(told) and all(part in line for part, line in zip(told, found, strict=True))


@pytest.mark.parametrize("recall, told", [(0.98, []), (0.978, [
    "recall@10 of int8, first 4 layers bf16 of m calibrated on examples/photos is 0.0060 below that of torch's bf16"])])
def test_layers_in_bf16_are_told_and_judged_as_the_others(recall, told):
    result = table()
    result["rows"].append(row("fovea", "int8", 0.9994, recall, "examples/photos", bf16_layers=4))
    assert report.shortfalls(result) == told
    assert "| m | fovea | int8, first 4 layers bf16 | examples/photos | 0.99940 |" in report.accuracy_section(result)


def test_the_guide_has_the_newest_table(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    empty = f"before\n{report.BEGIN}{report.END}after\n"
    text = report.guide(empty)
    assert "has not been run" in text and text.startswith("before\n") and text.endswith("after\n")
    (tmp_path / "nvidia-x").mkdir()
    for day, int8 in ((1, 0.9), (2, 0.98)):
        (tmp_path / "nvidia-x" / f"{day}.json").write_text(json.dumps({"accuracy": table(int8=int8)}))
    text = report.guide(text)
    assert "has not been run" not in text and "0.9800" in text and "0.9000" not in text and "falls short" not in text
    assert report.guide(text) == text
    assert "fog" in report.accuracy_section(table())


def test_cards_that_there_are_no_longer_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "CARDS", tmp_path)
    (tmp_path / "pool.cpp").write_text('Card card = {.name = "pool"};')
    figure = {"description": "a problem", "seconds": 1e-5, "sustained": 1e-5, "sm_mhz": 1980, "watts": 400, "flops": 1e9,
              "bytes": 1e6, "matrix_ceiling": 8e14, "peers": []}
    result = {"copy_bytes_per_second": 4e12, "bf16_flops": 8e14, "e4m3_flops": 1.5e15,
              "figures": [figure | {"card": card} for card in ("pool", "pool_e4m3")]}
    text = report.kernels_section(result)
    assert "| pool | a problem |" in text and "pool_e4m3" not in text
