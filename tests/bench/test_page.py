"""python3 bench/report --page: which sections appear, that nothing in a file becomes markup, and what is left out."""

import copy
import json
import os
import random
import re
import subprocess
import sys

import pytest
from page_files import (
    COMPARE,
    PROFILE,
    ROOT,
    RUN,
    bench,
    candidate,
    gates,
    ledger,
    on_day,
    one_of_each,
    sections,
    without_breaks,
)
from report import page, shapes
from report.shapes import Damaged


def test_it_has_a_section_for_what_is_there_and_no_other(folder):
    with pytest.raises(Damaged, match="there is nothing to show: these folders hold no results"):
        folder.made()
    folder.put({"below/profile.json": on_day(1, **PROFILE)})
    assert sections(folder.html()) == ["profiles"]
    folder.put(one_of_each())
    html, count, left_out = folder.made()
    assert sections(html) == [
        "roofline",
        "encoder",
        "profiles",
        "gates",
        "compare",
        "evolve",
        "history",
        "sanitizers",
        "verdicts",
        "judge",
    ]
    assert count == 9 and left_out == []
    for part in (
        "driver 9", "Warps wait.", "more stages", "half of the roof", "MISSED", "SLOWER", "1.0190 to 1.0230", "seed 7",
        "level mma",
        '<td data-of="B">wmma</td>', '<td data-of="case">b1024</td>', '<td data-of="device">cuda</td>',
        "GPU &lt;X&gt;, 2026-11-21 at c0ffee",
        "2 errors", "the last tile is wrong", "python3 mine.py proposer", "spills new", "l2 +50.0%", "slower sources",
        'good">SLOWER</span> 2', 'bad">SAME</span> 1', "500 TFLOP/s", "2.00x cuBLASLt &amp; co", "<title>", "<desc>",
        'role="img"',
        "<code>x &lt; y;</code>", "Proposed because: it waits",
    ):  # fmt: skip
        assert part in without_breaks(html), part


def test_it_needs_no_network_and_no_script(folder):
    html = folder.html(bench_json=on_day(1, **bench()), profile_json=on_day(1, **PROFILE))
    for part in ("http:", "https:", "<script", "@import", "url(", "<img", "<link"):
        assert part not in html
    assert "default-src 'none'" in html


MARKUP = "<script>\"'&"


def as_markup(value, name=""):
    """The same with every text that is not empty, and every name that is the file's own, as markup."""
    if isinstance(value, str):  # code is shown as such
        return value if name == "kind" or not value else MARKUP + ("`<script>`<script>" if "`" in value else "")
    if isinstance(value, list):
        return [as_markup(part) for part in value]
    if isinstance(value, dict):
        named = name in ("parameters", "stalls", "seen", "change", "figures")
        return {(MARKUP if named else "") + key: as_markup(part, key) for key, part in value.items()}
    return value


def test_nothing_in_a_file_becomes_markup(folder):
    for name, content in one_of_each().items():
        lines = (
            [json.dumps(as_markup(json.loads(line))) + "\n" for line in content.splitlines()]
            if isinstance(content, str)
            else as_markup(content)
        )
        folder.put({name: "".join(lines) if isinstance(content, str) else lines})
    other = {key: value for key, value in RUN.items() if key != "level"}
    folder.put({
        "again.json": as_markup(on_day(1, **bench())),  # a history
        "other.jsonl": ledger(candidate(1, True, change={"<script>": 1}, kept=True, speed_up=1.1),
        run=as_markup(other)),
        "<script>.json": "{}", "<script>.jsonl": ledger() + "<script>\n\n<script>\n", "kind.json": {"kind": "<script>"},
    })  # fmt: skip
    html, count, left_out = folder.made()
    assert count == 11 and len(left_out) == 3
    assert "<script" not in html and "\"'&" not in html and "&lt;script&gt;&quot;&#x27;&amp;" in html


def test_damaged_and_foreign_files_are_left_out_and_named(folder):
    folder.put({"profile.json": on_day(1, **PROFILE)})
    sound = folder.html()
    bad = {
        "cut.json": json.dumps(on_day(1, **PROFILE))[:200], "foreign.json": {"name": "package"}, "list.json": "[1]",
        "other.json": {"kind": "recipe"},
        "deep.json": '{"kind": ' + "[" * 100_000 + "]" * 100_000 + "}", "wrong.json": on_day(2, kind="gates",
        levels=[{"card": 1}]),
        "negative.json": on_day(1, **bench(-1)), "evolve.jsonl": '{"kind": "candidate"}\n', "bytes.json": "\udcff",
        "large.json": " " * (5 << 20),
    }  # fmt: skip
    for name, content in bad.items():
        (folder.path / name).write_bytes(
            (content if isinstance(content, str) else json.dumps(content)).encode(errors="surrogateescape")
        )
    html, count, left_out = folder.made()
    assert count == 1 and len(left_out) == len(bad) and sections(html) == ["profiles", "left-out"]
    for line in left_out:
        assert line.startswith(str(folder.path)) and "\n" not in line
    for name in bad:
        assert name in html
    assert sound.partition("<main>")[2].partition("</section>")[0] in html
    (folder.path / "profile.json").unlink()
    with pytest.raises(Damaged):
        folder.made()


