"""Runs the GPU's benchmarks, all in one run on one GPU, and stores them as one JSON file.

    python3 bench/run_gpu.py --model MODEL --models MODEL,... --json bench/results/nvidia-h200/DATE-RUN-COMMIT.json
                             [--fovea build/release/bin/fovea] [--quick] [SECTION...]

RUN counts the runs of a day: the newest figures of a section are those of the last file by name.
Sections of that file: kernels (every card, beside cuBLASLt and cuDNN), bench (the encoder by batch size and precision), peers
(torch), accuracy (--models, --photos), system (JPEGs to embeddings), operators (the Python package that this interpreter imports:
acceptance, attention beside torch's, the Encoder's rate). What a section gave is saved before the next starts.
Sections that file documents in the folder of the same name without .json: profiles, gates, sanitizers (all cards, or --cards), compare
(--cards with the program --against, or with itself), and, only where they are named, evolve (--evolve), judge (--answers), planted
(the causes of bench/planted.py, under the profiler and compared) and verdicts (what compare says, --runs times each, of a program
beside itself, and beside sources that are 2% slower, or a build of such, --slower).
They are filed while they are measured; a document of what ended early says so ("partial"), and this script then fails.
Nothing that is filed names a folder of the machine.
--quick: torch's products only where kernels have no peer, its encoder at two sizes; no DataLoader; fewer repetitions."""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import machine
import planted as causes

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
TICK = 2.0  # seconds between looks at what a program has made so far
GRACE = 10.0  # seconds for a program to end by itself
GROWING = ("gates.json", "ledger.jsonl")  # are written again and again; all others are written once, at the end
FOREIGN = re.compile(r"(?<![\w/.~-])/(?:[\w.+@~-]+/)+[\w.+@~-]*")  # an absolute path; no end of a relative one or a URL


def members(session):
    """The processes of a session."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            state, _, _, its, *_ = stat.read_text().rpartition(")")[2].split()
            if int(its) == session and state != "Z":
                yield int(stat.parent.name)


def end(process):
    """Ends a program that leads a session, and all that it started, whose groups may be others: the profiler's is."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in members(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        until = time.monotonic() + GRACE
        while (process.poll() is None or any(members(process.pid))) and time.monotonic() < until:
            time.sleep(0.05)


def run(command, seconds, tick=lambda: None, **how):
    """subprocess.run(); but the limit, and whoever stops this script, end all that the program has started."""
    until = time.monotonic() + seconds
    command = [str(part) for part in command]
    with subprocess.Popen(command, text=True, start_new_session=True, **how) as process:
        try:
            while True:
                try:
                    output, errors = process.communicate(timeout=min(TICK, max(until - time.monotonic(), 0)))
                    return subprocess.CompletedProcess(command, process.returncode, output, errors)
                except subprocess.TimeoutExpired:
                    if time.monotonic() >= until:
                        raise subprocess.TimeoutExpired(command, seconds) from None
                tick()
        except BaseException:
            end(process)
            raise


