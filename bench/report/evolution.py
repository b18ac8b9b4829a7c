"""Renders the ledgers of evolve: the tree of candidates and their outcomes, on the page and as a table of docs/."""

import collections
import dataclasses
import pathlib
import statistics
from collections.abc import Sequence

from report.markup import Html, element, figure, join_html
from report.results import Document, newest
from report.svg import Picture, Point, Scale
from report.tables import Table, duration, format_values, number, percent, times

KEPT_GAIN, UNCHANGED_GAIN = (
    0.03,
    0.01,
)  # the smallest gain that counts as faster, and the largest that counts as no change
TREE_TOP, INVALID_FROM, INVALID_TO, VALID_FROM = 46.0, 30.0, 112.0, 122.0  # coordinates in the picture of the tree
# Fields that identify a run: a newer run with the same values replaces an older one.
IDENTITY = ("card", "case", "level", "population", "proposer", "problem", "start")
LEGEND = {
    "faster": "at least 3% faster", "bit-faster": "faster", "alike": "within 1%", "bit-slower": "slower",
    "slower": "12% slower or more", "invalid": "invalid", "kept": "kept",
}  # fmt: skip


class Candidate:
    def __init__(self, json: dict):
        self.number, self.generation = int(json["number"]), int(json["generation"])
        self.parents = [int(parent) for parent in json.get("parents") or []]
        self.valid, self.kept = json.get("valid") is True, bool(json.get("kept"))
        self.failed = json.get("valid") is False  # a candidate that never ran is neither valid nor failed
        self.failed_at, self.why = json.get("failed_at") or "an unnamed gate", json.get("why") or ""
        self.reason = json.get("reason") or ""
        self.speed_up = json.get("speed_up") or 0.0  # 0 for a candidate that was not timed
        self.cost = json.get("cost_seconds") or 0.0
        parameters, change = json.get("parameters"), json.get("change")
        self.parameters: dict = parameters if isinstance(parameters, dict) else {}
        description = format_values(change) if isinstance(change, dict) else str(change or "")
        self.change = ", ".join(filter(None, [description, json.get("source_changed") and "other source"]))

    @property
    def timed(self) -> bool:
        return not self.failed and self.speed_up > 0

    @property
    def what(self) -> str:
        return self.change or ("no change" if self.number else "the start")

    def invalid(self, mark: str) -> str:
        return f"invalid at {self.failed_at}" + (f"{mark}{self.why}" if self.why else "")

    @property
    def outcome(self) -> str:
        return self.invalid(": ") if self.failed else "kept" if self.kept else "valid" if self.valid else "not judged"

    def describe(self) -> str:
        if self.failed:
            became = self.invalid(", ")
        elif self.speed_up > 0:
            became = times(self.speed_up)
        else:
            became = "valid, not timed" if self.valid else "not judged"
        because = f". Proposed because: {self.reason}" if self.reason else ""
        return f"{self.number}. {self.what}: {became}{', kept' if self.kept else ''}{because}"

    def colour(self) -> str:
        """Returns the class of the dot: one of five speeds relative to the baseline, or invalid, or untimed."""
        if self.failed or self.speed_up <= 0:
            return "invalid" if self.failed else "untimed"
        gain = self.speed_up - 1
        if gain > UNCHANGED_GAIN:
            return "faster" if gain >= KEPT_GAIN else "bit-faster"
        return "alike" if gain >= -UNCHANGED_GAIN else "bit-slower" if gain > -4 * KEPT_GAIN else "slower"


@dataclasses.dataclass
class Ledger:
    document: Document

    def __post_init__(self) -> None:
        content = self.document.json
        self.run, self.end, self.cost = content["run"], content.get("end"), content["cost_seconds"]
        self.candidates = [Candidate(candidate) for candidate in content["candidates"]]
        self.valid_share = sum(candidate.valid for candidate in self.candidates) / max(len(self.candidates), 1)
        speeds = [candidate.speed_up for candidate in self.candidates if candidate.timed]
        self.median = statistics.median(speeds) if speeds else 0.0
        self.proposer = list(self.run.get("proposer") or [])
        # Speed-ups of repeated measurements by candidate; -1 where the repetition failed.
        self.again = {
            int(candidate["number"]): (candidate.get("speed_up") or 0.0) if candidate.get("valid") else -1.0
            for candidate in content["confirmations"]
        }
        self.best = self.best_one()
        level = f", {self.run['level']}" if self.run.get("level") else ""
        self.name = " ".join(filter(None, [self.run["card"], self.run.get("case")])) + level

    def best_one(self) -> Candidate | None:
        """Returns the best candidate: the one that a finished run names; otherwise the fastest that was confirmed by a
        repeated measurement, or else the fastest kept one whose repetition did not fail. The fastest of all would
        favour lucky measurements."""
        timed = [candidate for candidate in self.candidates if candidate.timed]
        end = self.end or {}
        # An interrupted run ended before it could choose its best candidate.
        if end.get("best") is not None and end.get("why") != "interrupted":
            chosen = [candidate for candidate in timed if candidate.number == end["best"]]
        else:
            confirmed = [candidate for candidate in timed if self.again.get(candidate.number, 0) > 0]
            chosen = confirmed or [
                candidate for candidate in timed if candidate.kept and self.again.get(candidate.number, 0) >= 0
            ]
        return max(chosen, key=lambda candidate: candidate.speed_up, default=None)

    def ended(self) -> str:
        return (self.end or {}).get("words") or (self.end or {}).get("why") or ""


