"""Sections of bench/run_gpu.py that run the laboratory's commands and file the documents that these write."""

import contextlib
import functools
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

import machine
import planted as causes
import planted_slow
from programs import HERE, command_arguments, log, run

ROOT = HERE.parent
# Each misbehaviour of tests/lab/hostile_proposer.py, and the gate that must reject its candidate. The candidate of
# "endless" never returns from the GPU.
MISBEHAVIOURS = {"hang": "proposal", "garbage": "proposal", "endless": "process"}
# A case of attention where more than one level passes its gates.
GATED_CASE = "b64_h12_n1024_d64", (64, 12, 1024, 64)
# Sources of the level that is chosen for GATED_CASE.
LEVEL_SOURCES = ("kernels/attention/sm90_single_pass.cuh", "kernels/attention/sm90_online.cuh")
WAIT_CLOCKS = 4_000_000  # about 2 ms, which makes the level slower than the next one
REWRITTEN_FILES = ("gates.json", "ledger.jsonl")  # rewritten during a run; all others are written once, at its end
FOREIGN = re.compile(
    r"(?<![\w/.~-])/(?:[\w.+@~-]+/)+[\w.+@~-]*"
)  # absolute paths, but not the tails of relative paths or URLs


def chosen_cards(options, *default):
    return options.cards.split(",") if options.cards else list(default)


