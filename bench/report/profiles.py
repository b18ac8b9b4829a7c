"""Renders profiles and gates of kernels, on the page and as tables of docs/."""

from collections.abc import Iterable, Sequence

from report.markup import Html, code_spans, element, figure, join_html
from report.results import Document, keyed, newest
from report.tables import Badge, Lines, Table, duration, format_values, named_figure, percent, readable_name

# Groups of stall reasons, one colour each. A reason belongs to the first group that has a part of its name.
COLOURS = {
    "global memory": ("long_scoreboard", "lg_throttle", "tex_throttle", "drain", "device memory", "global memory",
    "texture"),
    "shared memory": ("short_scoreboard", "mio_throttle", "shared memory"),
    "other warps: barriers, fences, polling": ("barrier", "membar", "fence", "sleep", "branch"),
    "busy arithmetic units": ("gmma", "math_pipe", "matrix units", "arithmetic"),
    "an instruction's latency": ("wait", "latency", "dispatch"),
    "issued, or another warp was": ("selected", "their turn"),
    "anything else": ("",),
}  # fmt: skip
MAX_PLACES = 10


def colour_index(reason: str) -> int:
    return next(i for i, names in enumerate(COLOURS.values()) if any(name in reason for name in names))


def largest(stalls: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(stalls.items(), key=lambda stall: (-stall[1], stall[0]))


def largest_shares(stalls: dict[str, float]) -> str:
    return ", ".join(f"{readable_name(reason)} {percent(share)}" for reason, share in largest(stalls)[:3])


def bar(share: float, stalls: dict[str, float]) -> Html:
    """Returns a bar of length `share`, divided by stall reason. The reasons of a role are shares either of all samples
    or of the role's samples; in the second case they add up to more than `share`, and are scaled."""
    total = sum(stalls.values())
    scale = 1 if total <= share * 1.02 else share / max(total, 1.0)
    parts, remaining = [], min(share, 1.0)
    for reason, value in largest(stalls):
        if (width := min(remaining, value * scale)) >= 0.002:  # narrower parts would be invisible
            remaining -= width
            parts.append((colour_index(reason), width, f"{readable_name(reason)} {percent(width)}"))
    parts.append((len(COLOURS) - 1, remaining, "not told apart"))
    segments = (
        element("i", class_=f"c{colour}", style=f"width:{100 * width:.2f}%", title=title)
        for colour, width, title in parts
    )
    return element("div", *segments, class_="bar", aria_hidden="true")


def stall_bar(name: str, share: float, stalls: dict[str, float]) -> Html:
    title = element("span", code_spans(name), " ", element("b", percent(share)))
    return element("div", title, bar(share, stalls), element("small", largest_shares(stalls)), class_="role")


def observed_figures(finding: dict) -> str:
    values = finding.get("seen") or {}
    return ", ".join(f"{readable_name(name)} {named_figure(name, value)}" for name, value in values.items())


def finding_item(finding: dict) -> Html:
    parameter = finding.get("parameter")
    tried = join_html(" (", element("code", parameter), ")") if parameter else ""
    figures = element("small", observed_figures(finding))
    return element("li", element("b", finding["means"]), " ", figures, f" Try: {finding['try']}", tried)


def profile_figure(document: Document) -> Html:
    profile = document.json
    name = f"{profile['card']} {profile['case']}"
    details = [
        profile["kernel"], profile.get("level"), profile.get("plan"), format_values(profile.get("parameters") or {}),
        profile.get("sources") and f"sources {profile['sources']}", document.provenance,
    ]  # fmt: skip
    roles = [("the whole kernel", 1.0, profile["stalls"])]
    roles += [(role["name"], role["share"], role["stalls"]) for role in profile.get("roles") or []]
    findings = [finding_item(finding) for finding in profile.get("findings") or []]
    lines = [
        [f"{place.get('file') or ''}:{place.get('line') or ''}", place.get("role") or "", percent(place["share"]),
         largest_shares(place.get("stalls") or {})]
        for place in (profile.get("places") or [])[:MAX_PLACES]
    ]  # fmt: skip
    stalls = [[readable_name(reason), percent(share)] for reason, share in largest(profile["stalls"])]
    figures = [[readable_name(key), named_figure(key, value)] for key, value in (profile.get("figures") or {}).items()]
    more = [
        Table(f"Stalls of {name}", "warps wait for | #share", stalls).html(),
        Table(f"Places of {name}", "line | role | #share | wait for", lines).html(),
        Table(f"Figures of {name}", "figure | #value", figures).html(),
    ]
    return figure(
        join_html(
            name, " ", element("b", duration(profile["seconds"])), element("small", ", ".join(filter(None, details)))
        ),
        *(join_html(stall_bar(*role), "\n") for role in roles),
        element("p", profile["verdict"]) if profile.get("verdict") else "",
        element("ol", *findings, class_="findings") if findings else "",
        element("details", element("summary", "Stalls, places and figures"), *more),
    )


def profile_page(documents: Sequence[Document]) -> Html:
    """Renders all profiles. Those of other sources, such as planted causes, follow in a section of their own."""
    shown = newest(documents, keyed("card case kernel level parameters plan sources"))
    if not shown:
        return Html()
    program = [profile_figure(document) for document in shown if not document.json.get("sources")]
    other_sources = [profile_figure(document) for document in shown if document.json.get("sources")]
    legend = [element("li", element("i", class_=f"c{i}"), name) for i, name in enumerate(COLOURS)]
    introduction = (
        "A bar is as long as the role's share of all samples of waiting warps; colours say what they waited for."
    )
    title = "Of other sources than the program's"
    explanation = "These kernels come from --sources, such as one whose cause of slowness was planted on purpose; they are none of the program's."
    set_apart = join_html(
        element("h3", title), element("p", explanation), element("div", *other_sources, class_="grid wide")
    )
    return join_html(
        element("p", introduction),
        element("ul", *legend, class_="legend"),
        element("div", *program, class_="grid wide"),
        set_apart if other_sources else "",
    )


def profile_table(documents: Sequence[Document]) -> str:
    rows = []
    for document in newest(documents, keyed("card case kernel level parameters")):
        content, figures = document.json, document.json.get("figures") or {}
        names = [name for name in ("tensor", "matrix_units", "dram", "l2", "occupancy") if name in figures]
        busy = ", ".join(f"{readable_name(name)} {named_figure(name, figures[name])}" for name in names)
        variant = [content.get("level") or content.get("plan"), format_values(content.get("parameters") or {})]
        findings = [f"{finding['means']} ({observed_figures(finding)})" for finding in content.get("findings") or []]
        rows.append([
            content["card"], content["case"], ", ".join(filter(None, variant)), duration(content["seconds"]), busy,
            largest_shares(content["stalls"]), Lines(findings), document.provenance,
        ])  # fmt: skip
    columns = "card | case | level or plan, parameters | time | busy | warps wait for | findings | measured"
    return (
        "### Profiles\n\n`fovea kernel profile`: what warps wait for, by ncu, and the rules that fired.\n\n"
        + Table("Profiles", columns, rows).markdown()
    )


GATE_COLUMNS = "card | case | level | figure | #limit | #reading |  | why this limit | measured"
# Figures whose limits come from a model of the problem; other limits check that the kernel works as designed.
MODEL_FIGURES = ("seconds", "matrix_units", "fma", "dram_bytes_per_second", "dram_bytes")


def gate_levels(documents: Iterable[Document]) -> list[tuple[dict, Document]]:
    """Returns the kernels of each card, case and level from the newest document. There are several where the launcher's
    choice missed a gate, because alternatives were then measured, too."""
    kernels_by_key: dict[tuple, list[tuple[dict, Document]]] = {}
    for document in documents:
        newer: dict[tuple, list[tuple[dict, Document]]] = {}
        for level in document.json["levels"]:
            key = level["card"], level["case"], level.get("level") or "", document.device
            newer.setdefault(key, []).append((level, document))
        kernels_by_key |= newer
    return [kernel for _, kernels in sorted(kernels_by_key.items()) for kernel in kernels]


def reaches_all(level: dict) -> bool:
    return all(gate["passed"] for gate in level["gates"])


def gate_rows(level: dict, document: Document) -> list[list]:
    cells = [level["card"], level["case"], ", ".join(filter(None, [level.get("level"), level.get("kernel")])) or "-"]
    if not level["gates"]:
        return [[*cells, "seconds", "-", duration(level.get("seconds") or 0), "", "-", document.provenance]]
    return [
        [*cells, readable_name(gate["figure"]), f"{readable_name(gate['sense'])} {named_figure(gate['figure'], gate['limit'])}",
         named_figure(gate["figure"], gate["reading"]), Badge("passed" if gate["passed"] else "MISSED", gate["passed"]),
         gate.get("model") or "", document.provenance]
        for gate in level["gates"]
    ]  # fmt: skip


def gates_page(documents: Sequence[Document]) -> Html:
    levels = gate_levels(documents)
    rows = [row for level in levels for row in gate_rows(*level)]
    missed = [row for row in rows if row[6] == "MISSED"]
    if not rows:
        return Html()
    introduction = (
        f"{sum(reaches_all(level) for level, _ in levels)} of {len(levels)} kernels, counted once for each case and level, reach all of their gates. "
        "One that misses a gate is not chosen where another is on record as reaching its own in no more time."
    )
    return join_html(
        element("p", introduction),
        Table("Gates that were missed", GATE_COLUMNS, missed).html(),
        Table("All gates", GATE_COLUMNS, rows).folded(f"All {len(rows)} gates"),
    )


def gates_table(documents: Sequence[Document]) -> str:
    levels = gate_levels(documents)
    rows: list[list] = []
    passed_counts: dict[str, int] = {}
    for level, document in levels:
        for gate, row in zip(level["gates"] or [None], gate_rows(level, document), strict=True):
            if gate and gate["passed"] and gate["figure"] not in MODEL_FIGURES:
                passed_counts[row[3]] = passed_counts.get(row[3], 0) + 1
            else:
                rows.append(row)
    missed = [
        f"{level['card']} {level.get('level') or ''} ({level['case']}, {level.get('kernel')})".replace("  ", " ")
        for level, _ in levels if not reaches_all(level)
    ]  # fmt: skip
    summary = f"{len(levels) - len(missed)} of {len(levels)} kernels reach all of their gates."
    summary += f" Not: {', '.join(missed)}." if missed else ""
    if passed_counts:
        named = ", ".join(f"{name} ({count})" for name, count in sorted(passed_counts.items()))
        summary += (
            f"\nThe table leaves out what was reached of: {named}; `python3 bench/report --page report.html` shows all."
        )
    return f"### Gates\n\n`fovea kernel profile --gate`.\n{summary}\n\n" + Table("Gates", GATE_COLUMNS, rows).markdown()
