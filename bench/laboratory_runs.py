"""The sections of bench/run_gpu.py that run commands of the laboratory, and file the documents that these leave."""

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
from programs import HERE, log, run, words

ROOT = HERE.parent
# Each misdeed of tests/lab/hostile_proposer.py, and the gate at which its candidate is invalid. The last one stays on
# the GPU.
MISDEEDS = {"hang": "proposal", "garbage": "proposal", "endless": "process"}
GATED_CASE = "b64_h12_n1024_d64", (64, 12, 1024, 64)  # of attention, where another level reaches its gates, too
# Sources of the level that is chosen there.
LEVEL_SOURCES = ("kernels/attention/sm90_single_pass.cuh", "kernels/attention/sm90_online.cuh")
LEVEL_CLOCKS = 4_000_000  # two milliseconds: slower than the next level
GROWING = ("gates.json", "ledger.jsonl")  # are written again and again; all others are written once, at the end
FOREIGN = re.compile(r"(?<![\w/.~-])/(?:[\w.+@~-]+/)+[\w.+@~-]*")  # an absolute path; no end of a relative one or a URL


def chosen_cards(options, *default):
    return options.cards.split(",") if options.cards else list(default)


def cards_of(options):
    if options.cards:
        return chosen_cards(options)
    listed = subprocess.run([options.fovea, "kernel", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if not line.startswith(" ")]


def with_machine(document, described):
    """The document of a program, which knows its GPU, with the driver, the clocks and the commit as this script knows
    them."""
    recorded = document.get("machine") or {}
    gpu = described["gpu"] | (recorded.get("gpu") or {})
    versions = described["versions"] | (recorded.get("versions") or {})
    return document | {"machine": described | recorded | {"gpu": gpu, "versions": versions}}


def without_paths(options, value):
    """The same without folders of this machine: files of the checkout are relative to it, others are named alone."""
    if isinstance(value, dict):
        return {name: without_paths(options, part) for name, part in value.items()}
    if isinstance(value, list):
        return [without_paths(options, part) for part in value]
    if not isinstance(value, str):
        return value
    programs = {options.slower: "another program", options.against: "another program", options.fovea: "this program"}
    for path in sorted(filter(None, programs), key=len, reverse=True):
        value = value.replace(path, programs[path])
    return FOREIGN.sub(lambda found: pathlib.PurePath(found[0]).name, value.replace(f"{ROOT}/", ""))


def lines_of(ledger):
    """Entries of a ledger, of whole lines only; none where there is no file."""
    written = ledger.read_text().splitlines(keepends=True) if ledger.exists() else []
    return [json.loads(line) for line in written if line.endswith("\n")]


def filed(options, documents, name, described, partial=""):
    """Puts what a program made, a document or the entries of a ledger, into the folder of this run."""
    documents = [without_paths(options, document) for document in documents]
    if not documents:
        return
    documents[0] = with_machine(documents[0], described) | ({"partial": partial} if partial else {})
    place = options.json.with_suffix("") / name
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f"{place.name}.new")  # so that whoever stops this script keeps the one before
    indent = None if place.suffix == ".jsonl" else 1
    new.write_text("".join(json.dumps(document, indent=indent) + "\n" for document in documents))
    new.replace(place)


def laboratory(options, command, folder, patterns, cwd=None, codes=(0,), last=None):
    """Runs a command of the laboratory, and files what it leaves in a folder of `patterns` ({its name: our name}).
    It has failed when it left nothing, when it did not end, or ended with none of these exit codes, or without the file
    that it writes `last`. What it had made by then stays, and what would have grown says so."""
    described = machine.describe(options.fovea, "cuda")  # now: to ask during the measurement would disturb it
    seen = {}

    def file(partial):
        for pattern, name in patterns.items():
            for path in sorted(folder.glob(pattern)):
                changed = path.stat().st_mtime_ns
                if seen.get(path) != changed:
                    documents = lines_of(path) if path.suffix == ".jsonl" else [json.loads(path.read_text())]
                    unfinished = partial if path.name in GROWING else ""
                    filed(options, documents, name.format(path.stem), described, unfinished)
                    seen[path] = changed

    def tick():
        with contextlib.suppress(ValueError):  # the program is writing it
            file("it was stopped")

    try:
        done = run(command, options.seconds, tick, stdout=sys.stderr, cwd=cwd).returncode
        failure = "" if done in codes and (last is None or last.exists()) else f"exit code {done}"
    except subprocess.TimeoutExpired:
        failure = f"no end within {options.seconds:.0f} s"
    seen.clear()
    file(failure)
    if failure or not seen:
        told = f"failed ({failure})" if failure else "ended"
        left = ", ".join(path.name for path in seen) or "no results"
        log(f"{shlex.join(map(str, command))} {told} and left {left}")
        options.failed = True


