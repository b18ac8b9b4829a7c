"""Ledgers of evolve: the tree of candidates and what became of them, on the page and as a table of docs/."""

import collections
import dataclasses
import pathlib
import statistics
from collections.abc import Sequence

from report.markup import Html, element, figure, joined
from report.results import Document, newest
from report.svg import Picture, Point, Scale
from report.tables import Table, duration, listed, number, percent, times

KEPT, SAME = 0.03, 0.01  # a gain that is kept, and one that is none
TOP, INVALID_FROM, INVALID_TO, VALID_FROM = 46.0, 30.0, 112.0, 122.0  # of the tree
IDENTITY = ("card", "case", "level", "population", "proposer", "problem", "start")  # of a run: a newer one replaces it
LEGEND = {
    "faster": "at least 3% faster", "bit-faster": "faster", "alike": "within 1%", "bit-slower": "slower",
    "slower": "12% slower or more", "invalid": "invalid", "kept": "kept",
}  # fmt: skip


class Candidate:
    def __init__(self, json: dict):
        self.number, self.generation = int(json["number"]), int(json["generation"])
        self.parents = [int(parent) for parent in json.get("parents") or []]
        self.valid, self.kept = json.get("valid") is True, bool(json.get("kept"))
        self.failed = json.get("valid") is False  # neither: it never ran
        self.failed_at, self.why = json.get("failed_at") or "an unnamed gate", json.get("why") or ""
        self.reason = json.get("reason") or ""
        self.speed_up = json.get("speed_up") or 0.0  # 0: it was not timed
        self.cost = json.get("cost_seconds") or 0.0
        parameters, change = json.get("parameters"), json.get("change")
        self.parameters: dict = parameters if isinstance(parameters, dict) else {}
        told = listed(change) if isinstance(change, dict) else str(change or "")
        self.change = ", ".join(filter(None, [told, json.get("source_changed") and "other source"]))

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

    def told(self) -> str:
        if self.failed:
            became = self.invalid(", ")
        elif self.speed_up > 0:
            became = times(self.speed_up)
        else:
            became = "valid, not timed" if self.valid else "not judged"
        because = f". Proposed because: {self.reason}" if self.reason else ""
        return f"{self.number}. {self.what}: {became}{', kept' if self.kept else ''}{because}"

    def colour(self) -> str:
        """Slower than the baseline, like it, faster: five classes."""
        if self.failed or self.speed_up <= 0:
            return "invalid" if self.failed else "untimed"
        gain = self.speed_up - 1
        if gain > SAME:
            return "faster" if gain >= KEPT else "bit-faster"
        return "alike" if gain >= -SAME else "bit-slower" if gain > -4 * KEPT else "slower"


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
        # When they were measured again; -1 where that failed.
        self.again = {
            int(candidate["number"]): (candidate.get("speed_up") or 0.0) if candidate.get("valid") else -1.0
            for candidate in content["confirmations"]
        }
        self.best = self.best_one()
        level = f", {self.run['level']}" if self.run.get("level") else ""
        self.name = " ".join(filter(None, [self.run["card"], self.run.get("case")])) + level

    def best_one(self) -> Candidate | None:
        """The one that the run names; before its end, the one that was right when it was measured again, or the
        fastest of those kept that did not fail then. The fastest of all is a lucky one."""
        timed = [candidate for candidate in self.candidates if candidate.timed]
        end = self.end or {}
        # A run that was interrupted did not come to name it.
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
    about = (
        "A dot is a candidate, as far to the right as it is fast, with lines from its parents; a row is a generation, and the thick line leads to the "
        "best. What a candidate is and what became of it is under the pointer and in the table."
    )
    kinds = (element("li", element("i", class_=kind), told) for kind, told in LEGEND.items())
    legend = element("ul", *kinds, class_="legend")
    return joined(element("p", about), legend, element("div", *figures, class_="grid wide")) if figures else Html()


def ledger_figure(ledger: Ledger) -> Html:
    run = ledger.run
    proposer = f"{' '.join(map(str, ledger.proposer))} proposer"
    about = (
        f"{run.get('population') or '-'} population, {proposer}, seed {run.get('seed', '-')}, {ledger.document.told}"
    )
    rows = [
        [candidate.number, candidate.generation, ", ".join(map(str, candidate.parents)), candidate.change,
         candidate.outcome, times(candidate.speed_up) if candidate.speed_up > 0 else "-", duration(candidate.cost),
         candidate.reason]
        for candidate in ledger.candidates
    ]  # fmt: skip
    columns = "#number | #generation | parents | change | outcome | #speed-up | #cost | proposed because"
    table = Table(f"Candidates of {ledger.name}", columns, rows).folded(f"All {len(rows)} candidates")
    return figure(joined(ledger.name, element("small", about)), summary(ledger), tree(ledger) if rows else "", table)


def summary(ledger: Ledger) -> Html:
    found = ledger.candidates
    not_judged = sum(not candidate.valid and not candidate.failed for candidate in found)
    told = f"{len(found)} candidates, {percent(ledger.valid_share)} valid"
    told += f", {not_judged} not judged" if not_judged else ""
    told += f"; speed-up: median {times(ledger.median)}" if ledger.median else ""
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
    baseline = [base.get("kernel") or "-", listed(base.get("parameters") or {}), took]
    end = "The run has no end: it was interrupted, or still runs."
    if ledger.end is not None:
        end = f"It ended: {ledger.ended() or 'no reason is told'}"
    failed = collections.Counter(candidate.failed_at for candidate in found if candidate.failed)
    invalid = ", ".join(f"{count} at {gate}" for gate, count in sorted(failed.items()))
    return joined(
        element("p", told, *best,
        f". Baseline: {', '.join(filter(None, baseline))}. Cost: {duration(ledger.cost)}. {end}"), "\n",
        element("p", f"Invalid: {invalid}.") if invalid else "",
    )  # fmt: skip