def test_the_newest_is_shown_and_the_history_shows_all(folder):
    html = folder.html(
        b_json=on_day(1, **bench(0.002)), a_json=on_day(2, **bench(0.001)),
        gatesb_json=on_day(1, **gates(0.111, False)), gatesa_json=on_day(2, **gates(0.555, True)))  # fmt: skip
    assert "-50.0%" in html  # since the first result, by date and not by name
    assert "1,000 TFLOP/s" in html and "500 TFLOP/s" not in html and "1 of 1 kernels" in html and "MISSED" not in html


def test_within_a_day_the_tenth_run_is_newer_than_the_second(folder):
    for run, reading in ((2, 0.111), (10, 0.555)):
        (folder.path / f"2026-11-21-{run}-c0ffee").mkdir()
        folder.put({f"2026-11-21-{run}-c0ffee/gates.json": on_day(1, **gates(reading))})
    html = folder.html()
    assert ">56%<" in html and ">11%<" not in html


def test_a_comparison_of_another_case_or_device_stands_beside_it(folder):
    first = on_day(1, **COMPARE)
    elsewhere = copy.deepcopy(first)
    elsewhere["machine"]["gpu"]["name"] = "GPU <Y>"
    html = folder.html(**{"1_json": first, "2_json": first | {"case": "b2048"}, "3_json": elsewhere, "4_json": first})
    assert html.count("1.0210</td>") == 3 and "b2048" in html and "GPU &lt;Y&gt;" in html


def test_gates_are_of_a_kernel(folder):
    levels = gates(0.1, False, "chosen")
    levels["levels"] += gates(0.5, True, "stands_in")["levels"]
    html = without_breaks(folder.html(**{"1_json": on_day(1, **levels)}))
    assert "1 of 2 kernels" in html and "All 2 gates" in html
    assert html.count("wmma, chosen<") == 2 and html.count("wmma, stands_in<") == 1  # among those that were missed, too
    html = without_breaks(folder.html(**{"2_json": on_day(2, **gates(0.5, True, "chosen_later"))}))
    assert "1 of 1 kernels" in html and "stands_in" not in html


def test_a_figure_is_a_share_by_its_name(folder):
    figures = {
        "dram": 0.3, "matrix_units": 1.0, "waves": 0.4, "eligible_warps": 0.6, "registers": 96.0, "full_wait": 0.25,
        "stall_membar": 0.02,
        "seconds": 5e-6, "occupancy_reached": 1.0, "dram_bytes_per_second": 3.538e12, "dram_bytes": 2.5e8,
    }  # fmt: skip
    html = folder.html(profile_json=on_day(1, **PROFILE | {"figures": figures}))
    for name, shown in {
        "dram": "30%", "matrix units": "100%", "waves": "0.400", "eligible warps": "0.600", "registers": "96",
        "full wait": "25%",
        "stall membar": "2.0%", "seconds": "5.00 µs", "occupancy reached": "100%",
        "dram bytes per second": "3,538 GB/s", "dram bytes": "250 MB",
    }.items():  # fmt: skip
        assert f'{name}</td><td class="n" data-of="value">{shown}</td>' in html, name


def test_what_cannot_be_read_is_named(folder):
    folder.put({"profile.json": on_day(1, **PROFILE)})
    (folder.path / "loop.json").symlink_to("loop.json")
    os.mkfifo(folder.path / "pipe.json")
    (folder.path / "below" / "again").symlink_to(folder.path)
    (folder.path / "closed").mkdir(mode=0)
    for name, told in (("none", "/none: no such file or folder"), ("loop.json", "/loop.json: "), ("n" * 300,
    "nnn: "), ("pipe.json", "not a regular file"),
                       ("closed",
                       "no results" if os.geteuid() == 0 else "/closed: this folder cannot be listed")):  # fmt: skip
        with pytest.raises(Damaged, match=told):
            page.page([folder.path / name])
    _, count, left_out = folder.made()
    assert count == 1 and [line for line in left_out if "closed" not in line] == [
        f"{folder.path}/loop.json: not a regular file", f"{folder.path}/pipe.json: not a regular file"]  # fmt: skip
    (folder.path / "closed").chmod(0o755)


