"""Writes docs/performance.md with its plots, docs/gpu.md's table of accuracy and README.md's picture, from the
committed results, bench/results/<machine>/*.json.

    python3 bench/report.py           writes them
    python3 bench/report.py --check   fails when they are not what the results say, or when a result that they show has become too old

A section is of one run: the newest that has it, if it is not older than CONTRIBUTING.md allows (bench/ages.py). What is
too old, or was not measured, is named in its place."""

import json
import pathlib
import re
import sys

import ages
import gpu_sections
import laboratory
import plots
import runs
import sections
from laboratory import table

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
PLOTS = ROOT / "docs" / "plots"
GUIDE = ROOT / "docs" / "gpu.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- bench/report.py writes from here -->\n", "<!-- to here -->\n"  # in the guide and README.md
RESULTS = ROOT / "bench" / "results"
RECORDS = ROOT / "kernels" / "records"
UNTIL = re.compile(r"Ages are counted until commit ([0-9a-f]{12})\.")

INTRODUCTION = """\
# Performance

`bench/report.py` generates this page from the committed results in `bench/results/`; no figure is typed. A section is of one run on one machine, and Fovea's
figures stand beside those of its peers in that run, whose outputs were compared first: a ratio to a peer is to the best one of the same precision, and below 1
Fovea loses. Higher is better unless a column says seconds or MiB. `scripts/bench` measures your machine.

An age is the number of commits since the measured one to the folders that matter for the figure; [CONTRIBUTING.md](../CONTRIBUTING.md#how-old-a-figure-may-be)
says which these are and how many are too many. Ages are counted until commit {until}.
"""

# What is measured on a GPU, in the words of the line that tells what is missing.
ON_GPUS = {
    "gpu_bench": "the encoder",
    "gpu_end_to_end": "JPEGs",
    "accuracy": "accuracy",
    "kernels": "kernels",
    "texts": "texts",
    "naflex": "NaFlex",
    "features": "features",
    "search_times_gpu": "searches",
    "operators_attention": "operators",
    "operators_accepted": "acceptance",
    "sanitizers": "compute-sanitizer",
    "gates": "gates",
    "profile": "profiles",
}


def titled(name: str) -> str:
    return ON_GPUS.get(name, name.replace("_", " "))


def guide(text: str, until: str) -> str:
    """The guide with its table of accuracy, of the newest result on a GPU that is not too old."""
    results = [runs.parsed(path.read_text()) for path in runs.in_order(RESULTS.glob("nvidia-*/*.json"))]
    results = [
        result for result in results if "accuracy" in result and ages.age("accuracy", result["machine"], until).allowed
    ]
    told = "No result of `bench/gpu_accuracy.py` on a GPU is recent enough to be shown.\n"
    for result in results[-1:]:
        missed = gpu_sections.shortfalls(result["accuracy"])
        told = (
            table(gpu_sections.ACCURACY_COLUMNS, gpu_sections.accuracy_rows(result["accuracy"]))
            + "\n"
            + measured(result["machine"], "accuracy", until)
            + "\n\n"
            + (
                "What falls short of our own bars: " + "; ".join(missed)
                if missed
                else "bf16 is nearer to fp32 than torch's bf16 in the mean and in the 1st percentile; recall@10 is at most 0.005 (int8) and "
                "0.01 (fp8) below that of torch's bf16"
            )
            + ".\n"
        )
    return between(text, told)


def between(text: str, written: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + written + END + rest.partition(END)[2]


def readme(text: str, pictures: dict[str, plots.Picture]) -> str:
    """README.md with the encoder's picture: on a GPU, or else on CPUs."""
    shown = sorted(name for name in pictures if name.startswith("encoder-"))
    shown = [name for name in shown if "nvidia" in name] or shown
    return between(text, "".join(f"![{pictures[name].title}](docs/{PLOTS.name}/{name})\n" for name in shown[:1]))


def measured(machine: dict, name: str, until: str) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items())
    return f"Measured {machine['date']} at commit {machine['commit']}, {ages.age(name, machine, until)}; {versions}."


def results_of(folder: pathlib.Path, until: str) -> tuple[dict, dict, dict]:
    """Of one machine the newest result of each section and its documents, without those that are too old; and the ages
    of these, by what they are."""
    found, documents, old = {}, {}, {}
    for name, (result, machine) in runs.newest(folder).items():
        if name == "machine" or name not in sections.SECTIONS:
            continue
        age = ages.age(name, machine, until)
        if age.allowed:
            found[name] = result, machine
        else:
            old[name] = machine["commit"], age
    for kind, group in laboratory.documents(folder).items():
        if kind not in laboratory.SECTIONS:
            continue
        dated = [(one, ages.age(kind, one.get("machine") or {}, until)) for one in group]
        documents[kind] = [
            one | {"when": f"{one['when']}, {age.count} commit{'s' * (age.count != 1)} ago"}
            for one, age in dated
            if age.allowed
        ]
        if not documents[kind]:
            del documents[kind]
            old[kind] = dated[-1][0]["machine"]["commit"], dated[-1][1]
    return found, documents, old


