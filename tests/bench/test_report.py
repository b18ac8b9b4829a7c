"""python3 bench/report: what falls short is told, what is too old is not shown, and a peer that is missing has its reason."""

import json
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import speed_gates
from report import ages, docs, gpu_sections, headlines, plots, sections


def row(engine, precision, mean, recall, calibration="", **more):
    return more | {
        "model": "m",
        "engine": engine,
        "precision": precision,
        "calibration": calibration,
        "cosine_mean": mean,
        "cosine_percentile_1": mean - 0.001,
        "cosine_min": mean - 0.002,
        "recall_at_10": recall,
        "kinds": {"fog": mean},
    }


def table(bf16=0.9997, int8=0.98, fp8=0.975):
    return {
        "corpus": {"photos": 300, "kinds": 50},
        "rows": [
            row("torch, eager", "bf16", 0.9995, 0.97),
            row("torch, sdpa", "bf16", 0.9996, 0.984),
            row("fovea", "bf16", bf16, 0.99),
            row("fovea", "int8", 0.999, int8, "examples/photos"),
            row("fovea", "fp8", 0.998, fp8, "examples/photos"),
        ],
    }


@pytest.mark.parametrize(
    "change, told",
    [
        ({}, []),
        ({"bf16": 0.99955}, ["bf16 of m is farther from fp32 than torch's bf16 in the mean", "in the 1st percentile"]),
        ({"int8": 0.978}, ["recall@10 of int8 of m calibrated on examples/photos is 0.0060 below"]),
        ({"fp8": 0.973}, ["recall@10 of fp8 of m calibrated on examples/photos is 0.0110 below"]),
    ],
)
def test_what_falls_short_is_told(change, told):
    found = gpu_sections.shortfalls(table(**change))
    assert len(found) == len(told) and all(part in line for part, line in zip(told, found, strict=True))


@pytest.mark.parametrize(
    "recall, told",
    [
        (0.98, []),
        (
            0.978,
            [
                "recall@10 of int8, first 4 layers bf16 of m calibrated on examples/photos is 0.0060 below that of torch's bf16"
            ],
        ),
    ],
)
def test_layers_in_bf16_are_told_and_judged_as_the_others(recall, told):
    result = table()
    result["rows"].append(row("fovea", "int8", 0.9994, recall, "examples/photos", bf16_layers=4))
    assert gpu_sections.shortfalls(result) == told
    assert "| m | fovea | int8, first 4 layers bf16 | examples/photos | 0.99940 |" in gpu_sections.accuracy_section(
        result
    )


def page(until):
    """Those of all machines."""
    return "\n".join(docs.machine_page(machine, until) for machine in docs.machines(until))


def drawn(until):
    return plots.pictures({machine.name: machine.found for machine in docs.machines(until)})


MACHINE = {
    "date": "2026-11-24",
    "gpu": {"name": "a GPU"},
    "versions": {"torch": "2.11.0"},
    "memory_gib": 1,
    "cpu": {"cores": 1, "model": "a CPU", "isa": []},
}


@pytest.fixture
def aged(tmp_path, monkeypatch):
    """aged(where, name, result, commits): files a result that is so many commits old."""
    counts = {}
    monkeypatch.setattr(docs, "RESULTS", tmp_path)
    monkeypatch.setattr(
        ages, "commits", lambda measured, until, folders: counts[measured] + {"then": 0, "later": 10, "HEAD": 11}[until]
    )

    def file(where, name, result, commits):
        commit = f"c{len(counts)}"
        counts[commit] = commits
        (tmp_path / where).mkdir(exist_ok=True)
        machine = (
            MACHINE | {"commit": commit}
            if where.startswith("nvidia")
            else {k: v for k, v in MACHINE.items() if k != "gpu"} | {"commit": commit}
        )
        (tmp_path / where / f"2026-11-24-{len(counts)}-{commit}.json").write_text(
            json.dumps({"machine": machine} | result)
        )

    return file


def test_the_guide_has_the_newest_table_that_is_not_too_old(aged):
    empty = f"before\n{docs.BEGIN}{docs.END}after\n"
    text = docs.guide(empty, "then")
    assert "is recent enough" in text and text.startswith("before\n") and text.endswith("after\n")
    for int8, commits in ((0.9, 5), (0.98, 4), (0.95, 81)):
        aged("nvidia-x", "accuracy", {"accuracy": table(int8=int8)}, commits)
    text = docs.guide(text, "then")
    assert (
        "is recent enough" not in text
        and "0.9800" in text
        and "0.9000" not in text
        and "0.9500" not in text
        and "falls short" not in text
    )
    assert "commit c1, 4 commits to" in text
    assert docs.guide(text, "then") == text
    assert "fog" in gpu_sections.accuracy_section(table())


