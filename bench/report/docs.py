"""Writes docs/performance.md with its plots, a page for each machine below docs/performance/, the accuracy table of
docs/gpu.md and the picture of README.md from the committed results in bench/results/<machine>/, and checks them against
the results.

A section shows a single run: the newest that has it, if it is not older than CONTRIBUTING.md allows (ages.py). Sections
that are too old or were not measured are named instead."""

import dataclasses
import json
import pathlib
import re
import sys
from collections.abc import Callable

import runs

from report import ages, evolution, gpu_sections, headlines, plots, profiles, sections, shapes, verdicts
from report.results import Document, parts, read
from report.tables import ROOT, Table, table

sys.path.append(str(ROOT / "scripts"))
from sentences import formatted  # noqa: E402

PAGE = ROOT / "docs" / "performance.md"
MACHINES = ROOT / "docs" / "performance"
PLOTS = ROOT / "docs" / "plots"
GUIDE = ROOT / "docs" / "gpu.md"
README = ROOT / "README.md"
COMMAND = "python3 bench/report"
BEGIN, END = "<!-- bench/report writes from here -->\n", "<!-- to here -->\n"  # in the guide and README.md
RESULTS = ROOT / "bench" / "results"
RECORDS = ROOT / "kernels" / "records"
UNTIL = re.compile(r"Ages are counted until commit ([0-9a-f]{12})\.")

INTRODUCTION = """\
# Performance

`bench/report` generates this page and those of the machines from the results in `bench/results/`; no figure is typed.
The table has what a user looks for, and each machine's page has everything.
A row is of one run on one machine, and Fovea's figure stands beside that of its best peer of the same precision in that
run, whose outputs were compared first: below 1x Fovea loses.
`scripts/bench` measures your machine.

{pictures}
{table}
{machines}
An age is the number of commits since the measured one to the folders that matter for the figure;
[CONTRIBUTING.md](../CONTRIBUTING.md#how-old-a-figure-may-be) says which these are and how many are too many.
Ages are counted until commit {until}.
"""

# Sections measured on a GPU, with the names that the list of missing sections gives them.
GPU_SECTIONS = {
    "gpu_bench": "the encoder", "gpu_end_to_end": "JPEGs", "accuracy": "accuracy", "kernels": "kernels",
    "texts": "texts", "naflex": "NaFlex",
    "features": "features", "search_times_gpu": "searches", "operators_attention": "operators",
    "operators_accepted": "acceptance",
    "sanitizers": "compute-sanitizer", "gates": "gates", "profile": "profiles",
}  # fmt: skip


def make_section(
    title: str, introduction: str, *render_functions: Callable[[list[Document]], Table]
) -> Callable[[list[Document]], str]:
    return lambda documents: (
        f"### {title}\n\n{introduction}\n\n" + "\n".join(render(documents).markdown() for render in render_functions)
    )


# Functions that render the laboratory's documents below bench/results/<machine>/, by kind of document.
LABORATORY: dict[str, Callable[[list[Document]], str]] = {
    "gates": profiles.gates_table,
    "profile": profiles.profile_table,
    "planted": make_section(
        "Planted causes",
        "`bench/planted.py`: a known cause of slowness, what `fovea kernel profile` says of it, and what `fovea kernel compare` says of it beside the "
        "kernel without it.", verdicts.planted_causes),
    "verdicts": make_section("Verdicts on known differences", "`fovea kernel compare`, run after run.",
    verdicts.known_differences),
    "compare": make_section(
        "Comparisons", "`fovea kernel compare`: A and B in turns on one GPU; the ratio is B's time to A's.",
        verdicts.comparisons),
    "ledger": evolution.table,
    "judge": make_section(
        "Foreign kernels",
        "`python -m fovea.lab.judge`: verdicts on answers in KernelBench's form. The speed-up is over Model; spreads are from the first to the third quartile "
        "of the times, and AMBIGUOUS means that the times differ by no more.", verdicts.judgements),
    "sanitizers": verdicts.sanitizers_table,
    "hostile": make_section(
        "Hostile proposers",
        "`fovea kernel evolve` on the GPU with a proposer that misbehaves once: it hangs, writes garbage, or proposes a kernel that never ends.",
        verdicts.misdeeds),
    "gate_planted": make_section(
        "Gates and a planted slow-down",
        "`fovea kernel profile --gate`, and which kernel attention runs by the record of it (`FOVEA_GATE_RECORD`).",
        verdicts.planted_gates, verdicts.planted_choices),
}  # fmt: skip


def section_title(name: str) -> str:
    return GPU_SECTIONS.get(name, name.replace("_", " "))