def machine_section(folder: pathlib.Path, until: str) -> str:
    """The newest result of each section of one machine, and in a line what is not there."""
    found, documents, old = results_of(folder, until)
    known = runs.newest(folder)
    text = f"## {folder.name}\n\n"
    if "machine" in known:
        machine = known["machine"][0]
        cpu = machine["cpu"]
        text += f"{cpu['cores']} cores, {cpu['model']} ({', '.join(cpu['isa'])}), {machine['memory_gib']} GiB.\n\n"
        if gpu := machine.get("gpu"):
            forms = {"driver": "driver {}", "power_limit_w": "{} W", "max_sm_clock_mhz": "up to {} MHz"}
            text += (
                ", ".join([gpu["name"], *(form.format(gpu[key]) for key, form in forms.items() if key in gpu)])
                + ".\n\n"
            )
    missing = [
        f"{titled(name)} ({commit[:12]}: {age.count} commits, {age.most} are allowed)"
        for name, (commit, age) in old.items()
    ]
    on_gpu = any("gpu" in machine for _, machine in found.values()) or documents or folder.name.startswith("nvidia-")
    never = (
        [titled(name) for name in ON_GPUS if name not in found and name not in documents and name not in old]
        if on_gpu
        else []
    )
    if missing:
        text += f"Too old to be shown: {'; '.join(missing)}.\n\n"
    if never:
        text += f"Not measured: {', '.join(never)}.\n\n"
    for name, render in sections.SECTIONS.items():
        if name in found:
            result, machine = found[name]
            text += f"{render(result)}\n{measured(machine, name, until)}\n\n"
    return text + laboratory.section(documents)


def machines() -> list[pathlib.Path]:
    return sorted(path for path in RESULTS.glob("*") if path.is_dir())


def drawn(until: str) -> dict[str, plots.Picture]:
    return plots.pictures({folder.name: results_of(folder, until)[0] for folder in machines()})


def page(pictures: dict[str, plots.Picture], until: str) -> str:
    shown = [f"![{picture.title}]({PLOTS.name}/{name})\n" for name, picture in pictures.items()]
    parts = [INTRODUCTION.format(until=until), *shown, *(machine_section(folder, until) for folder in machines())]
    return "\n".join(parts).rstrip() + "\n"


def too_old(until: str) -> list[str]:
    """What the page shows, or the program chooses kernels by, and is by now older than CONTRIBUTING.md allows."""
    found = []
    for folder in machines():
        shown, documents, _ = results_of(folder, until)
        dated = [(name, machine) for name, (_, machine) in shown.items()]
        dated += [(kind, one["machine"]) for kind, group in documents.items() for one in group]
        found += [
            f"{folder.name}: {titled(name)}" for name, machine in dated if ages.age(name, machine, "HEAD").overdue
        ]
    return list(dict.fromkeys(found))


def old_records() -> list[str]:
    """The age of each record of gates that the program has; those that are too old fail."""
    old = []
    for path in sorted(RECORDS.glob("*.json")):
        age = ages.age("gate_record", json.loads(path.read_text())["machine"], "HEAD")
        print(f"{path.relative_to(ROOT)}: measured {age}")
        old += (
            [
                f"{path.relative_to(ROOT)} is too old: measure it again (fovea kernel profile --gate --record), or remove it"
            ]
            if age.overdue
            else []
        )
    return old


def check() -> int:
    """Against what the page says of itself, so that it stays what it is while commits follow; and its ages as of
    now."""
    named = UNTIL.search(PAGE.read_text()) if PAGE.exists() else None
    if not named or ages.git("merge-base", "--is-ancestor", named[1], "HEAD").returncode:
        print(f"{PAGE.relative_to(ROOT)} counts until no commit of this history; run python3 bench/report.py")
        return 1
    written = everything(named[1])
    wrong = [
        f"{path.relative_to(ROOT)} is not what bench/results/ says; run python3 bench/report.py"
        for path, text in written.items()
        if not path.exists() or path.read_text() != text
    ]
    wrong += [
        f"{path.relative_to(ROOT)} is no plot of bench/report.py" for path in PLOTS.glob("*") if path not in written
    ]
    wrong += [
        f"docs/performance.md shows what is too old by now: {name}; measure it again, or run python3 bench/report.py, which then names it as missing"
        for name in too_old(named[1])
    ]
    wrong += old_records()
    print(
        "\n".join(
            wrong
            or [
                "docs/performance.md, its plots, docs/gpu.md and README.md are what bench/results/ says, and nothing that they show is too old"
            ]
        )
    )
    return 1 if wrong else 0


def everything(until: str) -> dict[pathlib.Path, str]:
    pictures = drawn(until)
    return {
        PAGE: page(pictures, until),
        GUIDE: guide(GUIDE.read_text(), until),
        README: readme(README.read_text(), pictures),
    } | {PLOTS / name: str(picture) for name, picture in pictures.items()}


def main() -> int:
    if "--check" in sys.argv:
        return check()
    written = everything(ages.base())
    PLOTS.mkdir(exist_ok=True)
    for path in PLOTS.glob("*"):
        path.unlink()
    for path, text in written.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
