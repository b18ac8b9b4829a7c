"""Files of results, one of each kind, that the tests of bench/report put into a folder."""

import copy
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
from report import page


def on_day(day, **content):
    gpu = {"name": "GPU <X>", "driver": "9"}
    return {"machine": {"date": f"2026-11-2{day}", "commit": "c0ffee", "gpu": gpu}} | copy.deepcopy(content)


PROFILE = {
    "kind": "profile", "version": 1, "card": "attention", "case": "b2", "kernel": "k", "level": "wmma", "plan": "p", "sources": "s",
    "parameters": {"stages": 4}, "seconds": 5e-6, "figures": {"dram": 0.3}, "stalls": {"long_scoreboard": 0.6, "barrier": 0.4},
    "roles": [{"name": "producer", "share": 0.25, "stalls": {"barrier": 0.2}}, {"name": "a.cuh:7 `x < y;`", "share": 0.1, "stalls": {}}],
    "findings": [{"rule": "r", "seen": {"long_scoreboard": 0.6}, "means": "Warps wait.", "try": "more stages", "parameter": "stages", "strength": 1}],
    "places": [{"file": "a.cuh", "line": 7, "role": "producer", "share": 0.1, "stalls": {"barrier": 0.1}}],
    "verdict": "It waits.",
}  # fmt: skip


def bench(seconds=0.002, **figure):
    peer = {
        "name": "cuBLASLt & co",
        "seconds": 0.004,
        "ratio": 2.0,
        "ambiguous": False,
        "same_result": True,
        "wrong": "",
    }
    known = {
        "card": "gemm_a", "case": "m1", "plan": "", "description": "gemm of a test", "flops": 1e12, "bytes": 1e9,
        "matrix_ceiling": 8e14,
        "seconds": seconds, "spread": 1e-6, "peers": [peer],
    }  # fmt: skip
    return {
        "kernels": {
            "copy_bytes_per_second": 4e12,
            "bf16_flops": 8e14,
            "e4m3_flops": 1.5e15,
            "figures": [known | figure],
        }
    }


def gates(reading=0.3, passed=False, kernel="k"):
    gate = {
        "figure": "matrix_units",
        "sense": "at_least",
        "limit": 0.4,
        "model": "half of the roof",
        "reading": reading,
        "passed": passed,
    }
    level = {"card": "attention", "case": "b2", "level": "wmma", "kernel": kernel, "passed": passed, "gates": [gate]}
    return {"kind": "gates", "version": 1, "levels": [level]}


RUN = {
    "kind": "run", "machine": {"date": "2026-11-21", "gpu": {"name": "GPU <X>"}}, "card": "attention", "case": "b2",
    "level": "wmma",
    "population": "best", "seed": "7", "proposer": ["python3", "mine.py"],
    "baseline": {"kernel": "k", "parameters": {"stages": 2}, "seconds": 1e-5},
}  # fmt: skip


def candidate(number, valid, **rest):
    return {"kind": "candidate", "number": number, "generation": number, "parents": [number - 1], "valid": valid} | rest


def ledger(*lines, run=RUN):
    return "".join(json.dumps(line) + "\n" for line in (run, *lines))


COMPARE = {
    "kind": "compare", "a": {"level": "mma"}, "b": {"what": "wmma", "level": ""}, "verdict": "SLOWER", "ratio": 1.021,
    "interval": [1.019, 1.023],
    "rounds": 16, "card": "pool", "case": "b1024", "counters": [{"name": "spills", "a": 0, "b": 3, "change": None},
    {"name": "l2", "change": 0.5}],
}  # fmt: skip


def one_of_each():
    """One of each kind, by the names of their files."""
    return {
        "bench.json": on_day(1, **bench()),
        "encoder.json": on_day(1, gpu_bench=[{"engine": "fovea", "precision": "bf16", "batch": 32,
        "images_per_second": 100}]),
        "below/profile.json": on_day(1, **PROFILE),
        "gates.json": on_day(1, **gates()),
        "compare.json": on_day(1, **COMPARE),
        "verdicts.json": on_day(1, kind="verdicts", card="pool", what="slower sources", truth="SLOWER",
        runs=[{"verdict": v} for v in ("SLOWER", "SAME", "SLOWER")]),
        "evolve.jsonl": ledger(
            candidate(1, True, change={"stages": 3}, kept=True, speed_up=1.05, reason="it waits"),
            candidate(2, False, change={"stages": 9}, why="too much", failed_at="resources"),
            {"kind": "confirmation", "number": 1, "valid": True, "speed_up": 1.04},
            {"kind": "end", "why": "budget", "words": "it is spent", "best": 1}),
        "sanitizers.json": on_day(1, kind="sanitizers", tools=[{"tool": "memcheck", "card": "pool", "passed": False,
        "seconds": 3, "errors": 2}]),
        "judge.json": on_day(1, kind="judge", task="t.py", answer="a.py", device="cuda", verdict="WRONG",
        reasons=["the last tile is wrong"]),
    }  # fmt: skip


class Folder:
    def __init__(self, path):
        self.path = path
        (path / "below").mkdir()

    def put(self, files):
        for name, content in files.items():
            (self.path / name).write_text(content if isinstance(content, str) else json.dumps(content))

    def made(self):
        return page.page([self.path])

    def html(self, **files):
        self.put({name.replace("_", ".", 1): content for name, content in files.items()})
        return self.made()[0]


def sections(html):
    return re.findall(r'<section id="([^"]+)">', html)


def without_breaks(html):
    return html.replace("<wbr>", "")