def test_rows_that_another_program_left_are_of_another_run(aged):
    result = table()
    result["rows"].append(row("fovea", "int8", 0.5, 0.5, "examples/photos", commit="e069c17e49b5"))
    assert "0.5000" not in gpu_sections.accuracy_section(result) and len(gpu_sections.shortfalls(result)) == 0


IMAGE = [
    {"images": "JPEG", "operation": "decode", "engine": engine, "images_per_second": rate}
    for engine, rate in (("fovea", 9), ("pillow", 10))
]


def test_what_is_too_old_is_named_and_not_shown(aged, monkeypatch):
    aged("zen", "image", {"image": IMAGE}, 20)
    aged("zen", "robustness", {"robustness": {}}, 101)
    text = page("then")
    assert "0.90x" in text and "20 commits to `src/image/` ago (20 are allowed)" in text
    assert "Too old to be shown: robustness (c1: 101 commits, 100 are allowed)." in text
    assert docs.too_old(docs.machines("then")) == ["zen: image"]  # by now
    monkeypatch.setattr(ages, "GRACE", 11)
    assert docs.too_old(docs.machines("then")) == []


def test_a_result_of_no_commit_of_this_history_ends_it(aged, monkeypatch):
    aged("zen", "image", {"image": IMAGE}, 1)
    monkeypatch.setattr(ages, "commits", lambda measured, until, folders: None)
    with pytest.raises(SystemExit, match="measured at commit c0, which is not an ancestor of then"):
        page("then")


@pytest.mark.parametrize("commit", ["unknown", "d202b969dd3c-modified", "0123456789ab"])
def test_commits_that_are_none_have_no_age(commit):
    assert ages.commits(commit, "HEAD", ("src",)) is None


def test_a_name_without_a_limit_ends_it():
    with pytest.raises(SystemExit, match="gives no age limit for `novelty` on a CPU"):
        ages.age("novelty", {"commit": "abc"}, "HEAD")


def test_every_section_has_a_limit():
    known = {name for _, name in ages.age_limits()}
    assert set(sections.SECTIONS) | set(docs.LABORATORY) | {"gate_record"} <= known


def bench_row(precision, batch, rate):
    return {
        "precision": precision,
        "batch_size": batch,
        "device_images_per_second": rate,
        "images_per_second": rate / 2,
    }


def test_the_encoder_stands_beside_the_peers_of_its_own_run_in_the_same_precision(aged):
    peers = [
        {
            "case": "bf16 batch 8",
            "peer": "torch.compile max-autotune",
            "precision": "bf16",
            "batch": 8,
            "images_per_second": 100.0,
        },
        {
            "case": "int8 batch 8",
            "peer": "torchao dynamic, torch.compile max-autotune",
            "precision": "int8",
            "batch": 8,
            "skipped": "no torchao",
        },
    ]
    aged(
        "nvidia-x",
        "gpu_bench",
        {"gpu_bench": [bench_row("bf16", 8, 90), bench_row("int8", 8, 200)], "torch_encoder": peers},
        3,
    )
    text, pictures = page("then"), drawn("then")
    assert "| fovea | bf16 | 8 | 90 | 0.90x |" in text and "| fovea | int8 | 8 | 200 | no peer | 2.00x |" in text
    assert (
        "torchao dynamic, torch.compile max-autotune int8 batch 8: no torchao; transformers eager bf16: the run has neither"
        in text
    )
    assert pictures["encoder-nvidia-x.svg"].title == "X: bf16 0.90x torch.compile, int8 2.00x torch.compile bf16"
    aged("nvidia-x", "gpu_bench", {"gpu_bench": [bench_row("bf16", 8, 95)]}, 2)
    text, pictures = page("then"), drawn("then")
    assert (
        "| fovea | bf16 | 8 | 95 | no peer |" in text and not pictures
    )  # those of the run before are none of this one