def ledgers(documents: Sequence[Document]) -> list[Ledger]:
    def key(document: Document) -> tuple:
        return (*(document.json["run"].get(name) or "" for name in IDENTITY), document.device)

    return [Ledger(document) for document in newest(documents, key)]


def page(documents: Sequence[Document]) -> Html:
    figures = [ledger_figure(ledger) for ledger in ledgers(documents)]
    introduction = (
        "A dot is a candidate, as far to the right as it is fast, with lines from its parents; a row is a generation, and the thick line leads to the "
        "best. What a candidate is and what became of it is under the pointer and in the table."
    )
    kinds = (element("li", element("i", class_=kind), description) for kind, description in LEGEND.items())
    legend = element("ul", *kinds, class_="legend")
    return (
        join_html(element("p", introduction), legend, element("div", *figures, class_="grid wide"))
        if figures
        else Html()
    )


def ledger_figure(ledger: Ledger) -> Html:
    run = ledger.run
    proposer = f"{' '.join(map(str, ledger.proposer))} proposer"
    subtitle = f"{run.get('population') or '-'} population, {proposer}, seed {run.get('seed', '-')}, {ledger.document.provenance}"
    rows = [
        [candidate.number, candidate.generation, ", ".join(map(str, candidate.parents)), candidate.change,
         candidate.outcome, times(candidate.speed_up) if candidate.speed_up > 0 else "-", duration(candidate.cost),
         candidate.reason]
        for candidate in ledger.candidates
    ]  # fmt: skip
    columns = "#number | #generation | parents | change | outcome | #speed-up | #cost | proposed because"
    table = Table(f"Candidates of {ledger.name}", columns, rows).folded(f"All {len(rows)} candidates")
    return figure(
        join_html(ledger.name, element("small", subtitle)), summary(ledger), tree(ledger) if rows else "", table
    )


def summary(ledger: Ledger) -> Html:
    candidates = ledger.candidates
    not_judged = sum(not candidate.valid and not candidate.failed for candidate in candidates)
    description = f"{len(candidates)} candidates, {percent(ledger.valid_share)} valid"
    description += f", {not_judged} not judged" if not_judged else ""
    description += f"; speed-up: median {times(ledger.median)}" if ledger.median else ""
    best: list[object] = []
    if candidate := ledger.best:
        again = ledger.again.get(candidate.number, 0)
        where = f" (number {candidate.number}: {candidate.what})"
        if again > 0:
            where = f" when number {candidate.number} ({candidate.what}) was measured again, {times(candidate.speed_up)} before"
        best = [", best ", element("b", times(again if again > 0 else candidate.speed_up)), where]
    base = ledger.run.get("baseline") or {}
    seconds = base.get("seconds") or 0
    took = f"in {duration(seconds)}" if seconds > 0 else ""
    baseline = [base.get("kernel") or "-", format_values(base.get("parameters") or {}), took]
    end = "The run has no end: it was interrupted, or still runs."
    if ledger.end is not None:
        end = f"It ended: {ledger.ended() or 'no reason is told'}"
    failed = collections.Counter(candidate.failed_at for candidate in candidates if candidate.failed)
    invalid = ", ".join(f"{count} at {gate}" for gate, count in sorted(failed.items()))
    return join_html(
        element("p", description, *best,
        f". Baseline: {', '.join(filter(None, baseline))}. Cost: {duration(ledger.cost)}. {end}"), "\n",
        element("p", f"Invalid: {invalid}.") if invalid else "",
    )  # fmt: skip


