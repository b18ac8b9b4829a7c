"""What `fovea kernel profile|profile --gate|compare|evolve|sanitize` and `python -m fovea.lab.judge` left below
bench/results/<machine>/, as tables of docs/performance.md. Of the same measurement the newest counts."""

import pathlib
import sys

import planted as causes
from runs import parsed, run_of

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "kernels"))
import variants

MOST_NAMES = 10  # of kernels, in a sentence
SANITIZERS = ("synccheck", "racecheck", "memcheck", "initcheck")


def table(columns: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def number(value: float) -> str:
    """Three significant digits, in plain notation."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def figure(name: str, value: float) -> str:
    """A share in percent, a time in microseconds, many bytes in MB or GB/s, or a number."""
    if "seconds" in name and "per_second" not in name:
        return f"{number(value * 1e6)} us"
    if "bytes" in name and value >= 1e7:
        return f"{number(value / 1e9)} GB/s" if "per_second" in name else f"{number(value / 1e6)} MB"
    return f"{value:.1%}" if 0 < value < 1 else number(value)


def cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def foreign(text: str) -> str:
    """What someone else wrote, as text of a page: no markup, nothing that a terminal obeys."""
    return cell("".join(letter if letter.isprintable() else "?" for letter in text).replace("<", "&lt;"))


def words(values: dict) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def read_ledger(path: pathlib.Path) -> dict:
    """A ledger as one document; a last line that was cut is none of it."""
    lines = [parsed(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    document = {"candidates": [line for line in lines if line["kind"] == "candidate"]}
    document |= {line["kind"]: line for line in lines if line["kind"] in ("confirmation", "end")}
    return next(line for line in lines if line["kind"] == "run") | document | {"kind": "ledger"}


def read(path: pathlib.Path) -> dict:
    try:
        document = read_ledger(path) if path.suffix == ".jsonl" else parsed(path.read_text())
        if isinstance(document, dict) and "kind" in document:  # what a command printed says which
            document["kind"] = document["kind"].removeprefix("fovea.kernel.")
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        sys.exit(f"{path} is no result: {type(error).__name__}: {error}")
    if not isinstance(document, dict):
        sys.exit(f"{path} is no result: it holds a {type(document).__name__} where an object is expected")
    return document


def documents(folder: pathlib.Path) -> dict[str, list[dict]]:
    """By kind, those of a machine's subfolders, from the oldest to the newest; with `when` each was measured."""
    found: dict[str, list[dict]] = {}
    for path in sorted(path for path in folder.glob("*/**/*") if path.suffix in (".json", ".jsonl")):
        document = read(path)
        machine = document.get("machine") or {}
        date = machine.get("date", "no date")
        document["when"] = f"{date} at {machine.get('commit', 'an unnamed commit')}"
        if "partial" in document:
            document["when"] += f", stopped early: {document['partial']}"
        document["order"] = date, run_of(path.relative_to(folder).parts[0])[1]
        if path.parent.name == "hostile":
            continue  # ledgers whose verdict hostile.json has
        # What a mistake does that was made on purpose is no figure of ours.
        cause = path.stem.rpartition("-")[0] if path.parent.name == "planted" else ""
        found.setdefault("planted" if cause else document.get("kind", ""), []).append(document | {"cause": cause})
    for group in found.values():
        group.sort(key=lambda document: document["order"])
    return found


def newest(entries: list[tuple]) -> list:
    """The values of (key, value) pairs, the last of each key, in the order of keys."""
    return [value for _, value in sorted(dict(entries).items())]


def profiles(found: list[dict]) -> str:
    shown = newest(
        [
            ((one["card"], one["case"], one["kernel"], one.get("level") or "", words(one.get("parameters") or {})), one)
            for one in found
        ]
    )
    rows = []
    for one in shown:
        chief = sorted(one["stalls"].items(), key=lambda stall: -stall[1])[:3]
        names = [name for name in ("tensor", "matrix_units", "dram", "l2", "occupancy") if name in one["figures"]]
        chosen = ", ".join(filter(None, [one.get("level") or one.get("plan"), words(one.get("parameters") or {})]))
        rows.append(
            [
                one["card"],
                one["case"],
                chosen,
                figure("seconds", one["seconds"]),
                ", ".join(f"{name.replace('_', ' ')} {figure(name, one['figures'][name])}" for name in names),
                ", ".join(f"{cell(name).replace('_', ' ')} {share:.0%}" for name, share in chief),
                "<br>".join(
                    f"{cell(finding['means'])} ({words({name: figure(name, value) for name, value in finding['seen'].items()})})"
                    for finding in one["findings"]
                )
                or "-",
                one["when"],
            ]
        )
    return "### Profiles\n\n`fovea kernel profile`: what warps wait for, by ncu, and the rules that fired.\n\n" + table(
        ["card", "case", "level or plan, parameters", "time", "busy", "warps wait for", "findings", "measured"], rows
    )


# What a gate's model says of the problem; the other limits say that the design is as intended.
OF_THE_PROBLEM = ("seconds", "matrix_units", "fma", "dram_bytes_per_second", "dram_bytes")


def gates(found: list[dict]) -> str:
    # Without levels a case has the launcher's choice, and what was measured in its place.
    shown = newest(
        [
            ((level["card"], level["case"], level["level"] or level["kernel"]), (level, one["when"]))
            for one in found
            for level in one["levels"]
        ]
    )
    rows, others = [], {}
    for level, when in shown:
        if not level["gates"]:
            rows.append(
                [
                    level["card"],
                    level["case"],
                    level["level"],
                    "seconds",
                    "-",
                    figure("seconds", level["seconds"]),
                    "",
                    "-",
                    when,
                ]
            )
        for gate in level["gates"]:
            if gate["passed"] and gate["figure"] not in OF_THE_PROBLEM:
                others[gate["figure"]] = others.get(gate["figure"], 0) + 1
                continue
            rows.append(
                [
                    level["card"],
                    level["case"],
                    level["level"] or "-",
                    gate["figure"].replace("_", " "),
                    f"{gate['sense'].replace('_', ' ')} {figure(gate['figure'], gate['limit'])}",
                    figure(gate["figure"], gate["reading"]),
                    "passed" if gate["passed"] else "MISSED",
                    cell(gate["model"]),
                    when,
                ]
            )
    missed = [
        f"{level['card']} {level['level']} ({level['case']}, {level['kernel']})".replace("  ", " ")
        for level, _ in shown
        if not level["passed"]
    ]
    told = f"{len(shown) - len(missed)} of {len(shown)} kernels reach all of their gates." + (
        f" Not: {', '.join(missed)}." if missed else ""
    )
    if others:
        named = ", ".join(f"{name.replace('_', ' ')} ({count})" for name, count in sorted(others.items()))
        told += f" The table leaves out what was reached of: {named}; `fovea kernel report bench/results` has all."
    return f"### Gates\n\n`fovea kernel profile --gate`. {told}\n\n" + table(
        ["card", "case", "level", "figure", "limit", "reading", "", "why this limit", "measured"], rows
    )


def comparisons(found: list[dict]) -> str:
    shown = newest([((one.get("card") or "", one["a"]["what"], one["b"]["what"]), one) for one in found])
    rows = [
        [
            one.get("card") or "-",
            cell(one["a"]["what"]),
            cell(one["b"]["what"]),
            one["verdict"],
            f"{one['ratio']:.4f}",
            " to ".join(f"{end:.4f}" for end in one.get("interval", [])) or "-",
            str(one.get("rounds", "-")),
            one["when"],
        ]
        for one in shown
    ]
    return (
        "### Comparisons\n\n`fovea kernel compare`: A and B in turns on one GPU; the ratio is B's time to A's.\n\n"
        + table(["card", "A", "B", "B is", "ratio", "interval", "pairs", "measured"], rows)
    )


def first_of(counters: list[dict]) -> list[dict]:
    """What the kernel does differently, and what follows, as compare sorts each; some of both."""
    work = [counter for counter in counters if counter["work"]][:3]
    return work + [counter for counter in counters if not counter["work"]][: 5 - len(work)]


def planted(found: list[dict]) -> str:
    shown = dict(newest([((one["cause"], one["kind"]), ((one["cause"], one["kind"]), one)) for one in found]))
    rows = []
    for cause in sorted({cause for cause, _ in shown}):
        profile, compared = shown.get((cause, "profile")), shown.get((cause, "compare"))
        fired = [finding["rule"] for finding in profile["findings"]] if profile else []
        moved = [
            f"{counter['name']} {figure(counter['name'], counter['a'])} to {figure(counter['name'], counter['b'])}"
            for counter in first_of((compared or {}).get("counters", []))
        ]
        rows.append(
            [
                cause,
                causes.CAUSES[cause].rule,
                "; ".join(fired) or "-",
                compared["verdict"] if compared else "-",
                f"{compared['ratio']:.3f}" if compared else "-",
                cell("; ".join(moved)).replace("_", " ") or "-",
                (compared or profile)["when"],
            ]
        )
    return (
        "### Planted causes\n\n`bench/planted.py`: a known cause of slowness, what `fovea kernel profile` says of it, and what "
        "`fovea kernel compare` says of it beside the kernel without it.\n\n"
    ) + table(
        ["cause", "the rule that names it", "rules that fired", "verdict", "ratio", "what moved first", "measured"],
        rows,
    )


def verdicts(found: list[dict]) -> str:
    rows = []
    for one in newest([((one["card"], one["what"]), one) for one in found]):
        said = [run["verdict"] for run in one["runs"]]
        ratios = sorted(run["ratio"] for run in one["runs"])
        truth = one["truth"] + (f" by {one['percent']:.2f}%" if "percent" in one else "")
        rows.append(
            [
                one["card"],
                one["what"],
                truth,
                str(len(said)),
                words({verdict: said.count(verdict) for verdict in sorted(set(said))}) or "-",
                f"{ratios[0]:.4f} to {ratios[-1]:.4f}" if ratios else "-",
                one["when"],
            ]
        )
    return "### Verdicts on known differences\n\n`fovea kernel compare`, run after run.\n\n" + table(
        ["card", "B is", "true verdict", "runs", "verdicts", "ratios", "measured"], rows
    )


def evolution(found: list[dict]) -> str:
    shown = newest(
        [
            ((one["card"], one["case"], one.get("level") or "", one["population"], str(one["proposer"])), one)
            for one in found
        ]
    )
    rows = []
    for one in shown:
        tried = one["candidates"]
        valid = [candidate for candidate in tried if candidate["valid"]]
        speeds = sorted(candidate["speed_up"] for candidate in valid if candidate.get("speed_up"))
        # The fastest reading of all may lie within the spread of the best that was kept, and be nobody's choice.
        confirmed = one["confirmation"] if one.get("confirmation", {}).get("valid") else None
        chosen = [
            candidate
            for candidate in valid
            if (candidate["number"] == confirmed["number"] if confirmed else candidate["kept"])
        ]
        best = max(chosen, key=lambda candidate: candidate.get("speed_up") or 0, default={})
        first, again = best.get("speed_up"), confirmed and confirmed["speed_up"]
        middle = (speeds[(len(speeds) - 1) // 2] + speeds[len(speeds) // 2]) / 2 if speeds else 0
        proposer = [] if one["proposer"] == ["built-in"] else one["proposer"]
        rows.append(
            [
                one["card"],
                one["case"],
                one.get("level") or "-",
                f"`{pathlib.Path(proposer[-1]).name}`" if proposer else one["population"],
                str(len(tried)),
                f"{len(valid) / len(tried):.0%}" if tried else "-",
                f"{middle:.3f}x" if speeds else "-",
                f"{first:.3f}x" if first else "-",
                f"{again:.3f}x" if again else "-",
                cell(words(best["parameters"])) if best else "-",
                number(sum(candidate["cost_seconds"] for candidate in tried)),
                cell(one["end"].get("words") or one["end"]["why"]) if "end" in one else "it was interrupted",
                one["when"],
            ]
        )
    return "### Evolution\n\n`fovea kernel evolve`: candidates beside what the launcher chooses.\n\n" + table(
        [
            "card",
            "case",
            "level",
            "population or proposer",
            "candidates",
            "valid",
            "median speed-up",
            "best",
            "the best again",
            "its parameters",
            "seconds",
            "why it ended",
            "measured",
        ],
        rows,
    )


def newest_runs(found: list[dict]) -> list[tuple[dict, dict]]:
    """The newest run of each tool on each card, and the document that it is of."""
    return newest([((run["tool"], run["card"]), (run, one)) for one in found for run in one["tools"]])


def launched(runs: list[dict]) -> dict[str, set[str]]:
    """By tool, the kernels that were launched under it."""
    found: dict[str, set[str]] = {tool: set() for tool in SANITIZERS}
    for run in runs:
        for names in run["cases"].values():
            found.setdefault(run["tool"], set()).update(names)
    return found


def sanitizers(found: list[dict]) -> str:
    """What is not clean is no figure: such a file must not be committed. What ships is asked now, not when it ran, so
    that kernels that were added later are named."""
    runs = newest_runs(found)
    if unclean := [f"{run['tool']} {run['card']}" for run, _ in runs if not run["passed"]]:
        sys.exit(f"compute-sanitizer found errors, or did not run to its end: {', '.join(unclean)}")
    archs = {one["machine"]["gpu"]["arch"] for _, one in runs}
    shipped = set().union(*map(variants.shipped_for, archs))
    names = launched([run for run, _ in runs])
    rows = []
    for tool in SANITIZERS:
        of_tool = [run for run, _ in runs if run["tool"] == tool]
        rows.append(
            [
                tool,
                str(len(of_tool)),
                f"{len(shipped & names[tool])}/{len(shipped)}",
                str(sum(run["errors"] for run in of_tool)),
                number(sum(run["seconds"] for run in of_tool)),
                ", ".join(dict.fromkeys(one["when"] for run, one in runs if run["tool"] == tool)) or "-",
            ]
        )
    missing = sorted(shipped - set.intersection(*names.values()))
    named = (
        ", ".join(f"`{name}`" for name in missing)
        if len(missing) <= MOST_NAMES
        else f"{len(missing)} of {len(shipped)} kernels"
    )
    told = f"\nNot launched under every tool: {named}.\n" if missing else ""
    return (
        (
            f"### compute-sanitizer\n\n`fovea kernel sanitize`: kernels that ship for "
            f"{', '.join(f'sm_{arch}' for arch in sorted(archs))}, on small problems, by all plans.\n\n"
        )
        + table(["tool", "cards", "kernels launched", "errors", "seconds, several runs at once", "measured"], rows)
        + told
    )


def hostile(found: list[dict]) -> str:
    rows = []
    for one, when in newest([(misdeed["how"], (misdeed, run["when"])) for run in found for misdeed in run["misdeeds"]]):
        reasons = "; ".join(f"{invalid['failed_at']}: {invalid['why']}" for invalid in one["invalid"])
        rows.append(
            [
                one["how"],
                str(len(one["invalid"])),
                foreign(reasons) or "-",
                str(len(one["valid_after"])),
                cell("; ".join(one["ended"])) or "-",
                str(one["exit_code"]),
                number(one["seconds"]),
                "passed" if one["passed"] else "FAILED",
                when,
            ]
        )
    return (
        "### Hostile proposers\n\n`fovea kernel evolve` on the GPU with a proposer that misbehaves once: it hangs, writes garbage, or proposes "
        "a kernel that never ends.\n\n"
    ) + table(
        [
            "misdeed",
            "invalid candidates",
            "reason",
            "valid ones after it",
            "why it ended",
            "exit code",
            "seconds",
            "",
            "measured",
        ],
        rows,
    )


def gate_planted(found: list[dict]) -> str:
    one = found[-1]
    gates, choice = one["gates"], one["choice"]

    def of_gates(what: str, card: str, run: dict) -> list[str]:
        missed = [
            f"{level['level'] or level['kernel']}: {'; '.join(level['missed'])}"
            for level in run["levels"]
            if level["missed"]
        ]
        return [card, what, str(run["exit_code"]), cell("<br>".join(missed)) or "-"]

    text = (
        "### Gates and a planted slow-down\n\n`fovea kernel profile --gate`, and which kernel attention runs by the record of it "
        f"(`FOVEA_GATE_RECORD`). Measured {one['when']}.\n\n"
    ) + table(
        ["card", "sources", "exit code", "missed"],
        [
            of_gates("the program's", gates["card"], gates["before"]),
            of_gates(gates["what"], gates["card"], gates["after"]),
            of_gates(choice["what"], f"{choice['card']} {choice['case']}", choice["gates"]),
        ],
    )
    rows = [
        [
            record,
            run.get("level", "-"),
            f"`{run['kernel']}`" if run else "-",
            str(run.get("runs", "-")),
            str(len(run.get("notices", []))),
            cell("; ".join(run.get("notices", []))) or "-",
        ]
        for record, run in (("none", choice["before"]), ("with that slow-down", choice["after"]))
    ]
    return (
        text
        + "\n"
        + table(["record", "level that runs", "kernel", "runs in one process", "notices", "what they say"], rows)
    )


def with_spread(figures: dict) -> str:
    """The speed-up with both spreads, and AMBIGUOUS where it is no larger than these."""
    if "speed_up_over_model" not in figures:
        return "-"
    seconds, model = figures["seconds"], figures["model_seconds"]
    apart = abs(seconds - model) > max(figures["spread"] * seconds, figures["model_spread"] * model)
    return f"{figures['speed_up_over_model']:.2f}x{'' if apart else ' AMBIGUOUS'} (spread {figures['spread']:.0%}, Model's {figures['model_spread']:.0%})"


def judgements(found: list[dict]) -> str:
    shown = newest([((pathlib.Path(one["task"]).name, pathlib.Path(one["answer"]).name), one) for one in found])
    rows = [
        [
            f"`{pathlib.Path(one['task']).name}`",
            f"`{pathlib.Path(one['answer']).name}`",
            one["verdict"],
            cell("; ".join(one["reasons"])) or "-",
            with_spread(one.get("figures", {})),
            one["when"],
        ]
        for one in shown
    ]
    return (
        "### Foreign kernels\n\n`python -m fovea.lab.judge`: verdicts on answers in KernelBench's form. The speed-up is over Model; spreads are from the "
        "first to the third quartile of the times, and AMBIGUOUS means that the times differ by no more.\n\n"
    ) + table(["task", "answer", "verdict", "reasons", "speed-up", "measured"], rows)


SECTIONS = {
    "gates": gates,
    "profile": profiles,
    "planted": planted,
    "verdicts": verdicts,
    "compare": comparisons,
    "ledger": evolution,
    "judge": judgements,
    "sanitizers": sanitizers,
    "hostile": hostile,
    "gate_planted": gate_planted,
}


def section(found: dict[str, list[dict]]) -> str:
    """All tables of one machine's documents."""
    return "".join(render(found[kind]) + "\n" for kind, render in SECTIONS.items() if kind in found)