def test_eight_bits_win_nothing_beside_sixteen():
    entry = {"images": 9, "mean_bytes": 46e3, "decode_only": 9.0, "gpu_only": 9.0, "minimum_cosine_to_cpu": 1.0}
    peers = [
        {"peer": "nvJPEG, torch.compile bf16", "images_per_second": 100.0},
        {"peer": "DataLoader, torch.compile bf16", "skipped": "it broke"},
    ]
    text = gpu_sections.gpu_end_to_end_section(
        [
            entry | {"precision": "bf16", "end_to_end": 90.0, "peers": peers},
            entry | {"precision": "int8", "end_to_end": 200.0},
        ]
    )
    assert (
        "| fovea embed | bf16 | 90 | 0.90x |" in text
        and "| fovea embed | int8 | 200 | no peer (2.00x those in bf16) |" in text
    )
    assert "DataLoader, torch.compile bf16: it broke" in text
    rate = {"cosine_least": 1.0, "cosine_mean": 1.0, "photos_images_per_second": 1.0, "written_images_per_second": 1.0}
    text = sections.features_section(
        [
            {
                "model": "m",
                "layer": "last",
                "images": 9,
                "transformers_dtype": "bfloat16",
                "transformers_images_per_second": 50.0,
                "compiled_images_per_second": 100.0,
                "rows": [
                    rate | {"precision": "bf16", "features_images_per_second": 80.0},
                    rate | {"precision": "int8", "features_images_per_second": 150.0},
                ],
            }
        ]
    )
    assert (
        "| 80 | 0.80x |" in text
        and "| 150 | no peer (1.50x those in bf16) |" in text
        and "| torch.compile bf16 |  |  | 100 | 1.00x |" in text
    )
    text = sections.features_section(
        [{"model": "m", "layer": "last", "images": 9, "rows": [{"precision": "bf16", "skipped": "no memory"}]}]
    )
    assert "fovea bf16: no memory" in text and "transformers" not in text.split("Peers")[1]


def test_the_readme_has_the_picture_of_a_gpu_or_else_of_cpus():
    class Drawn:
        title = "0.9 to 2x"

    text = f"a\n{docs.BEGIN}{docs.END}b\n"
    assert docs.readme(text, {"encoder-cpus.svg": Drawn, "encoder-nvidia-x.svg": Drawn}) == (
        f"a\n{docs.BEGIN}![0.9 to 2x](docs/plots/encoder-nvidia-x.svg)\n{docs.END}b\n"
    )
    assert "encoder-cpus.svg" in docs.readme(text, {"encoder-cpus.svg": Drawn}) and docs.readme(text, {}) == text


def test_a_search_or_text_that_loses_is_told_as_one_that_wins():
    times = [
        {"queries": 1, "engine": engine, "seconds": seconds, "least_seconds": seconds}
        for engine, seconds in (("Fovea", 2.0), ("torch", 1.0))
    ]
    text = sections.search_times_section(
        [
            {
                "rows": 4,
                "dimension": 2,
                "k": 1,
                "threads": 1,
                "results": times,
                "skipped": [{"engine": "faiss", "why": "it is too large"}],
            }
        ]
    )
    assert (
        "| 1 | Fovea | 2.000 | 0.50x |" in text
        and "| 1 | torch | 1.000 | 1.00x |" in text
        and "faiss: it is too large" in text
    )
    assert "first 16 queries" in text
    rows = [
        {"engine": "fovea, Encoder.embed_text", "precision": "bf16", "batch": 32, "from_texts_per_second": 50.0},
        {
            "engine": "transformers sdpa",
            "precision": "bf16",
            "batch": 32,
            "from_texts_per_second": 100.0,
            "from_tokens_per_second": 200.0,
        },
        {"engine": "transformers sdpa", "precision": "int8", "skipped": "only its fp32 and bf16 are measured"},
        {"engine": "fovea embed --text", "precision": "bf16", "batch": "all", "from_texts_per_second": 80.0},
    ]
    text = sections.texts_section([{"model": "m", "device": "cuda", "texts": 9, "tokens": 64, "rows": rows}])
    assert (
        "| 32 | 50 | 0.50x |" in text
        and "| all | 80 | 0.80x |" in text
        and "transformers sdpa int8: only its fp32" in text
    )


def test_cards_that_there_are_no_longer_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_sections, "CARDS", tmp_path)
    (tmp_path / "pool.cpp").write_text('Card card = {.name = "pool"};')
    figure = {
        "description": "a problem",
        "seconds": 1e-5,
        "sustained": 1e-5,
        "sm_mhz": 1980,
        "watts": 400,
        "flops": 1e9,
        "bytes": 1e6,
        "matrix_ceiling": 8e14,
        "peers": [],
    }
    result = {
        "copy_bytes_per_second": 4e12,
        "bf16_flops": 8e14,
        "e4m3_flops": 1.5e15,
        "figures": [figure | {"card": card} for card in ("pool", "pool_e4m3")],
    }
    text = gpu_sections.kernels_section(result)
    assert "| pool | a problem | no peer | - |" in text and "pool_e4m3" not in text