def in_folder(section):
    """Makes a section of what works in a folder of its own, files documents and has no figures."""

    @functools.wraps(section)
    def with_folder(options):
        with tempfile.TemporaryDirectory() as folder:
            section(options, pathlib.Path(folder))
        return {}

    return with_folder


@in_folder
def profiles(options, folder):
    chosen = [(f"{line.split()[0]}-{number}", line) for number, line in enumerate(options.profile, 1)]
    for name, line in chosen or [(card, card) for card in cards_of(options)]:
        command = [options.fovea, "kernel", "profile", *shlex.split(line), "--output", folder / name]
        laboratory(options, command, folder, {f"{name}.json": "profiles/{}.json"})


@in_folder
def gates(options, folder):
    (folder / "profiles").mkdir()
    names = words(gate=True, record=folder / "gates.json", output=folder / "profiles")
    patterns = {"gates.json": "gates.json", "profiles/*.json": "profiles/{}.json"}
    # A gate that is missed and an error have the same exit code.
    last = folder / "end.json"
    command = [options.fovea, "kernel", "profile", *chosen_cards(options), *names, f"--json={last}"]
    laboratory(options, command, folder, patterns, codes=(0, 1), last=last)


@in_folder
def sanitizers(options, folder):
    command = [options.fovea, "kernel", "sanitize", *chosen_cards(options), "--output", folder]
    laboratory(options, command, folder, {"sanitizers.json": "sanitizers.json"}, codes=(0, 1))


@in_folder
def compare(options, folder):
    for card in chosen_cards(options, "gemm_qkv_bf16", "attention"):
        command = [options.fovea, "kernel", "compare", card, "--with-program", options.against or options.fovea]
        laboratory(options, [*command, f"--json={folder}/{card}.json"], folder, {f"{card}.json": "compare/{}.json"})
    for level in ("wmma", "mma"):
        names = words(case=GATED_CASE[0], level=level, output=folder / f"attention-{level}")
        done = run([options.fovea, "kernel", "profile", "attention", *names], options.seconds, stdout=sys.stderr)
        options.failed |= done.returncode != 0
    command = [options.fovea, "kernel", "compare", "attention-wmma.json", "attention-mma.json"]
    saved = "saved_profiles.json"
    laboratory(options, [*command, f"--json={saved}"], folder, {saved: "compare/{}.json"}, folder)


@in_folder
def gate_planted(options, folder):
    """Gates beside a planted slow-down: whether they fail, and whether the record of it changes which kernel runs."""
    described = machine.describe(options.fovea, "cuda")
    store = causes.CAUSES["store"]
    causes.plant(store, folder / "store")
    planted_slow.write_sources(folder / "slow", LEVEL_CLOCKS, LEVEL_SOURCES)

    def gated(name, card, *more):
        """What a run of gates says of each level. --record refuses --sources, since a record is of the program's
        own kernels; what --json leaves has the same form, and FOVEA_GATE_RECORD reads it where someone means to."""
        command = [options.fovea, "kernel", "profile", card, *more, "--gate", f"--json={name}.json"]
        code = run(command, options.seconds, stdout=sys.stderr, cwd=folder).returncode
        record = folder / f"{name}.json"
        levels = json.loads(record.read_text())["levels"] if record.exists() else []
        kept = [
            {key: level[key] for key in ("card", "case", "level", "kernel", "passed", "seconds")}
            | {"missed": [gate["words"] for gate in level["gates"] if not gate["passed"]]}
            for level in levels
        ]
        options.failed |= not kept
        return {"exit_code": code, "levels": kept}

    def chosen(record):
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
            "before": gated("ours", store.run[0]),
            "after": gated("store_gates", store.run[0], "--sources", "store"),
        },
        "choice": {
            "what": f"sources whose wgmma kernels wait for {LEVEL_CLOCKS} clocks",
            "card": "attention",
            "case": GATED_CASE[0],
            "gates": gated("slow_gates", "attention", "--case", GATED_CASE[0], "--sources", "slow"),
            "before": chosen("none"),
            "after": chosen("slow_gates.json"),
        },
    }
    filed(options, [document], "gate_planted.json", described)


