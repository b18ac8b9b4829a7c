"""Renders verdicts on kernels and on planted faults, in one form for the page and for docs/."""

import collections
import dataclasses
import pathlib
import sys
from collections.abc import Callable, Sequence

import planted as causes

from report.markup import Html, element, join_html
from report.results import Document, keyed, newest
from report.tables import (
    ROOT,
    Badge,
    Code,
    Lines,
    Row,
    Table,
    duration,
    format_values,
    named_figure,
    number,
    percent,
    readable_name,
    times,
)  # fmt: skip

sys.path.append(str(ROOT / "kernels"))
import variants  # noqa: E402

MAX_NAMES = 10  # kernels that are listed by name in a sentence
MAX_COUNTERS = 5
TOOLS = ("synccheck", "racecheck", "memcheck", "initcheck")


def passed(is_good: bool) -> Badge:
    return Badge("passed" if is_good else "FAILED", is_good)


def newest_parts(documents: Sequence[Document], name: str, key: Callable[[dict], tuple]) -> list[tuple[dict, Document]]:
    """Returns the newest item of each key and device in the documents' lists `name`, with its document."""
    items = {
        (*map(str, key(part)), document.device): (part, document)
        for document in documents
        for part in document.json[name]
    }
    return [part for _, part in sorted(items.items())]


def describe_counter(counter: dict) -> str:
    change = counter.get("change")
    return f"{readable_name(counter['name'])} {'new' if change is None else f'{change:+.1%}'}"


def comparisons(documents: Sequence[Document]) -> Table:
    def side(entry: dict, name: str) -> str:
        return entry[name].get("what") or format_values(entry[name])

    def key(document: Document) -> tuple:
        entry = document.json
        return entry.get("card"), entry.get("case"), document.device, side(entry, "a"), side(entry, "b")

    rows = []
    for document in newest(documents, key):
        entry = document.json
        good = {"FASTER": True, "SLOWER": False}.get(entry["verdict"])
        rows.append([
            entry.get("card") or "-", entry.get("case") or "-", side(entry, "a"), side(entry, "b"),
            Badge(entry["verdict"], good), f"{entry['ratio']:.4f}",
            " to ".join(f"{end:.4f}" for end in entry.get("interval") or []) or "-", entry.get("rounds"),
            Lines(describe_counter(counter) for counter in (entry.get("counters") or [])[:MAX_COUNTERS]), document.provenance,
        ])  # fmt: skip
    columns = "card | case | A | B | B is | #ratio | #interval | #pairs | counters that moved most | measured"
    return Table("Comparisons: A and B in turns on one GPU; the ratio is B's time to A's", columns, rows)


def known_differences(documents: Sequence[Document]) -> Table:
    rows = []
    for document in newest(documents, keyed("card what")):
        entry = document.json
        verdict_counts = collections.Counter(run["verdict"] for run in entry["runs"])
        ratios = sorted(run["ratio"] for run in entry["runs"] if "ratio" in run)
        truth = entry["truth"] + (f" by {entry['percent']:.2f}%" if "percent" in entry else "")
        counts = [
            (Badge(verdict, verdict == entry["truth"]), count) for verdict, count in sorted(verdict_counts.items())
        ]
        verdicts = Row(part for count in counts for part in count)
        rows.append([
            entry["card"], entry["what"], truth, len(entry["runs"]), verdicts,
            f"{ratios[0]:.4f} to {ratios[-1]:.4f}" if ratios else "-", document.provenance])  # fmt: skip
    columns = "card | B is | true verdict | #runs | verdicts | ratios | measured"
    return Table("Verdicts of fovea kernel compare on known differences, run after run", columns, rows)


def misdeeds(documents: Sequence[Document]) -> Table:
    rows = [
        [entry["how"], passed(entry["passed"]), len(entry["invalid"]),
        Lines(f"{bad['failed_at']}: {bad['why']}" for bad in entry["invalid"]),
         len(entry.get("valid_after") or []), Lines(entry.get("ended") or []), entry.get("exit_code"),
         number(entry.get("seconds") or 0), document.provenance]
        for entry, document in newest_parts(documents, "misdeeds", lambda entry: (entry["how"],))
    ]  # fmt: skip
    columns = "misdeed |  | #invalid candidates | reason | #valid ones after it | why it ended | #exit code | #seconds | measured"
    caption = "fovea kernel evolve with a proposer that misbehaves once: it hangs, writes garbage, or proposes a kernel that never ends"
    return Table(caption, columns, rows)