def tree(ledger: Ledger) -> Html:
    found, best = ledger.candidates, ledger.best
    rows: dict[int, list[Candidate]] = {}
    for candidate in sorted(found, key=lambda candidate: candidate.generation):
        rows.setdefault(candidate.generation, []).append(candidate)
    speeds = [candidate.speed_up for candidate in found if candidate.timed]
    slowest = min([0.95, *(max(speed, 0.7) for speed in speeds)])  # slower ones lie at the edge
    fastest = max([1.05, *speeds])
    step = min(max(640.0 / len(rows), 9.0), 30.0)
    told = f"; the best is number {best.number}" if best else ""
    picture = Picture(
        420, TOP + step * len(rows) + 6, f"Candidates of {ledger.name}",
        f"{len(found)} candidates in {len(rows)} generations{told}. The table below holds them all.")  # fmt: skip
    # A label stands behind the fastest dot, in the larger type of phones.
    x = Scale(slowest, fastest, VALID_FROM + 8, 374, logarithmic=False)
    places = places_of(rows, x, step)
    for tick in x.ticks(44):
        picture.line([(x(tick), 22), (x(tick), picture.height)], "axis")
        picture.text((x(tick), 16), f"{tick:.4g}x", "tick", "middle")
    picture.text((INVALID_TO, 16), "invalid", "tick", "end")
    picture.text((4, 16), "gen.", "tick")
    line = {best.number} if best else set()
    for candidate in reversed(found):  # parents came before
        if candidate.number in line:
            line.update(candidate.parents)
    root = x(1), 32.0
    for of_best in (False, True):  # over the others
        for candidate in found:
            if (candidate.number in line) == of_best:
                # A parent may be of the same generation: then it is in the same row.
                parents = (parent for parent in candidate.parents if parent != candidate.number)
                begins = [places[parent] for parent in parents if parent in places]
                for begin in begins or [root]:
                    picture.line([begin, places[candidate.number]], "edge best" if of_best else "edge")
    radius = min(max(step / 2 - 1, 3.5), 5.5)
    picture.dot(root, radius, "node alike kept", "the baseline: 1x")
    free_from = 0.0  # for the next number of a generation
    for generation, members in rows.items():
        y = places[members[0].number][1]
        if y >= free_from:
            picture.text((4, y + 4), str(generation), "tick")
            free_from = y + 14
        for candidate in members:
            picture.keep_free(places[candidate.number], radius)
            kind = f"node {candidate.colour()}{' kept' if candidate.kept else ''}"
            picture.dot(places[candidate.number], radius if candidate.kept else radius * 0.8, kind, candidate.told())
    for candidate in found:
        if candidate.timed and (candidate.kept or candidate is best):
            picture.label(places[candidate.number], times(candidate.speed_up, 2), "name")
    return picture.html()


def places_of(rows: dict[int, list[Candidate]], x: Scale, step: float) -> dict[int, Point]:
    """A row per generation: invalid candidates side by side on the left, others by their speed."""
    places: dict[int, Point] = {}
    for row, members in enumerate(rows.values()):
        y = TOP + step / 2 + step * row
        invalid = [candidate for candidate in members if candidate.failed]
        apart = min(11.0, (INVALID_TO - INVALID_FROM) / (len(invalid) + 1))
        places |= {candidate.number: (INVALID_TO - 6 - apart * i, y) for i, candidate in enumerate(invalid)}
        wanted = sorted(
            (x(max(x.low, candidate.speed_up) if candidate.speed_up > 0 else 1), candidate.number)
            for candidate in members
            if not candidate.failed
        )
        apart = min(9.0, (x(x.high) - VALID_FROM) / (len(wanted) + 1))
        right = x(x.high) + apart  # dots that would overlap move to the left
        for place, named in reversed(wanted):
            right = min(place, right - apart)
            places[named] = right, y
    return places


def table(documents: Sequence[Document]) -> str:
    rows = []
    for ledger in ledgers(documents):
        run, best, found = ledger.run, ledger.best, ledger.candidates
        again = ledger.again.get(best.number, 0) if best else 0
        command = ledger.proposer[-1:] if ledger.proposer != ["built-in"] else []
        rows.append([
            run["card"], run.get("case") or "-", run.get("level") or "-",
            pathlib.Path(command[0]).name if command else run.get("population") or "-", len(found),
            percent(ledger.valid_share) if found else "-", times(ledger.median) if ledger.median else "-",
            times(best.speed_up) if best else "-",
            times(again) if again > 0 else "-", listed(best.parameters) if best else "-", number(ledger.cost),
            ledger.ended() or "it was interrupted",
            ledger.document.told,
        ])  # fmt: skip
    columns = "card | case | level | population or proposer | candidates | valid | median speed-up | best | the best again | its parameters | seconds | why it ended | measured"
    return (
        "### Evolution\n\n`fovea kernel evolve`: candidates beside what the launcher chooses.\n\n"
        + Table("Evolution", columns, rows).markdown()
    )
