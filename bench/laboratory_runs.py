"""The sections of bench/run_gpu.py that run commands of the laboratory, and file the documents that these leave."""

import contextlib
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
from programs import HERE, run

ROOT = HERE.parent
# Each misdeed of tests/lab/hostile_proposer.py, and the gate at which its candidate is invalid. The last one stays on
# the GPU.
MISDEEDS = {"hang": "proposal", "garbage": "proposal", "endless": "process"}
GATED_CASE = "b64_h12_n1024_d64", (64, 12, 1024, 64)  # of attention, where another level reaches its gates, too
LEVEL_SOURCES = (
    "kernels/attention/sm90_single_pass.cuh",
    "kernels/attention/sm90_online.cuh",
)  # of the level that is chosen there
LEVEL_CLOCKS = 4_000_000  # two milliseconds: slower than the next level
GROWING = ("gates.json", "ledger.jsonl")  # are written again and again; all others are written once, at the end
FOREIGN = re.compile(r"(?<![\w/.~-])/(?:[\w.+@~-]+/)+[\w.+@~-]*")  # an absolute path; no end of a relative one or a URL


def cards_of(options):
    if options.cards:
        return options.cards.split(",")
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


def filed(options, made, name, described, partial=""):
    """Puts what a program made, JSON or JSON lines, into the folder of this run; of lines only those that are whole."""
    lines = [made.read_text()]
    if made.suffix == ".jsonl":
        lines = [line for line in lines[0].splitlines(keepends=True) if line.endswith("\n")]
    documents = [without_paths(options, json.loads(line)) for line in lines]
    if not documents:
        return
    documents[0] = with_machine(documents[0], described) | ({"partial": partial} if partial else {})
    place = options.json.with_suffix("") / name
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f"{place.name}.new")  # so that whoever stops this script keeps the one before
    indent = None if made.suffix == ".jsonl" else 1
    new.write_text("".join(json.dumps(document, indent=indent) + "\n" for document in documents))
    new.replace(place)


def laboratory(options, command, folder, patterns, cwd=None, codes=(0,), last=None):
    """Runs a command of the laboratory, and files what it leaves in a folder of `patterns` ({its name: our name}).
    It has failed when it left nothing, when it did not end, or ended with none of these exit codes, or without the file
    that it writes `last`. What it had made by then stays, and what would have grown says so."""
    described = machine.describe(options.fovea) | {
        "gpu": machine.gpu()
    }  # now: to ask during the measurement would disturb it
    seen = {}

    def file(partial):
        for pattern, name in patterns.items():
            for path in sorted(folder.glob(pattern)):
                changed = path.stat().st_mtime_ns
                if seen.get(path) != changed:
                    filed(options, path, name.format(path.stem), described, partial if path.name in GROWING else "")
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
        print(f"{shlex.join(map(str, command))} {told} and left {left}", file=sys.stderr)
        options.failed = True


def profiles(options):
    chosen = [(f"{words.split()[0]}-{number}", words) for number, words in enumerate(options.profile, 1)]
    for name, words in chosen or [(card, card) for card in cards_of(options)]:
        with tempfile.TemporaryDirectory() as folder:
            command = [options.fovea, "kernel", "profile", *shlex.split(words), "--output", f"{folder}/{name}"]
            laboratory(options, command, pathlib.Path(folder), {"*.json": "profiles/{}.json"})
    return {}


def gates(options):
    with tempfile.TemporaryDirectory() as folder:
        cards = options.cards.split(",") if options.cards else []
        kept = pathlib.Path(folder) / "profiles"
        kept.mkdir()
        command = [
            options.fovea,
            "kernel",
            "profile",
            *cards,
            "--gate",
            "--record",
            f"{folder}/gates.json",
            "--output",
            kept,
        ]
        patterns = {"gates.json": "gates.json", "profiles/*.json": "profiles/{}.json"}
        # A gate that is missed and an error have the same exit code.
        last = pathlib.Path(folder) / "end.json"
        laboratory(options, [*command, f"--json={last}"], last.parent, patterns, codes=(0, 1), last=last)
    return {}


def sanitizers(options):
    with tempfile.TemporaryDirectory() as folder:
        cards = options.cards.split(",") if options.cards else []
        command = [options.fovea, "kernel", "sanitize", *cards, "--output", folder]
        laboratory(options, command, pathlib.Path(folder), {"sanitizers.json": "sanitizers.json"}, codes=(0, 1))
    return {}