def test_a_kernel_that_misses_its_gate_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_sections, "CARDS", tmp_path)
    (tmp_path / "attention.cpp").write_text('"attention"')
    peer = {
        "name": "cuDNN",
        "seconds": 6e-6,
        "ratio": 0.65,
        "sustained_ratio": 0.7,
        "wrong": "",
        "ambiguous": False,
        "same_result": True,
    }
    figure = {
        "card": "attention",
        "description": "(256,16,256,72)",
        "seconds": 1e-5,
        "sustained": 1e-5,
        "sm_mhz": 1980,
        "watts": 400,
        "flops": 1e9,
        "bytes": 1e6,
        "matrix_ceiling": 8e14,
        "peers": [peer],
        "gates": [{"peer": "cuDNN", "limit": 0.9, "reading": 0.65, "passed": False}],
    }
    text = gpu_sections.kernels_section(
        {"copy_bytes_per_second": 4e12, "bf16_flops": 8e14, "e4m3_flops": 1.5e15, "figures": [figure]}
    )
    assert "| attention | (256,16,256,72) | 0.65x | cuDNN: 0.65x of 0.90x, MISSED |" in text


def test_missed_gates_and_longer_times_are_told():
    gate = {"peer": "cuDNN", "limit": 0.9, "reading": 0.65, "passed": False}
    change = {
        "what": "attention b1",
        "verdict": "SLOWER",
        "change": 0.4,
        "peer": "cuDNN 9",
        "peer_change": 0.01,
        "file": "2026.json",
        "reason": "",
    }
    kernels = {
        "figures": [{"card": "attention", "case": "b1", "gates": [gate]}, {"card": "attention", "case": "b2", "gates": [gate | {"passed": True}]},
                    {"card": "pool", "case": "b1", "gates": []}],
        "times": [change, change | {"what": "pool b1", "verdict": "not judged", "reason": "there is no earlier figure of it"},
                  change | {"what": "pool b2", "verdict": "steady"}],
    }  # fmt: skip
    found = speed_gates.summary(kernels)
    assert found["cases"] == 2 and found["missed"] == [
        {"card": "attention", "case": "b1", "peer": "cuDNN", "reading": 0.65, "limit": 0.9}
    ]
    assert [one["what"] for one in found["slower"]] == ["attention b1"] and len(found["not_judged"]) == 1
    text = speed_gates.describe(kernels)
    for part in ("1 of 2 cases reach all", "attention b1 misses: 0.65x of cuDNN, at least 0.90x asked", "1 of 3 times are more than 5% longer",
                 "attention b1: +40.0%, cuDNN 9 +1.0% (2026.json)", "Not judged: pool b1, there is no earlier figure of it"):  # fmt: skip
        assert part in text
    assert speed_gates.describe({"figures": [{"card": "pool"}]}) == ""


def test_times_are_compared_with_the_results_of_the_same_gpu_but_with_no_own(tmp_path, monkeypatch):
    for name, gpu in (("old", "GPU A"), ("own", "GPU A"), ("other", "GPU B")):
        path = tmp_path / "results/gpu" / f"2026-01-01-1-{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": {"gpu": {"name": gpu}}}))
    monkeypatch.setattr(speed_gates, "RESULTS", tmp_path / "results")
    for gpu, names in (("GPU A", ["2026-01-01-1-old.json"]), ("GPU C", None), (None, None)):
        monkeypatch.setattr(speed_gates.machine, "gpu", lambda gpu=gpu: {"name": gpu} if gpu else {})
        with speed_gates.earlier_results(tmp_path / "results/gpu/2026-01-01-1-own.json") as earlier:
            assert ([path.name for path in pathlib.Path(earlier).iterdir()] if names else earlier) == (names or "none")


