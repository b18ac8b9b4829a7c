"""python3 bench/report --page: what it says of ledgers of evolve."""

import json
import re

import pytest
from page_files import PROFILE, RUN, candidate, ledger, on_day

THREE = (
    candidate(1, True, change={"stages": 3}, kept=True, speed_up=1.05),
    candidate(2, False, change={"stages": 9}, failed_at="resources", why="too much"),
    candidate(3, True, change={"stages": 4}, speed_up=0.8),
)


def test_a_ledger_says_what_became_of_candidates(folder):
    html = folder.html(
        evolve_jsonl=ledger(*THREE) + '{"kind": "candidate", "number": 4, "gener'
    )  # killed while it wrote
    for part in (
        "3 candidates, 67% valid", "median 0.925x", "<b>1.050x</b>", "1 at resources", "1. stages 3: 1.050x, kept",
        "2. stages 9: invalid at resources, too much", "node faster kept", "node invalid", "node slower", "edge best",
        "interrupted",
    ):  # fmt: skip
        assert part in html, part
    html = folder.html(evolve_jsonl=ledger(*THREE, {"kind": "end", "why": "no more proposals"}))
    assert "It ended: no more proposals" in html and "interrupted" not in html


def test_a_ledger_of_what_never_ran_calls_nothing_valid(folder):
    html = folder.html(evolve_jsonl=ledger(candidate(0, None, kept=True), candidate(1, False, failed_at="compile")))
    for part in (
        "2 candidates, 0% valid, 1 not judged",
        "0. the start: not judged, kept",
        "1 at compile",
        "node untimed",
    ):
        assert part in html, part


@pytest.mark.parametrize("more, told", [
    ([], "median 1.050x, best <b>1.050x</b> (number 1: stages 3)"),
    ([{"valid": True, "speed_up": 1.04}, {"why": "budget", "best": 1}],
    "best <b>1.040x</b> when number 1 (stages 3) was measured again, 1.050x before"),
    ([{"valid": False, "speed_up": 0}, {"why": "budget", "best": 2}], "best <b>1.200x</b> (number 2: stages 4)"),
     # the run says so
    ([{"valid": False, "speed_up": 0}, {"why": "interrupted", "best": 0}], "best <b>1.000x</b> (number 0: the start)"),
     # 1 has failed
])  # fmt: skip
def test_the_best_of_a_ledger_is_the_one_that_was_kept(folder, more, told):
    lines = [
        candidate(0, True, kept=True, speed_up=1), candidate(1, True, change={"stages": 3}, kept=True, speed_up=1.05,
        cost_seconds=2),
        candidate(2, True, change={"stages": 4}, kept=False, speed_up=1.2),
    ]  # fmt: skip
    kinds = ({"kind": "confirmation", "number": 1, "cost_seconds": 1}, {"kind": "end"})
    lines += [kind | entry for kind, entry in zip(kinds, more, strict=False)]
    html = folder.html(evolve_jsonl=ledger(*lines))
    assert told in html and f"Cost: {'3.00' if more else '2.00'} s" in html


def test_a_parent_may_be_of_the_same_generation(folder):
    lines = [
        {"kind": "candidate", "number": i, "generation": min(i, 1), "parents": [i - 1] if i else [], "valid": True}
        for i in range(3)
    ]
    edges = re.findall(r'<polyline points="(\S+) \S+" class="edge"', folder.html(evolve_jsonl=ledger(*lines)))
    assert len(edges) == 3 and edges.count(edges[0]) == 1  # the first line is the first candidate's


def test_a_ledger_that_goes_on_has_no_end(folder):
    html = folder.html(
        evolve_jsonl=ledger(*THREE, {"kind": "end", "why": "budget", "best": 1}, candidate(4, False, failed_at="check"))
    )
    assert "it was interrupted, or still runs" in html and "It ended" not in html


def test_a_ledger_may_be_large_and_its_last_line_bad(folder):
    lines = [candidate(i, True, files={"a.cu": "x" * (60 << 10)}) for i in range(100)]
    assert "100 candidates, 100% valid" in folder.html(evolve_jsonl=ledger(*lines) + '{"kind": "candi\n')
    folder.put({
        "evolve.jsonl": ledger() + '{"kind": "candi\n' + json.dumps(candidate(0, True)) + "\n",
        "long.jsonl": ledger() + '{"kind": "' + "x" * (5 << 20) + '"}\n', "profile.json": on_day(1, **PROFILE),
    })  # fmt: skip
    left_out = folder.made()[2]
    assert (
        len(left_out) == 2
        and "evolve.jsonl: line 2: not JSON" in left_out[0]
        and "long.jsonl: line 2 is longer than 4194304 bytes" in left_out[1]
    )


def test_of_a_ledger_without_times_none_are_told(folder):
    run = RUN | {"baseline": RUN["baseline"] | {"seconds": None}}
    html = folder.html(evolve_jsonl=ledger(candidate(1, True, kept=True, speed_up=None), run=run))
    assert "100% valid. Baseline: k, stages 2. Cost" in html and "0.00x" not in html and "the best is" not in html


def test_a_ledger_by_another_name_is_known_by_its_beginning(folder):
    assert "3 candidates" in folder.html(evolve_json=ledger(*THREE))


def test_a_number_that_is_none_of_a_candidate_is_left_out(folder):
    folder.put(
        {
            "profile.json": on_day(1, **PROFILE),
            "evolve.jsonl": ledger({"kind": "candidate", "number": 1e20, "generation": 1}),
        }
    )
    assert "its &quot;number&quot; is 1e+20, but must be a whole number" in folder.html()