def test_a_file_of_two_names_is_one_result(folder):
    folder.put({"bench.json": on_day(1, **bench())})
    (folder.path / "link.json").symlink_to("bench.json")
    html, count, _ = page.page([folder.path, folder.path / "bench.json", folder.path / "below/../link.json"])
    assert count == 1 and "over 2 results" not in html


def test_a_part_that_is_damaged_takes_no_other_along(folder):
    part = {
        "encoder": [{"case": "batch nan", "images_per_second": 5}],
        "gpu_bench": [{"batch": 8, "images_per_second": 10}],
    }
    folder.put({"bench.json": on_day(1, **bench(), **part)})
    html, _, left_out = folder.made()
    assert sections(html) == ["roofline", "encoder", "history", "left-out"] and "batch 8" in html
    assert len(left_out) == 1 and 'in part: its "case" is "batch nan"' in left_out[0]


@pytest.mark.parametrize("stalls, told", [
    ('{"math_pipe": 1e308, "wait": 1e308}', "1e308 is not a plausible measurement"), ('{"wait": -0.5}',
    "its &quot;wait&quot; is -0.5, but must be a share from 0 to 1"),
    ('{"wait": 7}', "but must be a share from 0 to 1"), ('{"wait": 1e-310}', "1e-310 is not a plausible measurement"),
    ('{"wait": NaN}', "NaN is not a plausible measurement"), ('{"wait": true}', "but must be a share"),
    ('{"wait": 1' + "0" * 400 + "}", "is not a plausible measurement"), ('{"wait": 1' + "0" * 5000 + "}",
    "is not a plausible measurement"),
])  # fmt: skip
def test_what_nothing_measures_is_left_out(folder, stalls, told):
    text = json.dumps(on_day(2, **PROFILE)).replace(json.dumps(PROFILE["stalls"]), stalls)
    html = folder.html(sound_json=on_day(1, **PROFILE), bad_json=text)
    assert told in html
    for part in ("width:nan", "width:-nan", "width:inf", "nan%", "inf%"):
        assert part not in html


def test_of_results_of_one_day_the_last_by_name_is_the_newest(folder):
    first = on_day(1, **bench(bytes=9e9))  # so that memory bounds it
    second = on_day(1, **bench(bytes=9e9, card="gemm_b"))
    second["kernels"]["copy_bytes_per_second"] = 5e12
    last = on_day(2, kind="judge", task="t", answer="a", verdict="RIGHT")
    del last["machine"]["gpu"]["driver"]
    html = folder.html(run1_json=first, run2_json=second, judge_json=last)
    assert "copy 5.00 TB/s" in html and "driver 9; newest result of 2026-11-22" in html  # of who says it last


@pytest.mark.parametrize("words, group", [
    ("gemm (8, 8) = (u8 x i8), K 8, bf16", "Matrix products of 8 bits"), ("gemm (8, 8) = (bf16 x bf16)",
    "Matrix products of 16 bits"),
    ("attention of a test", "Attention"), ("rows", "Rows, pixels and pooling"),
])  # fmt: skip
def test_kernels_are_grouped_by_what_they_compute(folder, words, group):
    assert f"{group} on" in folder.html(bench_json=on_day(1, **bench(description=words, matrix_ceiling=0)))


def test_profiles_of_other_sources_are_set_apart(folder):
    """What was made slow on purpose must not be taken for a kernel of the program."""
    program = PROFILE | {"sources": "", "seconds": 7e-6}
    html = folder.html(planted_json=on_day(1, **PROFILE), own_json=on_day(1, **program))
    before, _, others = html.partition("<h3>Of other sources")
    assert (
        "<b>7.00 µs</b>" in before and "<b>5.00 µs</b>" in others and "<b>7.00" not in others and "sources s" in others
    )
    assert "Of other sources" not in folder.html(planted_json=on_day(1, **program))