def test_the_front_page_has_the_figures_beside_the_best_peer_of_the_same_precision(aged):
    peers = [
        {"case": "bf16 batch 8", "peer": name, "precision": "bf16", "batch": 8, "images_per_second": rate}
        for name, rate in (("torch.compile", 100.0), ("transformers", 50.0))
    ]
    ours = [bench_row("bf16", 1, 9), bench_row("bf16", 8, 90), bench_row("int8", 8, 200)]
    aged("nvidia-x", "gpu_bench", {"gpu_bench": ours, "torch_encoder": peers}, 3)
    aged("zen", "image", {"image": IMAGE}, 1)
    aged(
        "zen",
        "encoder",
        {"encoder": [{"engine": "fovea", "precision": "fp32", "batch": 1, "images_per_second": 5}]},
        21,
    )
    shown = docs.machines("then")
    text = docs.front_page(drawn("then"), shown, "then")
    link = "[nvidia-x](performance/nvidia-x.md)"
    for row in (
        f"| encoder, pixels on the GPU, bf16, batch 1 | {link} | 9.00 images/s | no peer |  |  | 2026-11-24 | c0 |",
        f"| encoder, pixels on the GPU, bf16, batch 8 | {link} | 90.0 images/s | torch.compile | 100 images/s | 0.90x |",
        f"| encoder, pixels on the GPU, int8, batch 8 | {link} | 200 images/s | no peer |",
        "| JPEG, decode, one core | [zen](performance/zen.md) | 9.00 images/s | pillow | 10.0 images/s | 0.90x |",
        "- [nvidia-x](performance/nvidia-x.md): 1 cores, a CPU (), 1 GiB. a GPU.",
    ):
        assert row in text, row
    assert "fp32" not in text and text.index("nvidia-x") < text.index(
        "[zen]"
    )  # what is too old is not shown here, either


def test_a_search_is_beside_the_fastest_peer():
    def times(engine, seconds):
        return {"queries": 1, "engine": engine, "seconds": seconds}

    result = {
        "rows": 4,
        "results": [times("Fovea", 2.0), times("fovea similar", 4.0), times("torch", 1.0), times("numpy", 9.0)],
    }
    assert list(headlines.search_times([result])) == [
        ("exact search, 1 query in 4 rows", "2.00 s", "torch", "1.00 s", "0.50x")
    ]
    assert list(headlines.search_times([{"rows": 4, "results": [times("Fovea", 2.0)]}]))[0][2:] == ("no peer", "", "")


@pytest.fixture
def checked(aged, tmp_path_factory, monkeypatch):
    """A checkout whose documents are written; what --check says of it."""
    aged("nvidia-x", "gpu_bench", {"gpu_bench": [bench_row("bf16", 8, 90)], "torch_encoder": [
        {"case": "bf16 batch 8", "peer": "torch.compile", "precision": "bf16", "batch": 8, "images_per_second": 100.0}]}, 3)  # fmt: skip
    commit, place = "0123456789ab", tmp_path_factory.mktemp("checkout")
    counted = ages.commits
    monkeypatch.setattr(
        ages,
        "commits",
        lambda measured, until, folders: counted(measured, "then" if until == commit else until, folders),
    )
    monkeypatch.setattr(ages, "base_commit", lambda: commit)
    monkeypatch.setattr(ages, "git", lambda *words: type("Done", (), {"returncode": 0}))
    for name, value in (("ROOT", ""), ("PAGE", "performance.md"), ("MACHINES", "performance"), ("PLOTS", "plots"), ("GUIDE", "gpu.md"),
                        ("README", "README.md"), ("RECORDS", "records")):  # fmt: skip
        monkeypatch.setattr(docs, name, place / value)
    for name in ("gpu.md", "README.md"):
        (place / name).write_text(f"{docs.BEGIN}{docs.END}")
    assert docs.write() == 0 and docs.check() == 0
    return place


@pytest.mark.parametrize("name, told", [
    ("performance.md", "performance.md does not match bench/results/"),
    ("performance/nvidia-x.md", "performance/nvidia-x.md does not match bench/results/"),
    ("plots/encoder-nvidia-x.svg", "plots/encoder-nvidia-x.svg does not match"), ("README.md", "README.md does not match"),
    ("performance/gone.md", "performance/gone.md was not written by bench/report"),
    ("plots/gone.svg", "plots/gone.svg was not written by bench/report"),
])  # fmt: skip
def test_a_document_that_the_results_do_not_say_fails_the_check(checked, capsys, name, told):
    path = checked / name
    path.write_text((path.read_text() if path.exists() else "").replace("90", "91") + " ")
    assert docs.check() == 1 and told in capsys.readouterr().out
    assert docs.write() == 0 and docs.check() == 0


def test_what_is_overdue_fails_the_check(checked, capsys, monkeypatch):
    monkeypatch.setattr(ages, "commits", lambda measured, until, folders: 51 if until == "HEAD" else 3)
    assert (
        docs.check() == 1 and "shows a result that has become too old: nvidia-x: the encoder" in capsys.readouterr().out
    )