def selected_cards(options):
    if options.cards:
        return chosen_cards(options)
    listed = subprocess.run([options.fovea, "kernel", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if not line.startswith(" ")]


def add_machine(document, described):
    """Returns a program's document, which describes its GPU, completed with the machine description of this script:
    driver, clocks and commit."""
    recorded = document.get("machine") or {}
    gpu = described["gpu"] | (recorded.get("gpu") or {})
    versions = described["versions"] | (recorded.get("versions") or {})
    return document | {"machine": described | recorded | {"gpu": gpu, "versions": versions}}


def strip_paths(options, value):
    """Returns the value without folders of this machine: paths in the checkout become relative to it, and others become
    file names."""
    if isinstance(value, dict):
        return {name: strip_paths(options, part) for name, part in value.items()}
    if isinstance(value, list):
        return [strip_paths(options, part) for part in value]
    if not isinstance(value, str):
        return value
    programs = {options.slower: "another program", options.against: "another program", options.fovea: "this program"}
    for path in sorted(filter(None, programs), key=len, reverse=True):
        value = value.replace(path, programs[path])
    return FOREIGN.sub(lambda match: pathlib.PurePath(match[0]).name, value.replace(f"{ROOT}/", ""))


def ledger_entries(ledger):
    """Returns the entries of a ledger, without an incomplete last line, or [] where the file is missing."""
    written = ledger.read_text().splitlines(keepends=True) if ledger.exists() else []
    return [json.loads(line) for line in written if line.endswith("\n")]


def file_documents(options, documents, name, described, partial=""):
    """Writes a program's document, or the entries of its ledger, into the folder of this run."""
    documents = [strip_paths(options, document) for document in documents]
    if not documents:
        return
    documents[0] = add_machine(documents[0], described) | ({"partial": partial} if partial else {})
    destination = options.json.with_suffix("") / name
    destination.parent.mkdir(parents=True, exist_ok=True)
    new = destination.with_name(f"{destination.name}.new")  # the previous file survives when this script is stopped
    indent = None if destination.suffix == ".jsonl" else 1
    new.write_text("".join(json.dumps(document, indent=indent) + "\n" for document in documents))
    new.replace(destination)


def laboratory(options, command, folder, patterns, cwd=None, codes=(0,), last=None):
    """Runs a command of the laboratory, and files the documents that it writes into `folder`; `patterns` maps their
    names to those in the results. The command has failed when it wrote none, timed out, ended with an exit code other
    than `codes`, or did not write the file `last`. Documents of a failed run are kept, and those that were still being
    extended are marked as partial."""
    described = machine.describe(options.fovea, "cuda")  # before the run, which nvidia-smi would disturb
    modification_times = {}

    def file(partial):
        for pattern, name in patterns.items():
            for path in sorted(folder.glob(pattern)):
                changed = path.stat().st_mtime_ns
                if modification_times.get(path) != changed:
                    documents = ledger_entries(path) if path.suffix == ".jsonl" else [json.loads(path.read_text())]
                    unfinished = partial if path.name in REWRITTEN_FILES else ""
                    file_documents(options, documents, name.format(path.stem), described, unfinished)
                    modification_times[path] = changed

    def tick():
        with contextlib.suppress(ValueError):  # the program may be writing the file
            file("it was stopped")

    try:
        done = run(command, options.seconds, tick, stdout=sys.stderr, cwd=cwd).returncode
        failure = "" if done in codes and (last is None or last.exists()) else f"exit code {done}"
    except subprocess.TimeoutExpired:
        failure = f"timed out after {options.seconds:.0f} s"
    modification_times.clear()
    file(failure)
    if failure or not modification_times:
        outcome = f"failed ({failure})" if failure else "ended"
        left = ", ".join(path.name for path in modification_times) or "no results"
        log(f"{shlex.join(map(str, command))} {outcome} and left {left}")
        options.failed = True


def documents_only(section):
    """Makes a section of a function that works in a temporary folder and files documents, but returns no figures."""

    @functools.wraps(section)
    def with_folder(options):
        with tempfile.TemporaryDirectory() as folder:
            section(options, pathlib.Path(folder))
        return {}

    return with_folder


@documents_only
def profiles(options, folder):
    chosen_kernel = [(f"{line.split()[0]}-{number}", line) for number, line in enumerate(options.profile, 1)]
    for name, line in chosen_kernel or [(card, card) for card in selected_cards(options)]:
        command = [options.fovea, "kernel", "profile", *shlex.split(line), "--output", folder / name]
        laboratory(options, command, folder, {f"{name}.json": "profiles/{}.json"})


@documents_only
def gates(options, folder):
    (folder / "profiles").mkdir()
    arguments = command_arguments(gate=True, record=folder / "gates.json", output=folder / "profiles")
    patterns = {"gates.json": "gates.json", "profiles/*.json": "profiles/{}.json"}
    # A missed gate and an error have the same exit code, so success is recognised by the file that is written last.
    last = folder / "end.json"
    command = [options.fovea, "kernel", "profile", *chosen_cards(options), *arguments, f"--json={last}"]
    laboratory(options, command, folder, patterns, codes=(0, 1), last=last)


@documents_only
def sanitizers(options, folder):
    command = [options.fovea, "kernel", "sanitize", *chosen_cards(options), "--output", folder]
    laboratory(options, command, folder, {"sanitizers.json": "sanitizers.json"}, codes=(0, 1))


@documents_only
def compare(options, folder):
    for card in chosen_cards(options, "gemm_qkv_bf16", "attention"):
        command = [options.fovea, "kernel", "compare", card, "--with-program", options.against or options.fovea]
        laboratory(options, [*command, f"--json={folder}/{card}.json"], folder, {f"{card}.json": "compare/{}.json"})
    for level in ("wmma", "mma"):
        arguments = command_arguments(case=GATED_CASE[0], level=level, output=folder / f"attention-{level}")
        done = run([options.fovea, "kernel", "profile", "attention", *arguments], options.seconds, stdout=sys.stderr)
        options.failed |= done.returncode != 0
    command = [options.fovea, "kernel", "compare", "attention-wmma.json", "attention-mma.json"]
    saved = "saved_profiles.json"
    laboratory(options, [*command, f"--json={saved}"], folder, {saved: "compare/{}.json"}, folder)


@documents_only
def gate_planted(options, folder):
    """Runs gates on sources with a planted slow-down: checks that they fail, and that their record changes which kernel
    is chosen."""
    described = machine.describe(options.fovea, "cuda")
    store = causes.CAUSES["store"]
    causes.plant(store, folder / "store")
    planted_slow.write_sources(folder / "slow", WAIT_CLOCKS, LEVEL_SOURCES)

    def run_gates(name, card, *more):
        """Returns the exit code of a run of gates and the outcome of each level. --record refuses --sources, because a
        record describes the program's own kernels; but the file of --json has the same form, and FOVEA_GATE_RECORD
        reads it."""
        command = [options.fovea, "kernel", "profile", card, *more, "--gate", f"--json={name}.json"]
        code = run(command, options.seconds, stdout=sys.stderr, cwd=folder).returncode
        record = folder / f"{name}.json"
        levels = json.loads(record.read_text())["levels"] if record.exists() else []
        level_outcomes = [
            {key: level[key] for key in ("card", "case", "level", "kernel", "passed", "seconds")}
            | {"missed": [gate["words"] for gate in level["gates"] if not gate["passed"]]}
            for level in levels
        ]
        options.failed |= not level_outcomes
        return {"exit_code": code, "levels": level_outcomes}

    def chosen_kernel(record):
        command = [sys.executable, HERE / "gate_choice.py", *GATED_CASE[1]]
        variables = os.environ | {"FOVEA_GATE_RECORD": record}
        done = run(command, options.seconds, stdout=subprocess.PIPE, cwd=folder, env=variables)
        options.failed |= done.returncode != 0
        return json.loads(done.stdout) if done.returncode == 0 else {}

    document = {
        "kind": "gate_planted",
        "gates": {
            "what": 'sources with the planted cause "store"',
            "card": store.run[0],
            "before": run_gates("ours", store.run[0]),
            "after": run_gates("store_gates", store.run[0], "--sources", "store"),
        },
        "choice": {
            "what": f"sources whose wgmma kernels wait for {WAIT_CLOCKS} clocks",
            "card": "attention",
            "case": GATED_CASE[0],
            "gates": run_gates("slow_gates", "attention", "--case", GATED_CASE[0], "--sources", "slow"),
            "before": chosen_kernel("none"),
            "after": chosen_kernel("slow_gates.json"),
        },
    }
    file_documents(options, [document], "gate_planted.json", described)


@documents_only
def hostile(options, folder):
    """Runs evolve once per misbehaviour, with a proposer that misbehaves first and is honest afterwards."""
    described = machine.describe(options.fovea, "cuda")
    outcomes = []
    for misbehaviour, gate in MISBEHAVIOURS.items():
        ledger = folder / f"{misbehaviour}.jsonl"
        command = [options.fovea, "kernel", "evolve", "attention", "--level", "wmma", "--case", "b2_h8_n512_d64_f16"]
        command += command_arguments(candidate_seconds=options.candidate_seconds, answer_seconds=5, ledger=ledger)
        command += ["--proposer", sys.executable, ROOT / "tests/lab/hostile_proposer.py", misbehaviour, "honest"]
        began = time.monotonic()
        try:
            code = run(command, options.seconds, stdout=sys.stderr).returncode
        except subprocess.TimeoutExpired:
            code = None
        lines = ledger_entries(ledger)
        candidates = [line for line in lines if line["kind"] == "candidate"]
        invalid = [line for line in candidates if not line["valid"]]
        ended = [line for line in lines if line["kind"] == "end"]
        # The search must end without Ctrl-C, and find a valid candidate on the GPU after the invalid one.
        first = invalid[0]["number"] if invalid else float("inf")
        valid_after = [line["number"] for line in candidates if line["valid"] and line["number"] > first]
        passed = (
            code == 0
            and [line["failed_at"] for line in invalid] == [gate]
            and bool(valid_after)
            and [line["why"] for line in ended] == ["exhausted"]
        )
        outcomes.append({
            "how": misbehaviour,
            "exit_code": code,
            "candidates": len(candidates),
            "invalid": [{key: line[key] for key in ("number", "failed_at", "why")} for line in invalid],
            "valid_after": valid_after,
            "ended": [line["words"] for line in ended],
            "seconds": round(time.monotonic() - began, 1),
            "passed": passed,
        })  # fmt: skip
        options.failed |= not passed
        file_documents(options, lines, f"hostile/{misbehaviour}.jsonl", described)
        file_documents(options, [{"kind": "hostile", "misdeeds": outcomes}], "hostile.json", described)


@documents_only
def planted(options, folder):
    for name in options.causes.split(",") if options.causes else causes.CAUSES:
        cause = causes.CAUSES[name]
        try:
            causes.plant(cause, folder / name)
        except ValueError as error:
            log(f"{name}: {error}")
            options.failed = True
            continue
        profile, moved = f"{name}-profile", f"{name}-compare"
        command = [options.fovea, "kernel", "profile", *cause.run, "--sources", name, "--output", profile]
        laboratory(options, command, folder, {f"{profile}.json": "planted/{}.json"}, folder)
        command = [options.fovea, "kernel", "compare", *cause.run, "--with-sources", name, "--profile"]
        laboratory(options, [*command, f"--json={moved}.json"], folder, {f"{moved}.json": "planted/{}.json"}, folder)


@documents_only
def verdicts(options, folder):
    for card in chosen_cards(options, "gemm_qkv_bf16"):
        try:
            compare_repeatedly(options, card, folder)
        except (ValueError, subprocess.SubprocessError) as error:
            log(f"{card}: {error}")
            options.failed = True


def compare_repeatedly(options, card, folder):
    percent, truth = 2, {"truth": "SLOWER"}
    described = machine.describe(options.fovea, "cuda")
    slower = f"a build that is {percent}% slower", truth, ["--with-program", options.slower]
    if not options.slower:
        arguments = command_arguments(card, percent=percent, program=options.fovea, output=folder / "slow")
        done = run([sys.executable, HERE / "planted_slow.py", *arguments], options.seconds, stdout=subprocess.PIPE)
        done.check_returncode()
        truth |= {"percent": json.loads(done.stdout)["percent"]}
        slower = f"sources that are {percent}% slower", truth, ["--with-sources", "slow"]
    sides = [("the program against itself", {"truth": "SAME"}, ["--with-program", options.fovea]), slower]
    documents = [{"kind": "verdicts", "card": card, "what": what, **truth, "runs": []} for what, truth, _ in sides]
    for seed, number in itertools.product(range(1, options.runs + 1), range(len(sides))):
        command = [options.fovea, "kernel", "compare", card, *sides[number][2], "--seed", str(seed), "--json"]
        done = run(command, options.seconds, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
        if done.returncode:
            log(f"{shlex.join(command)} failed: {done.stderr}")
            options.failed = True
            continue
        verdict = json.loads(done.stdout)
        documents[number]["runs"].append({name: verdict[name] for name in ("verdict", "ratio", "interval", "rounds")})
        # Filed after each run, so that a stopped script keeps its results.
        file_documents(options, [documents[number]], f"verdicts/{card}-{number + 1}.json", described)


@documents_only
def evolve(options, folder):
    for number, line in enumerate(options.evolve, 1):
        run_folder = folder / str(number)
        run_folder.mkdir()
        command = [options.fovea, "kernel", "evolve", *shlex.split(line), "--ledger", run_folder / "ledger.jsonl"]
        laboratory(options, command, run_folder, {"ledger.jsonl": f"evolve/{number}.jsonl"})


@documents_only
def judge(options, folder):
    answers = pathlib.Path(options.answers)
    for answer in sorted(path for path in answers.glob("*.py") if path.name != "task.py"):
        file = folder / f"{answer.stem}.json"
        arguments = command_arguments(answers / "task.py", answer, device=options.device, json=file)
        command = [sys.executable, "-m", "fovea.lab.judge", *arguments]
        laboratory(options, command, folder, {file.name: "judge/{}.json"}, codes=(0, 1))


SECTIONS = {
    section.__name__: section
    for section in (profiles, gates, sanitizers, compare, evolve, judge, planted, verdicts, gate_planted, hostile)
}
EXPLICIT_SECTIONS = {
    "evolve",
    "judge",
    "planted",
    "verdicts",
    "gate_planted",
    "hostile",
}  # run only where they are named: their duration is set by options