def planted_gates(documents: Sequence[Document]) -> Table:
    rows = []
    for document in newest(documents, keyed("")):
        gates, choice = document.json["gates"], document.json["choice"]
        program = "the program's"
        for subject, run, sources in (
            (gates, gates["before"], program),
            (gates, gates["after"], gates["what"]),
            (choice, choice["gates"], choice["what"]),
        ):
            missed = [
                ": ".join(filter(None, [level.get("level") or level.get("kernel") or "-", "; ".join(level.get("missed") or [])]))
                for level in run["levels"] if not level["passed"]
            ]  # fmt: skip
            card = f"{subject['card']} {subject.get('case') or ''}".strip()
            rows.append([card, sources, run.get("exit_code"), Lines(missed), document.provenance])
    columns = "card | sources | #exit code | kernels that missed a gate | measured"
    return Table("Gates beside a planted slow-down", columns, rows)


def planted_choices(documents: Sequence[Document]) -> Table:
    rows = []
    for document in newest(documents, keyed("")):
        for key, record in (("before", "none"), ("after", "with that slow-down")):
            run = document.json["choice"][key]
            notices = run.get("notices") or []
            kernel = Code(run["kernel"]) if run.get("kernel") else "-"
            level, cells = run.get("level") or "-", [run.get("runs"), len(notices), Lines(notices), document.provenance]
            rows.append([record, level, kernel, *cells])
    columns = "record | level that runs | kernel | #runs in one process | #notices | what they say | measured"
    return Table("Which kernel attention runs by the record of gates (FOVEA_GATE_RECORD)", columns, rows)


def speed_up(figures: dict) -> object:
    """Returns the speed-up with both spreads, and AMBIGUOUS where the times differ by no more than these."""
    if not (ratio := figures.get("speed_up_over_model") or 0) > 0:
        return "-"
    seconds, model, spread, models = (
        figures.get(name) or 0.0 for name in ("seconds", "model_seconds", "spread", "model_spread")
    )
    is_significant = abs(seconds - model) > max(spread * seconds, models * model)
    return f"{times(ratio, 2)}{'' if is_significant else ' AMBIGUOUS'} (spread {percent(spread)}, Model's {percent(models)})"


def judgements(documents: Sequence[Document]) -> Table:
    def answer(entry: dict) -> tuple:
        return *(Code(pathlib.Path(entry[name]).name) for name in ("task", "answer")), entry.get("device")

    rows = [
        [*answer(entry)[:2], entry.get("device") or document.json.get("device") or "-",
         Badge(entry["verdict"], entry["verdict"] == "RIGHT"), Lines(entry.get("reasons") or []),
         speed_up(entry.get("figures") or {}), document.provenance]
        for entry, document in newest_parts(documents, "answers", answer)
    ]  # fmt: skip
    columns = "task | answer | device | verdict | reasons | #speed-up | measured"
    return Table("Verdicts on foreign kernels", columns, rows)


def launches(documents: Sequence[Document]) -> list[tuple[dict, Document]]:
    """Returns the newest run of each tool on each card. Older files of bench/run_gpu.py hold such runs in the section
    `sanitizer`."""

    def as_tool_runs(document: Document) -> Document:
        if document.kind == "sanitizers":
            return document
        runs = [run | {"passed": run["clean"]} for run in document.json["sanitizer"]["runs"]]
        return dataclasses.replace(document, json={"tools": runs})

    runs_of_documents = [
        as_tool_runs(part) for part in documents if part.kind == "sanitizers" or "sanitizer" in part.json
    ]
    return newest_parts(runs_of_documents, "tools", lambda run: (run.get("card") or "every card", run["tool"]))