def guide(text: str, until: str) -> str:
    """Returns the text of docs/gpu.md with its accuracy table, from the newest result on a GPU that is not too old."""
    results = [runs.parse_result(path.read_text()) for path in runs.oldest_first(RESULTS.glob("nvidia-*/*.json"))]
    results = [
        result for result in results if "accuracy" in result and ages.age("accuracy", result["machine"], until).allowed
    ]
    if not results:
        return replace_generated(text, "No result of `bench/gpu_accuracy.py` on a GPU is recent enough to be shown.\n")
    accuracy, machine = results[-1]["accuracy"], results[-1]["machine"]
    missed = gpu_sections.shortfalls(accuracy)
    reached = (
        "bf16 is nearer to fp32 than torch's bf16 in the mean and in the 1st percentile; recall@10 is at most 0.005 (int8) and "
        "0.01 (fp8) below that of torch's bf16"
    )
    written = table(gpu_sections.ACCURACY_COLUMNS, gpu_sections.accuracy_rows(accuracy))
    written += f"\n{measurement_line(machine, 'accuracy', until)}\n\n"
    return replace_generated(
        text, written + (f"What falls short of our own bars: {'; '.join(missed)}" if missed else reached) + ".\n"
    )


def replace_generated(text: str, written: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + written + END + rest.partition(END)[2]


def readme(text: str, pictures: dict[str, plots.Plot]) -> str:
    """Returns the text of README.md with the encoder's picture: of a GPU, or else of CPUs."""
    shown = sorted(name for name in pictures if name.startswith("encoder-"))
    shown = [name for name in shown if "nvidia" in name] or shown
    return replace_generated(
        text, "".join(f"![{pictures[name].title}](docs/{PLOTS.name}/{name})\n" for name in shown[:1])
    )


def measurement_line(machine: dict, name: str, until: str) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items())
    return f"Measured {machine['date']} at commit {machine['commit']}, {ages.age(name, machine, until)}; {versions}."


def documents(folder: pathlib.Path) -> dict[str, list[Document]]:
    """Returns the documents in a machine's subfolders by kind, oldest first. Exits for a file that is not a result,
    which must not be committed."""
    documents_by_kind: dict[str, list[Document]] = {}
    for path in sorted(path for path in folder.glob("*/**/*") if path.suffix in (".json", ".jsonl")):
        if path.parent.name == "hostile":
            continue  # the verdict on these ledgers is in hostile.json
        try:
            document = read(path)
            for content, shape, name in parts(document):
                shapes.check(content, shape, name)
        except shapes.Damaged as error:
            sys.exit(f"{path} is not a valid result: {error}")
        cause = path.stem.rpartition("-")[0] if path.parent.name == "planted" else ""
        documents_by_kind.setdefault("planted" if cause else document.kind, []).append(
            dataclasses.replace(document, cause=cause)
        )
    for group in documents_by_kind.values():
        group.sort(key=lambda document: document.order)
    return documents_by_kind


@dataclasses.dataclass
class Machine:
    """The newest result of each section and the documents, as far as they are not too old, and the ages of those that
    are."""

    name: str
    hardware: dict  # of the latest measurement
    found: dict[str, tuple]
    documents: dict[str, list[Document]]
    old: dict[str, tuple[str, ages.Age]]


def read_machine(folder: pathlib.Path, until: str) -> Machine:
    newest = runs.newest(folder)
    machine = Machine(folder.name, newest["machine"][0] if "machine" in newest else {}, {}, {}, {})
    for name, (result, measured_on) in newest.items():
        if name in sections.SECTIONS:
            age = ages.age(name, measured_on, until)
            if age.allowed:
                machine.found[name] = result, measured_on
            else:
                machine.old[name] = measured_on["commit"], age
    for kind, group in documents(folder).items():
        if kind not in LABORATORY:
            continue
        dated = [(document, ages.age(kind, document.machine, until)) for document in group]
        shown = [
            dataclasses.replace(document, provenance=provenance(document, age))
            for document, age in dated
            if age.allowed
        ]
        if shown:
            machine.documents[kind] = shown
        else:
            machine.old[kind] = dated[-1][0].machine["commit"], dated[-1][1]
    return machine


def provenance(document: Document, age: ages.Age) -> str:
    content = document.json["run"] if document.kind == "ledger" else document.json
    early = f", stopped early: {content['partial']}" if "partial" in content else ""
    return f"{document.when}{early}, {age.count} commit{'s' * (age.count != 1)} ago"


def hardware_text(machine: Machine) -> str:
    if not machine.hardware:
        return ""
    cpu = machine.hardware["cpu"]
    text = f"{cpu['cores']} cores, {cpu['model']} ({', '.join(cpu['isa'])}), {machine.hardware['memory_gib']} GiB."
    if gpu := machine.hardware.get("gpu"):
        forms = {"driver": "driver {}", "power_limit_w": "{} W", "max_sm_clock_mhz": "up to {} MHz"}
        details = [form.format(gpu[key]) for key, form in forms.items() if key in gpu]
        text += f"\n\n{', '.join([gpu['name'], *details])}."
    return text