@in_folder
def hostile(options, folder):
    """evolve with a proposer that does one misdeed and is honest then, each in a run of its own."""
    described = machine.describe(options.fovea, "cuda")
    found = []
    for how, gate in MISDEEDS.items():
        ledger = folder / f"{how}.jsonl"
        command = [options.fovea, "kernel", "evolve", "attention", "--level", "wmma", "--case", "b2_h8_n512_d64_f16"]
        command += words(candidate_seconds=options.candidate_seconds, answer_seconds=5, ledger=ledger)
        command += ["--proposer", sys.executable, ROOT / "tests/lab/hostile_proposer.py", how, "honest"]
        began = time.monotonic()
        try:
            code = run(command, options.seconds, stdout=sys.stderr).returncode
        except subprocess.TimeoutExpired:
            code = None
        lines = lines_of(ledger)
        candidates = [line for line in lines if line["kind"] == "candidate"]
        invalid = [line for line in candidates if not line["valid"]]
        ended = [line for line in lines if line["kind"] == "end"]
        # The search must end by itself, without Ctrl-C, and have a valid candidate on the GPU after the misdeed.
        first = invalid[0]["number"] if invalid else float("inf")
        valid_after = [line["number"] for line in candidates if line["valid"] and line["number"] > first]
        passed = (
            code == 0
            and [line["failed_at"] for line in invalid] == [gate]
            and bool(valid_after)
            and [line["why"] for line in ended] == ["exhausted"]
        )
        found.append({
            "how": how,
            "exit_code": code,
            "candidates": len(candidates),
            "invalid": [{key: line[key] for key in ("number", "failed_at", "why")} for line in invalid],
            "valid_after": valid_after,
            "ended": [line["words"] for line in ended],
            "seconds": round(time.monotonic() - began, 1),
            "passed": passed,
        })  # fmt: skip
        options.failed |= not passed
        filed(options, lines, f"hostile/{how}.jsonl", described)
        filed(options, [{"kind": "hostile", "misdeeds": found}], "hostile.json", described)


@in_folder
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


@in_folder
def verdicts(options, folder):
    for card in chosen_cards(options, "gemm_qkv_bf16"):
        try:
            verdicts_on(options, card, folder)
        except (ValueError, subprocess.SubprocessError) as error:
            log(f"{card}: {error}")
            options.failed = True


def verdicts_on(options, card, folder):
    percent, truth = 2, {"truth": "SLOWER"}
    described = machine.describe(options.fovea, "cuda")
    slower = f"a build that is {percent}% slower", truth, ["--with-program", options.slower]
    if not options.slower:
        names = words(card, percent=percent, program=options.fovea, output=folder / "slow")
        done = run([sys.executable, HERE / "planted_slow.py", *names], options.seconds, stdout=subprocess.PIPE)
        done.check_returncode()
        truth |= {"percent": json.loads(done.stdout)["percent"]}
        slower = f"sources that are {percent}% slower", truth, ["--with-sources", "slow"]
    sides = [("the program beside itself", {"truth": "SAME"}, ["--with-program", options.fovea]), slower]
    documents = [{"kind": "verdicts", "card": card, "what": what, **truth, "runs": []} for what, truth, _ in sides]
    for seed, number in itertools.product(range(1, options.runs + 1), range(len(sides))):
        command = [options.fovea, "kernel", "compare", card, *sides[number][2], "--seed", str(seed), "--json"]
        done = run(command, options.seconds, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
        if done.returncode:
            log(f"{shlex.join(command)} failed: {done.stderr}")
            options.failed = True
            continue
        found = json.loads(done.stdout)
        documents[number]["runs"].append({name: found[name] for name in ("verdict", "ratio", "interval", "rounds")})
        # After each: whoever stops it keeps this.
        filed(options, [documents[number]], f"verdicts/{card}-{number + 1}.json", described)


@in_folder
def evolve(options, folder):
    for number, line in enumerate(options.evolve, 1):
        place = folder / str(number)
        place.mkdir()
        command = [options.fovea, "kernel", "evolve", *shlex.split(line), "--ledger", place / "ledger.jsonl"]
        laboratory(options, command, place, {"ledger.jsonl": f"evolve/{number}.jsonl"})


@in_folder
def judge(options, folder):
    answers = pathlib.Path(options.answers)
    for answer in sorted(path for path in answers.glob("*.py") if path.name != "task.py"):
        file = folder / f"{answer.stem}.json"
        names = words(answers / "task.py", answer, device=options.device, json=file)
        command = [sys.executable, "-m", "fovea.lab.judge", *names]
        laboratory(options, command, folder, {file.name: "judge/{}.json"}, codes=(0, 1))


SECTIONS = {
    section.__name__: section
    for section in (profiles, gates, sanitizers, compare, evolve, judge, planted, verdicts, gate_planted, hostile)
}
ONLY_NAMED = {"evolve", "judge", "planted", "verdicts", "gate_planted", "hostile"}  # each takes as long as it is told