def compare(options):
    for card in options.cards.split(",") if options.cards else ["gemm_qkv_bf16", "attention"]:
        with tempfile.TemporaryDirectory() as folder:
            other = options.against or options.fovea
            command = [
                options.fovea,
                "kernel",
                "compare",
                card,
                "--with-program",
                other,
                f"--json={folder}/{card}.json",
            ]
            laboratory(options, command, pathlib.Path(folder), {"*.json": "compare/{}.json"})
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        for level in ("wmma", "mma"):
            command = [options.fovea, "kernel", "profile", "attention", "--case", GATED_CASE[0], "--level", level]
            done = run([*command, "--output", place / f"attention-{level}"], options.seconds, stdout=sys.stderr)
            options.failed |= done.returncode != 0
        command = [
            options.fovea,
            "kernel",
            "compare",
            "attention-wmma.json",
            "attention-mma.json",
            "--json=saved_profiles.json",
        ]
        laboratory(options, command, place, {"saved_profiles.json": "compare/{}.json"}, place)
    return {}


def gate_planted(options):
    """Gates beside a planted slow-down: whether they fail, and whether the record of it changes which kernel runs."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        described = machine.describe(options.fovea) | {"gpu": machine.gpu()}
        store = causes.CAUSES["store"]
        causes.plant(store, place / "store")
        planted_slow.write_sources(place / "slow", LEVEL_CLOCKS, LEVEL_SOURCES)

        def gated(name, card, *words):
            """What a run of gates says of each level. --record refuses --sources, since a record is of the program's
            own kernels; what --json leaves has the same form, and FOVEA_GATE_RECORD reads it where someone means to."""
            command = [options.fovea, "kernel", "profile", card, *words, "--gate", f"--json={name}.json"]
            code = run(command, options.seconds, stdout=sys.stderr, cwd=place).returncode
            record = place / f"{name}.json"
            levels = json.loads(record.read_text())["levels"] if record.exists() else []
            kept = [
                {key: level[key] for key in ("card", "case", "level", "kernel", "passed", "seconds")}
                | {"missed": [gate["words"] for gate in level["gates"] if not gate["passed"]]}
                for level in levels
            ]
            options.failed |= not kept
            return {"exit_code": code, "levels": kept}

        def chosen(record):
            sizes = map(str, GATED_CASE[1])
            done = run(
                [sys.executable, HERE / "gate_choice.py", *sizes],
                options.seconds,
                stdout=subprocess.PIPE,
                cwd=place,
                env=os.environ | {"FOVEA_GATE_RECORD": record},
            )
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
        made = place / "document.json"
        made.write_text(json.dumps(document))
        filed(options, made, "gate_planted.json", described)
    return {}


def hostile(options):
    """evolve with a proposer that does one misdeed and is honest then, each in a run of its own."""
    described = machine.describe(options.fovea) | {"gpu": machine.gpu()}
    found = []
    for how, gate in MISDEEDS.items():
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            command = [
                options.fovea,
                "kernel",
                "evolve",
                "attention",
                "--level",
                "wmma",
                "--case",
                "b2_h8_n512_d64_f16",
            ]
            command += [
                "--candidate-seconds",
                options.candidate_seconds,
                "--answer-seconds",
                "5",
                "--ledger",
                place / "ledger.jsonl",
            ]
            command += ["--proposer", sys.executable, ROOT / "tests/lab/hostile_proposer.py", how, "honest"]
            began = time.monotonic()
            try:
                code = run(command, options.seconds, stdout=sys.stderr).returncode
            except subprocess.TimeoutExpired:
                code = None
            ledger = place / "ledger.jsonl"
            written = ledger.read_text().splitlines(keepends=True) if ledger.exists() else []
            lines = [json.loads(line) for line in written if line.endswith("\n")]
            candidates = [line for line in lines if line["kind"] == "candidate"]
            invalid = [line for line in candidates if not line["valid"]]
            ended = [line for line in lines if line["kind"] == "end"]
            # The search must end by itself, without Ctrl-C, and have a valid candidate on the GPU after the misdeed.
            went_on = [
                line["number"]
                for line in candidates
                if line["valid"] and invalid and line["number"] > invalid[0]["number"]
            ]
            passed = (
                code == 0
                and [line["failed_at"] for line in invalid] == [gate]
                and bool(went_on)
                and [line["why"] for line in ended] == ["exhausted"]
            )
            found.append(
                {
                    "how": how,
                    "exit_code": code,
                    "candidates": len(candidates),
                    "invalid": [
                        {"number": line["number"], "failed_at": line["failed_at"], "why": line["why"]}
                        for line in invalid
                    ],
                    "valid_after": went_on,
                    "ended": [line["words"] for line in ended],
                    "seconds": round(time.monotonic() - began, 1),
                    "passed": passed,
                }
            )
            options.failed |= not passed
            if ledger.exists():
                filed(options, ledger, f"hostile/{how}.jsonl", described)
            made = place / "hostile.json"
            made.write_text(json.dumps({"kind": "hostile", "misdeeds": found}))
            filed(options, made, "hostile.json", described)
    return {}


def planted(options):
    chosen = options.causes.split(",") if options.causes else list(causes.CAUSES)
    for name, cause in ((name, causes.CAUSES[name]) for name in chosen):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            try:
                causes.plant(cause, place / name)
            except ValueError as error:
                print(f"{name}: {error}", file=sys.stderr)
                options.failed = True
                continue
            command = [options.fovea, "kernel", "profile", *cause.run, "--sources", name, "--output", "found"]
            laboratory(options, command, place, {"found.json": f"planted/{name}-profile.json"}, place)
            command = [
                options.fovea,
                "kernel",
                "compare",
                *cause.run,
                "--with-sources",
                name,
                "--profile",
                "--json=moved.json",
            ]
            laboratory(options, command, place, {"moved.json": f"planted/{name}-compare.json"}, place)
    return {}


def verdicts(options):
    for card in options.cards.split(",") if options.cards else ["gemm_qkv_bf16"]:
        try:
            verdicts_on(options, card)
        except (ValueError, subprocess.SubprocessError) as error:
            print(f"{card}: {error}", file=sys.stderr)
            options.failed = True
    return {}


def verdicts_on(options, card):
    percent, truth = 2, {"truth": "SLOWER"}
    described = machine.describe(options.fovea) | {"gpu": machine.gpu()}
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        slower = f"a build that is {percent}% slower", truth, ["--with-program", options.slower]
        if not options.slower:
            command = [
                sys.executable,
                HERE / "planted_slow.py",
                "--percent",
                percent,
                "--program",
                options.fovea,
                card,
                "-o",
                place / "slow",
            ]
            done = run(command, options.seconds, stdout=subprocess.PIPE)
            done.check_returncode()
            truth |= {"percent": json.loads(done.stdout)["percent"]}
            slower = f"sources that are {percent}% slower", truth, ["--with-sources", "slow"]
        sides = [("the program beside itself", {"truth": "SAME"}, ["--with-program", options.fovea]), slower]
        documents = [{"kind": "verdicts", "card": card, "what": what, **truth, "runs": []} for what, truth, _ in sides]
        for seed, number in itertools.product(range(1, options.runs + 1), range(len(sides))):
            command = [options.fovea, "kernel", "compare", card, *sides[number][2], "--seed", str(seed), "--json"]
            done = run(command, options.seconds, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
            if done.returncode:
                print(f"{shlex.join(command)} failed: {done.stderr}", file=sys.stderr)
                options.failed = True
                continue
            found = json.loads(done.stdout)
            documents[number]["runs"].append({name: found[name] for name in ("verdict", "ratio", "interval", "rounds")})
            made = place / "verdicts.json"
            made.write_text(json.dumps(documents[number]))
            filed(options, made, f"verdicts/{card}-{number + 1}.json", described)  # whoever stops it keeps this


def evolve(options):
    for number, words in enumerate(options.evolve, 1):
        with tempfile.TemporaryDirectory() as folder:
            command = [options.fovea, "kernel", "evolve", *shlex.split(words), "--ledger", f"{folder}/ledger.jsonl"]
            laboratory(options, command, pathlib.Path(folder), {"ledger.jsonl": f"evolve/{number}.jsonl"})
    return {}


def judge(options):
    answers = pathlib.Path(options.answers)
    for answer in sorted(path for path in answers.glob("*.py") if path.name != "task.py"):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / f"{answer.stem}.json"
            command = [sys.executable, "-m", "fovea.lab.judge", answers / "task.py", answer, "--device", options.device]
            command += ["--json", file]
            laboratory(options, command, file.parent, {"*.json": "judge/{}.json"}, codes=(0, 1))
    return {}


SECTIONS = {
    section.__name__: section
    for section in (profiles, gates, sanitizers, compare, evolve, judge, planted, verdicts, gate_planted, hostile)
}
ONLY_NAMED = {"evolve", "judge", "planted", "verdicts", "gate_planted", "hostile"}  # each takes as long as it is told