def saved(options, *command):
    """The JSON that a program of Python's writes with --json; empty when it did not get that far."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, *command, "--json", file.name]
        try:
            failure = run(command, options.seconds, stdout=sys.stderr).returncode
        except subprocess.TimeoutExpired:
            failure = f"no end within {options.seconds:.0f} s"
        if failure:
            print(f"{' '.join(map(str, command[1:3]))} failed ({failure}); keeping what it saved", file=sys.stderr)
            options.failed = True
        return json.loads(pathlib.Path(file.name).read_text() or "{}")


def kernels(options):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [options.fovea, "kernel", "bench", "--peers", f"--json={file.name}"]
        done = run(command, options.seconds, stdout=sys.stderr)
        options.failed |= done.returncode != 0  # of a kernel that was wrong there is no figure; the others stay
        return {"kernels": json.loads(pathlib.Path(file.name).read_text())["kernels"]}


def bench(options):
    figures = []
    for precision in ("bf16", "int8", "fp8"):
        command = [options.fovea, "bench", "-m", options.model, "--device", "cuda", "--precision", precision,
                   "--batch-size", "1,8,32,256,1024", "--seconds", "1.5", "--json"]
        done = run(command, options.seconds, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        print(done.stdout, done.stderr, file=sys.stderr)
        if done.returncode == 0:
            figures += json.loads(done.stdout)["figures"]
        else:
            options.failed = True
    return {"gpu_bench": figures}


def peers(options):
    quick = ["--shapes", "patch_embed", "--batch", "1,1024"] if options.quick else []
    result = saved(options, HERE / "peers.py", "--model", options.model, *quick)
    return {f"torch_{section}": found for section, found in result.items() if section != "machine"}


def accuracy(options):
    photos = ["--photos", options.photos] if options.photos else []
    models = options.models.split(",")
    return {"accuracy": saved(options, HERE / "gpu_accuracy.py", *models, *photos, "--fovea", options.fovea)["accuracy"]}


def system(options):
    thorough = [] if options.quick else ["--dataloader"]
    result = saved(options, HERE / "gpu_system.py", "--model", options.model, "--fovea", options.fovea, *thorough)
    result.pop("machine", None)
    return result


def operators(options):
    accepted = saved(options, "-m", "fovea.accept")
    attention = saved(options, "-m", "fovea.bench_attention")
    quick = ["--repeats", "2"] if options.quick else []
    rate = saved(options, HERE / "python_rate.py", "--model", options.model, "--fovea", options.fovea, *quick)
    found = {"operators_accepted": accepted, "operators_attention": attention, "python": rate.get("python")}
    return {section: figures for section, figures in found.items() if figures}


def cards_of(options):
    if options.cards:
        return options.cards.split(",")
    listed = subprocess.run([options.fovea, "kernel", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if not line.startswith(" ")]


def with_machine(document, described):
    """The document of a program, which knows its GPU, with the driver, the clocks and the commit as this script knows them."""
    own = document.get("machine") or {}
    gpu = described["gpu"] | (own.get("gpu") or {})
    versions = described["versions"] | (own.get("versions") or {})
    return document | {"machine": described | own | {"gpu": gpu, "versions": versions}}


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
    described = machine.describe() | {"gpu": machine.gpu()}  # now: to ask during the measurement would disturb it
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
    for card in cards_of(options):
        with tempfile.TemporaryDirectory() as folder:
            command = [options.fovea, "kernel", "profile", card, "--output", f"{folder}/{card}"]
            laboratory(options, command, pathlib.Path(folder), {"*.json": "profiles/{}.json"})
    return {}


def gates(options):
    with tempfile.TemporaryDirectory() as folder:
        cards = options.cards.split(",") if options.cards else []
        kept = pathlib.Path(folder) / "profiles"
        kept.mkdir()
        command = [options.fovea, "kernel", "profile", *cards, "--gate", "--record", f"{folder}/gates.json", "--output", kept]
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
            command = [options.fovea, "kernel", "compare", card, "--with-program", other, f"--json={folder}/{card}.json"]
            laboratory(options, command, pathlib.Path(folder), {"*.json": "compare/{}.json"})
    return {}


def planted(options):
    for name, cause in causes.CAUSES.items():
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
            command = [options.fovea, "kernel", "compare", *cause.run, "--with-sources", name, "--profile", "--json=moved.json"]
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
    described = machine.describe() | {"gpu": machine.gpu()}
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        slower = f"a build that is {percent}% slower", truth, ["--with-program", options.slower]
        if not options.slower:
            command = [sys.executable, HERE / "planted_slow.py", "--percent", percent, "--program", options.fovea, card, "-o", place / "slow"]
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
            command = [sys.executable, "-m", "fovea.judge", answers / "task.py", answer, "--device", options.device]
            command += ["--json", file]
            laboratory(options, command, file.parent, {"*.json": "judge/{}.json"}, codes=(0, 1))
    return {}


SECTIONS = {"kernels": kernels, "bench": bench, "peers": peers, "accuracy": accuracy, "system": system,
            "operators": operators, "profiles": profiles, "gates": gates, "sanitizers": sanitizers, "compare": compare,
            "evolve": evolve, "judge": judge, "planted": planted, "verdicts": verdicts}
WITHOUT_MODEL = {"kernels", "profiles", "gates", "sanitizers", "compare", "evolve", "judge", "planted", "verdicts"}
ONLY_NAMED = {"evolve", "judge", "planted", "verdicts"}  # each takes as long as it is told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="calibrated folder of base-patch16-224; sections of the laboratory need none")
    parser.add_argument("--models", default="", help="folders, or PRESET@SEED, for the accuracy table")
    parser.add_argument("--photos", help="folder of the photos for it (bench/gpu_accuracy.py --write); made where there is none")
    parser.add_argument("--fovea", default=str(HERE.parent / "build/release/bin/fovea"))
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=1800, help="limit of one section's programs")
    parser.add_argument("--cards", default="",
                        help="cards for profiles, gates, sanitizers, compare and verdicts, such as gemm_qkv_bf16,pool")
    parser.add_argument("--against", help="the program that runs B of compare; without it the same program")
    parser.add_argument("--evolve", action="append", default=[], metavar="WORDS",
                        help="a search, in the words of `fovea kernel evolve`: 'attention --level wmma --budget 10m'; may be repeated")
    parser.add_argument("--answers", default=str(HERE.parent / "tests/lab/answers"), help="folder of task.py and its answers, for judge")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="where judge runs the answers")
    parser.add_argument("--runs", type=int, default=20, help="of each verdict")
    parser.add_argument("--slower", help="a program whose kernels bench/planted_slow.py has made 2%% slower, for verdicts")
    parser.add_argument("sections", nargs="*", default=[name for name in SECTIONS if name not in ONLY_NAMED])
    options = parser.parse_args()
    if unknown := sorted(set(options.sections) - set(SECTIONS)):
        parser.error(f"there is no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if options.model is None and not WITHOUT_MODEL.issuperset(options.sections):
        parser.error(f"--model is needed for other sections than {', '.join(sorted(WITHOUT_MODEL))}")
    if "evolve" in options.sections and not options.evolve:
        parser.error("the section evolve needs --evolve WORDS")
    options.models = options.models or options.model
    # Commands also run in other folders.
    options.fovea, options.against, options.slower = (
        path and str(pathlib.Path(path).resolve()) for path in (options.fovea, options.against, options.slower)
    )
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that what it has started ends, too
    results = json.loads(options.json.read_text()) if options.json.exists() else {}
    options.failed = False
    for section in options.sections:
        try:
            given = SECTIONS[section](options)
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            print(f"{section}: {error}", file=sys.stderr)
            options.failed, given = True, {}
        if given:
            results |= {"machine": machine.describe() | {"gpu": machine.gpu()}} | without_paths(options, given)
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    return int(options.failed)


if __name__ == "__main__":
    sys.exit(main())