def test_what_was_made_to_go_wrong_is_shown(folder):
    misdeeds = [
        {
            "how": "endless",
            "exit_code": 0,
            "passed": True,
            "invalid": [{"failed_at": "process", "why": "did not end within 20 s"}],
        },
        {"how": "hang", "exit_code": None, "passed": False, "invalid": []},
    ]
    gate = {"what": "sources with it", "card": "gemm_a", "before": {"exit_code": 0, "levels": []},
            "after": {"exit_code": 1, "levels": [{"kernel": "k <1>", "level": "", "passed": False}]}}  # fmt: skip
    choice = {"what": "slow sources", "card": "attention", "gates": {"exit_code": 1, "levels": []},
              "before": {"level": "wgmma", "kernel": "a", "notices": []}, "after": {"level": "mma", "kernel": "b",
              "notices": ["it runs at level mma"]}}  # fmt: skip
    folder.put(
        {
            "hostile.json": on_day(1, kind="hostile", misdeeds=misdeeds),
            "gates.json": on_day(1, kind="gate_planted", gates=gate, choice=choice),
        }
    )
    html, _, left_out = folder.made()
    assert left_out == [] and sections(html) == ["trials"]
    for part in (
        "process: did not end within 20 s",
        'bad">FAILED',
        'good">passed',
        "k &lt;1&gt;",
        "it runs at level mma",
        "slow sources",
    ):
        assert part in html, part
    folder.put(
        {"gates.json": on_day(1, kind="gate_planted", gates={"what": "half", "card": "c", "before": gate["before"]})}
    )
    assert "the program&#x27;s" not in folder.html()  # what is damaged is left out as a whole


def test_it_says_where_a_speed_up_is_within_the_spread(folder):
    def judged(answer, seconds):
        figures = {
            "speed_up_over_model": 1e-4 / seconds,
            "seconds": seconds,
            "spread": 0.25,
            "model_seconds": 1e-4,
            "model_spread": 0.1,
        }
        return {"task": "t", "answer": answer, "verdict": "RIGHT", "figures": figures}

    html = folder.html(judge_json=on_day(1, kind="judge", answers=[judged("fast", 5e-5), judged("alike", 8e-5)]))
    assert "2.00x (spread 25%, Model&#x27;s 10%)" in html and "1.25x AMBIGUOUS (spread 25%, Model&#x27;s 10%)" in html


def test_what_commands_print_is_of_the_same_kind_as_what_they_file(folder):
    folder.put({"printed.json": on_day(1, **gates()) | {"kind": "fovea.kernel.gates"}})
    assert sections(folder.html()) == ["gates"]


def damaged(value, chance):
    """The same with a part of another kind, or of another value."""
    if isinstance(value, dict):
        return {key: damaged(line, chance) for key, line in value.items() if chance.random() > 0.01}
    if isinstance(value, list):
        return [damaged(line, chance) for line in value]
    others = (None, True, -1, 0, 1e29, 1e-29, 7, "", "x", [], {}, [1], {"a": 1}, -0.0, "\ud800", "9" * 9)
    return chance.choice(others) if chance.random() < 0.03 else value


@pytest.mark.parametrize("seed", range(80))
def test_any_damage_is_left_out_or_shown_with_numbers(folder, seed):
    chance = random.Random(seed)
    for name, content in one_of_each().items():
        lines = (
            [damaged(json.loads(line), chance) for line in content.splitlines()]
            if isinstance(content, str)
            else [damaged(content, chance)]
        )
        folder.put({name: "".join(json.dumps(line) + "\n" for line in lines)})
    try:
        html = folder.html()
    except Damaged:
        return
    assert not re.search(r'(?:x|y|cx|cy|r|points)="[^"]*(?:nan|inf)|width:-?(?:nan|inf)', html)
    html.encode()


def test_every_committed_result_is_shown_whole():
    html, count, left_out = page.page([ROOT / "bench/results"])
    assert left_out == [] and count > 100 and len(sections(html)) == len(page.SECTIONS)


def test_a_shape_is_asked_of_every_part():
    with pytest.raises(Damaged, match='it has no "b"'):
        shapes.check({"a": 1}, {"a": "number", "b": "text"})
    with pytest.raises(Damaged, match='its "c" must be a list'):
        shapes.check({"c": 1}, {"c?": ["text"]})
    shapes.check({"c": None, "more": object()}, {"c?": ["text"]})


def test_the_command_replaces_a_page_and_no_other_file(folder):
    def run(*words):
        command = [sys.executable, ROOT / "bench/report", "--page", folder.path / "out.html", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder.path)

    folder.put({"bench.json": on_day(1, **bench()), "cut.json": "{", "out.html": "mine"})
    done = run(folder.path)
    assert (
        done.returncode == 1
        and "was not written by Fovea" in done.stderr
        and (folder.path / "out.html").read_text() == "mine"
    )
    done = run(folder.path, "--overwrite")
    assert done.returncode == 0 and "left out: " in done.stderr and "from 1 file of results" in done.stderr
    assert run(folder.path).returncode == 0  # its own page
    assert sorted(path.name for path in folder.path.iterdir()) == ["below", "bench.json", "cut.json", "out.html"]
    done = run(folder.path / "none")
    assert done.returncode == 1 and "none: no such file" in done.stderr and "Traceback" not in done.stderr