def tree(ledger: Ledger) -> Html:
    candidates, best = ledger.candidates, ledger.best
    rows: dict[int, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate.generation):
        rows.setdefault(candidate.generation, []).append(candidate)
    speeds = [candidate.speed_up for candidate in candidates if candidate.timed]
    slowest = min([0.95, *(max(speed, 0.7) for speed in speeds)])  # slower candidates are drawn at the edge
    fastest = max([1.05, *speeds])
    step = min(max(640.0 / len(rows), 9.0), 30.0)
    description = f"; the best is number {best.number}" if best else ""
    picture = Picture(
        420, TREE_TOP + step * len(rows) + 6, f"Candidates of {ledger.name}",
        f"{len(candidates)} candidates in {len(rows)} generations{description}. The table below holds them all.")  # fmt: skip
    # The range ends at 374 to leave space for the label to the right of the fastest dot, in the larger font of phones.
    x = Scale(slowest, fastest, VALID_FROM + 8, 374, logarithmic=False)
    points = place_candidates(rows, x, step)
    for tick in x.ticks(44):
        picture.line([(x(tick), 22), (x(tick), picture.height)], "axis")
        picture.text((x(tick), 16), f"{tick:.4g}x", "tick", "middle")
    picture.text((INVALID_TO, 16), "invalid", "tick", "end")
    picture.text((4, 16), "gen.", "tick")
    line = {best.number} if best else set()
    for candidate in reversed(candidates):  # parents precede their children
        if candidate.number in line:
            line.update(candidate.parents)
    root = x(1), 32.0
    for is_best in (False, True):  # the best candidate's line is drawn over the others
        for candidate in candidates:
            if (candidate.number in line) == is_best:
                # A parent may be of the same generation, and then lies in the same row.
                parents = (parent for parent in candidate.parents if parent != candidate.number)
                begins = [points[parent] for parent in parents if parent in points]
                for begin in begins or [root]:
                    picture.line([begin, points[candidate.number]], "edge best" if is_best else "edge")
    radius = min(max(step / 2 - 1, 3.5), 5.5)
    picture.dot(root, radius, "node alike kept", "the baseline: 1x")
    free_from = 0.0  # y from which the next generation's number does not overlap the last one
    for generation, members in rows.items():
        y = points[members[0].number][1]
        if y >= free_from:
            picture.text((4, y + 4), str(generation), "tick")
            free_from = y + 14
        for candidate in members:
            picture.keep_free(points[candidate.number], radius)
            kind = f"node {candidate.colour()}{' kept' if candidate.kept else ''}"
            picture.dot(
                points[candidate.number], radius if candidate.kept else radius * 0.8, kind, candidate.describe()
            )
    for candidate in candidates:
        if candidate.timed and (candidate.kept or candidate is best):
            picture.label(points[candidate.number], times(candidate.speed_up, 2), "name")
    return picture.html()


def place_candidates(rows: dict[int, list[Candidate]], x: Scale, step: float) -> dict[int, Point]:
    """Places candidates in one row per generation: invalid ones side by side on the left, others by speed."""
    points: dict[int, Point] = {}
    for row, members in enumerate(rows.values()):
        y = TREE_TOP + step / 2 + step * row
        invalid = [candidate for candidate in members if candidate.failed]
        distance = min(11.0, (INVALID_TO - INVALID_FROM) / (len(invalid) + 1))
        points |= {candidate.number: (INVALID_TO - 6 - distance * i, y) for i, candidate in enumerate(invalid)}
        positions = sorted(
            (x(max(x.low, candidate.speed_up) if candidate.speed_up > 0 else 1), candidate.number)
            for candidate in members
            if not candidate.failed
        )
        distance = min(9.0, (x(x.high) - VALID_FROM) / (len(positions) + 1))
        right = x(x.high) + distance  # dots that would overlap move to the left
        for position, candidate_number in reversed(positions):
            right = min(position, right - distance)
            points[candidate_number] = right, y
    return points


def table(documents: Sequence[Document]) -> str:
    rows = []
    for ledger in ledgers(documents):
        run, best, candidates = ledger.run, ledger.best, ledger.candidates
        again = ledger.again.get(best.number, 0) if best else 0
        command = ledger.proposer[-1:] if ledger.proposer != ["built-in"] else []
        rows.append([
            run["card"], run.get("case") or "-", run.get("level") or "-",
            pathlib.Path(command[0]).name if command else run.get("population") or "-", len(candidates),
            percent(ledger.valid_share) if candidates else "-", times(ledger.median) if ledger.median else "-",
            times(best.speed_up) if best else "-",
            times(again) if again > 0 else "-", format_values(best.parameters) if best else "-", number(ledger.cost),
            ledger.ended() or "it was interrupted",
            ledger.document.provenance,
        ])  # fmt: skip
    columns = "card | case | level | population or proposer | candidates | valid | median speed-up | best | the best again | its parameters | seconds | why it ended | measured"
    return (
        "### Evolution\n\n`fovea kernel evolve`: candidates beside what the launcher chooses.\n\n"
        + Table("Evolution", columns, rows).markdown()
    )