def machine_page(machine: Machine, until: str) -> str:
    """Returns a machine's page: the newest result of each section, and the names of the sections that are missing."""
    text = f"# {machine.name}\n\n{hardware_text(machine)}\n\n[performance.md](../performance.md) says what the figures mean, and counts the ages until its commit.\n\n"
    missing = [
        f"{section_title(name)} ({commit[:12]}: {age.count} commits, {age.limit} are allowed)"
        for name, (commit, age) in machine.old.items()
    ]
    on_gpu = (
        any("gpu" in measured_on for _, measured_on in machine.found.values())
        or machine.documents
        or machine.name.startswith("nvidia-")
    )
    known = {*machine.found, *machine.documents, *machine.old}
    never = [section_title(name) for name in GPU_SECTIONS if name not in known] if on_gpu else []
    if missing:
        text += f"Too old to be shown: {'; '.join(missing)}.\n\n"
    if never:
        text += f"Not measured: {', '.join(never)}.\n\n"
    for name, render in sections.SECTIONS.items():
        if name in machine.found:
            result, measured_on = machine.found[name]
            text += f"{render(result)}\n{measurement_line(measured_on, name, until)}\n\n"
    text += "".join(
        f"{render(machine.documents[kind])}\n" for kind, render in LABORATORY.items() if kind in machine.documents
    )
    return formatted(text).replace("\n### ", "\n## ")


def machines(until: str) -> list[Machine]:
    """Returns the machines, those with an NVIDIA GPU first."""
    folders = [path for path in RESULTS.glob("*") if path.is_dir()]
    folders.sort(key=lambda path: (not path.name.startswith("nvidia-"), path.name))
    return [read_machine(path, until) for path in folders]


def front_page(pictures: dict[str, plots.Plot], shown: list[Machine], until: str) -> str:
    rows = [row for machine in shown for row in headlines.rows(machine.name, machine.found)]
    listed = ""
    for machine in shown:
        link = f"[{machine.name}]({MACHINES.name}/{machine.name}.md)"
        listed += f"- {link}: {' '.join(hardware_text(machine).split())}\n"
    return formatted(INTRODUCTION.format(
        pictures="\n".join(f"![{picture.title}]({PLOTS.name}/{name})\n" for name, picture in pictures.items()),
        table=table(headlines.COLUMNS, rows), machines=listed, until=until))  # fmt: skip


def too_old(shown: list[Machine]) -> list[str]:
    """Returns the names of results on the pages that have become older than CONTRIBUTING.md allows."""
    overdue_results = []
    for machine in shown:
        dated = [(name, measured_on) for name, (_, measured_on) in machine.found.items()]
        dated += [(kind, document.machine) for kind, group in machine.documents.items() for document in group]
        overdue = (name for name, measured_on in dated if ages.age(name, measured_on, "HEAD").overdue)
        overdue_results += [f"{machine.name}: {section_title(name)}" for name in overdue]
    return list(dict.fromkeys(overdue_results))


def old_records() -> list[str]:
    """Prints the age of each committed record of gates, and returns a message for each one that is too old."""
    old = []
    for path in sorted(RECORDS.glob("*.json")):
        age = ages.age("gate_record", json.loads(path.read_text())["machine"], "HEAD")
        print(f"{path.relative_to(ROOT)}: measured {age}")
        if age.overdue:
            old.append(
                f"{path.relative_to(ROOT)} is too old: measure it again (fovea kernel profile --gate --record), or remove it"
            )
    return old


def everything(shown: list[Machine], until: str) -> dict[pathlib.Path, str]:
    pictures = plots.pictures({machine.name: machine.found for machine in shown})
    written = {
        PAGE: front_page(pictures, shown, until),
        GUIDE: guide(GUIDE.read_text(), until),
        README: readme(README.read_text(), pictures),
    }
    written |= {MACHINES / f"{machine.name}.md": machine_page(machine, until) for machine in shown}
    return written | {PLOTS / name: str(picture) for name, picture in pictures.items()}


def generated() -> list[pathlib.Path]:
    return [*PLOTS.glob("*"), *MACHINES.glob("*")]


def check() -> int:
    """Checks the documents against the results. Ages are counted until the commit that the page names, so that later
    commits do not change the page; whether a result is too old is decided by its age as of now."""
    named = UNTIL.search(PAGE.read_text()) if PAGE.exists() else None
    if not named or ages.git("merge-base", "--is-ancestor", named[1], "HEAD").returncode:
        print(f"{PAGE.relative_to(ROOT)} counts ages until a commit that is not in this history; run {COMMAND}")
        return 1
    shown = machines(named[1])
    written = everything(shown, named[1])
    wrong = [
        f"{path.relative_to(ROOT)} does not match bench/results/; run {COMMAND}"
        for path, text in written.items() if not path.exists() or path.read_text() != text
    ]  # fmt: skip
    wrong += [
        f"{path.relative_to(ROOT)} was not written by bench/report" for path in generated() if path not in written
    ]
    wrong += [
        f"docs/performance.md shows a result that has become too old: {name}; measure it again, or run {COMMAND}, "
        "which then lists it as missing"
        for name in too_old(shown)
    ]
    wrong += old_records()
    success = (
        "docs/performance.md, its machines' pages and plots, docs/gpu.md and README.md match bench/results/, "
        "and no result is too old"
    )
    print("\n".join(wrong or [success]))
    return 1 if wrong else 0


def write() -> int:
    until = ages.base_commit()
    written = everything(machines(until), until)
    for path in generated():
        path.unlink()
    for path, text in written.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0