def sanitizers_page(documents: Sequence[Document]) -> Html:
    runs = launches(documents)
    tools = list(dict.fromkeys(run["tool"] for run, _ in runs))
    cards: dict[tuple[str, str], dict[str, tuple[dict, Document]]] = {}
    for run, document in runs:
        cards.setdefault((run.get("card") or "every card", document.device), {})[run["tool"]] = run, document
    good: list[list[object]] = []
    bad: list[list[object]] = []
    for (card, _), launches_by_tool in cards.items():
        row: list[object] = [card]
        for tool in tools:
            if tool not in launches_by_tool:
                row.append("-")
                continue
            launch = launches_by_tool[tool][0]
            unclean = f"{launch['errors']} errors" if launch.get("errors") else "did not end well"
            badge = Badge("clean" if launch["passed"] else unclean, launch["passed"])
            row.append(Row([badge, element("small", duration(launch.get("seconds") or 0))]))
        row.append(max(document.provenance for _, document in launches_by_tool.values()))
        (good if all(run["passed"] for run, _ in launches_by_tool.values()) else bad).append(row)
    if not runs:
        return Html()
    columns = " | ".join(["card", *tools, "newest"])
    return join_html(
        element("p", f"{sum(run['passed'] for run, _ in runs)} of {len(runs)} runs of compute-sanitizer are clean."),
        "\n",
        Table("Cards with errors", columns, bad).html(),
        Table("Clean cards", columns, good).folded(f"{len(good)} cards that are clean"),
    )  # fmt: skip


def sanitizers_table(documents: Sequence[Document]) -> str:
    """Renders the runs of compute-sanitizer. Exits where one is not clean, because such a file must not be committed.
    The list of shipped kernels is today's, so that kernels added after the runs are reported as missing."""
    runs = launches(documents)
    if unclean := [f"{run['tool']} {run['card']}" for run, _ in runs if not run["passed"]]:
        sys.exit(f"compute-sanitizer found errors, or did not run to its end: {', '.join(unclean)}")
    archs = {document.machine["gpu"]["arch"] for _, document in runs}
    shipped: set[str] = set().union(*map(variants.shipped_for, archs))
    names: dict[str, set[str]] = {tool: set() for tool in TOOLS}
    for run, _ in runs:
        for kernels in run["cases"].values():
            names.setdefault(run["tool"], set()).update(kernels)
    rows = []
    for tool in TOOLS:
        tool_runs = [run for run, _ in runs if run["tool"] == tool]
        measured = dict.fromkeys(document.provenance for run, document in runs if run["tool"] == tool)
        rows.append([
            tool, len(tool_runs), f"{len(shipped & names[tool])}/{len(shipped)}", sum(run["errors"] for run in tool_runs),
            number(sum(run["seconds"] for run in tool_runs)), ", ".join(measured) or "-"])  # fmt: skip
    missing = sorted(kernel for kernel in shipped if not all(kernel in launched for launched in names.values()))
    names_missing = ", ".join(f"`{name}`" for name in missing)
    if len(missing) > MAX_NAMES:
        names_missing = f"{len(missing)} of {len(shipped)} kernels"
    ships = ", ".join(f"sm_{arch}" for arch in sorted(archs))
    columns = "tool | cards | kernels launched | errors | seconds, several runs at once | measured"
    return (
        f"### compute-sanitizer\n\n`fovea kernel sanitize`: kernels that ship for {ships}, on small problems, by all plans.\n\n"
        + Table("", columns, rows).markdown()
        + (f"\nNot launched under every tool: {names_missing}.\n" if missing else "")
    )


def leading_counters(counters: list[dict]) -> list[dict]:
    """Returns up to MAX_COUNTERS counters, in the order of `compare`: first at most three of the kernel's work, then
    counters of its effects."""
    work = [counter for counter in counters if counter.get("work")][:3]
    return work + [counter for counter in counters if not counter.get("work")][: MAX_COUNTERS - len(work)]


def planted_causes(documents: Sequence[Document]) -> Table:
    """Renders, for each planted cause, the rules that fired and the verdict of `compare`."""
    shown = {(document.cause, document.kind): document for document in documents}
    rows = []
    for cause in sorted({cause for cause, _ in shown}):
        profile, compared = shown.get((cause, "profile")), shown.get((cause, "compare"))
        measured = [document.provenance for document in (compared, profile) if document]
        fired = [finding["rule"] for finding in profile.json.get("findings") or []] if profile else []
        counters = compared.json.get("counters") or [] if compared else []
        values = (tuple(counter[key] for key in ("name", "a", "b")) for counter in leading_counters(counters))
        changes = "; ".join(
            f"{readable_name(name)} {named_figure(name, a)} to {named_figure(name, b)}" for name, a, b in values
        )
        rows.append([
            cause, causes.CAUSES[cause].rule, "; ".join(fired) or "-", compared.json["verdict"] if compared else "-",
            f"{compared.json['ratio']:.3f}" if compared else "-", changes or "-", measured[0]])  # fmt: skip
    columns = "cause | the rule that names it | rules that fired | verdict | ratio | what moved first | measured"
    return Table("Planted causes", columns, rows)
