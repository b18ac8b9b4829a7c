"""Runs the GPU's benchmarks, all in one run on one GPU, and stores them as one JSON file.

    python3 bench/run_gpu.py --model MODEL --models MODEL,... --json bench/results/nvidia-h200/DATE-RUN-COMMIT.json
                             [--fovea build/release/bin/fovea] [--quick] [SECTION...]

RUN counts the runs of a day: the newest figures of a section are those of the last run.
Times of kernels and of bench are compared with the earlier results of this GPU in bench/results (fovea kernel bench --against): what became more than
5% slower while its peer did not is told and kept, and this script then fails.
Sections of that file: kernels (every card, beside cuBLASLt and cuDNN; speed_gates says what is missed), bench (the encoder by --batch and precision), peers
(torch, torch.compile, torchao: docs/performance.md shows bench beside the peers of the same file alone), accuracy (--models, --photos), system (JPEGs to
embeddings), operators (the Python package that this interpreter imports: acceptance, attention beside torch's, and with --model the Encoder's rate),
texts, features (both with that package, too), naflex and search. What a section gave is saved before the next starts.
A file holds what one program measured on one host since it was started: nothing is added to that of another.
Sections that file documents in the folder of the same name without .json: profiles, gates, sanitizers (all cards, or --cards), compare
(--cards with the program --against, or with itself; and two saved profiles), and, only where they are named, evolve (--evolve), judge
(--answers), planted (the causes of bench/planted.py, or --causes, under the profiler and compared), gate_planted (what gates and the choice
of kernels do about a planted slow-down), hostile (evolve with proposers that misbehave) and verdicts (what compare says, --runs times each, of a program
beside itself, and beside sources that are 2% slower, or a build of such, --slower).
They are filed while they are measured; a document of what ended early says so ("partial"), and this script then fails.
Nothing that is filed names a folder of the machine.
--quick: torch's products only where kernels have no peer; fewer repetitions."""

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
import planted_slow
import runs
import speed_gates

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
TICK = 2.0  # seconds between looks at what a program has made so far
GRACE = 10.0  # seconds for a program to end by itself
# Each misdeed of tests/lab/hostile_proposer.py, and the gate at which its candidate is invalid. The last one stays on the GPU.
MISDEEDS = {"hang": "proposal", "garbage": "proposal", "endless": "process"}
GATED_CASE = "b64_h12_n1024_d64", (64, 12, 1024, 64)  # of attention, where another level reaches its gates, too
LEVEL_SOURCES = ("kernels/attention/sm90_single_pass.cuh", "kernels/attention/sm90_online.cuh")  # of the level that is chosen there
LEVEL_CLOCKS = 4_000_000  # two milliseconds: slower than the next level
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


def section_of(options, script, *words):
    """What a script of this folder measured, without the machine, which this file has once."""
    return {name: figures for name, figures in saved(options, HERE / script, *words).items() if name != "machine"}


def kernels(options):
    with tempfile.NamedTemporaryFile(suffix=".json") as file, speed_gates.earlier_results(options.json) as earlier:
        command = [options.fovea, "kernel", "bench", "--peers", "--against", earlier, f"--json={file.name}"]
        done = run(command, options.seconds, stdout=sys.stderr)
        # Of a kernel that was wrong there is no figure, and the others stay; what became slower is told in them.
        options.failed |= done.returncode != 0
        measured = json.loads(pathlib.Path(file.name).read_text())["kernels"]
        return {"kernels": measured, "speed_gates": speed_gates.summary(measured)}


def bench(options):
    figures = []
    for precision in ("bf16", "int8", "fp8"):
        with tempfile.NamedTemporaryFile(suffix=".json") as file, speed_gates.earlier_results(options.json) as earlier:
            command = [options.fovea, "bench", "-m", options.model, "--device", "cuda", "--precision", precision, "--batch-size",
                       options.batch, "--seconds", "1.5", "--against", earlier, f"--json={file.name}"]
            options.failed |= run(command, options.seconds, stdout=sys.stderr).returncode != 0
            # What became slower is kept, too.
            figures += json.loads(pathlib.Path(file.name).read_text() or '{"figures": []}')["figures"]
    return {"gpu_bench": figures}


def peers(options):
    quick = ["--shapes", "patch_embed"] if options.quick else []
    batches = ",".join(sorted(options.batch.split(","), key=int, reverse=True))  # what is worth most comes first
    words = ["--fovea", options.fovea, "--batch", batches, "--sections", options.peers]
    result = saved(options, HERE / "peers.py", "--model", options.model, *words, *quick)
    return {f"torch_{section}": found for section, found in result.items() if section != "machine"}


def accuracy(options):
    photos = ["--photos", options.photos] if options.photos else []
    models = options.models.split(",")
    return {"accuracy": saved(options, HERE / "gpu_accuracy.py", *models, *photos, "--fovea", options.fovea)["accuracy"]}


def system(options):
    images = ["--images", "20000"] if options.quick else []
    return section_of(options, "gpu_system.py", "--model", options.model, "--fovea", options.fovea, *images)


def texts(options):
    batches = ["--batch", "1,32,1024"] if options.quick else []
    return section_of(options, "texts.py", options.model, "--program", options.fovea, *batches)


def features(options):
    return section_of(options, "features.py", "--model", options.model, "--fovea", options.fovea)


def naflex(options):
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "base-patch16-naflex"
        run([options.fovea, "init", "--preset", model.name, "--seed", "0", "-o", model], options.seconds, stdout=sys.stderr)
        words = ["--device", "cuda", "--precision", "bf16", "--batch", "1,32,256", "--rounds", "2", "--seconds", "1", "--fovea", options.fovea]
        return section_of(options, "naflex.py", model, *words)


def search(options):
    programs = pathlib.Path(options.fovea).parent.parent
    with tempfile.TemporaryDirectory() as folder:
        words = ["--rows", "4000000", "--repeats", "5", "--device", "cuda", "--programs", programs]
        return section_of(options, "search_times.py", pathlib.Path(folder) / "rows", *words)


def operators(options):
    accepted = saved(options, "-m", "fovea.accept")
    attention = saved(options, "-m", "fovea.bench_attention")
    quick = ["--repeats", "2"] if options.quick else []
    rate = saved(options, HERE / "python_rate.py", "--model", options.model, "--fovea", options.fovea, *quick) if options.model else {}
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
    described = machine.describe(options.fovea) | {"gpu": machine.gpu()}  # now: to ask during the measurement would disturb it
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
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        for level in ("wmma", "mma"):
            command = [options.fovea, "kernel", "profile", "attention", "--case", GATED_CASE[0], "--level", level]
            done = run([*command, "--output", place / f"attention-{level}"], options.seconds, stdout=sys.stderr)
            options.failed |= done.returncode != 0
        command = [options.fovea, "kernel", "compare", "attention-wmma.json", "attention-mma.json", "--json=saved_profiles.json"]
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
            """What a run of gates says of each level. --record refuses --sources, since a record is of the program's own kernels;
            what --json leaves has the same form, and FOVEA_GATE_RECORD reads it where someone means to."""
            command = [options.fovea, "kernel", "profile", card, *words, "--gate", f"--json={name}.json"]
            code = run(command, options.seconds, stdout=sys.stderr, cwd=place).returncode
            record = place / f"{name}.json"
            levels = json.loads(record.read_text())["levels"] if record.exists() else []
            kept = [{key: level[key] for key in ("card", "case", "level", "kernel", "passed", "seconds")}
                    | {"missed": [gate["words"] for gate in level["gates"] if not gate["passed"]]} for level in levels]
            options.failed |= not kept
            return {"exit_code": code, "levels": kept}

        def chosen(record):
            sizes = map(str, GATED_CASE[1])
            done = run([sys.executable, HERE / "gate_choice.py", *sizes], options.seconds, stdout=subprocess.PIPE, cwd=place,
                       env=os.environ | {"FOVEA_GATE_RECORD": record})
            options.failed |= done.returncode != 0
            return json.loads(done.stdout) if done.returncode == 0 else {}

        document = {
            "kind": "gate_planted",
            "gates": {"what": "sources with the planted cause \"store\"", "card": store.run[0],
                      "before": gated("ours", store.run[0]), "after": gated("store_gates", store.run[0], "--sources", "store")},
            "choice": {"what": f"sources whose wgmma kernels wait for {LEVEL_CLOCKS} clocks", "card": "attention", "case": GATED_CASE[0],
                       "gates": gated("slow_gates", "attention", "--case", GATED_CASE[0], "--sources", "slow"),
                       "before": chosen("none"), "after": chosen("slow_gates.json")},
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
            command = [options.fovea, "kernel", "evolve", "attention", "--level", "wmma", "--case", "b2_h8_n512_d64_f16"]
            command += ["--candidate-seconds", options.candidate_seconds, "--answer-seconds", "5", "--ledger", place / "ledger.jsonl"]
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
            # Its own end, not Ctrl-C's or ours; and a valid candidate on the GPU after the misdeed.
            went_on = [line["number"] for line in candidates if line["valid"] and invalid and line["number"] > invalid[0]["number"]]
            passed = code == 0 and [line["failed_at"] for line in invalid] == [gate] and bool(went_on) and \
                [line["why"] for line in ended] == ["exhausted"]
            found.append({"how": how, "exit_code": code, "candidates": len(candidates),
                          "invalid": [{"number": line["number"], "failed_at": line["failed_at"], "why": line["why"]} for line in invalid],
                          "valid_after": went_on, "ended": [line["words"] for line in ended],
                          "seconds": round(time.monotonic() - began, 1), "passed": passed})
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
    described = machine.describe(options.fovea) | {"gpu": machine.gpu()}
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
            "texts": texts, "features": features, "naflex": naflex, "search": search, "operators": operators, "profiles": profiles, "gates": gates, "sanitizers": sanitizers, "compare": compare,
            "evolve": evolve, "judge": judge, "planted": planted, "verdicts": verdicts, "gate_planted": gate_planted, "hostile": hostile}
ONLY_NAMED = {"evolve", "judge", "planted", "verdicts", "gate_planted", "hostile"}  # each takes as long as it is told
WITHOUT_MODEL = {"kernels", "naflex", "search", "operators", "profiles", "gates", "sanitizers", "compare"} | ONLY_NAMED


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="calibrated folder of base-patch16-224; sections of the laboratory need none")
    parser.add_argument("--models", default="", help="folders, or PRESET@SEED, for the accuracy table")
    parser.add_argument("--photos", help="folder of the photos for it (bench/gpu_accuracy.py --write); made where there is none")
    parser.add_argument("--fovea", default=str(HERE.parent / "build/release/bin/fovea"))
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--batch", default="1,8,32,256,1024", help="images at once, of bench and peers")
    parser.add_argument("--peers", default="gemm,encoder", help="sections of bench/peers.py that peers measures")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=1800, help="limit of one section's programs")
    parser.add_argument("--cards", default="",
                        help="cards for profiles, gates, sanitizers, compare and verdicts, such as gemm_qkv_bf16,pool")
    parser.add_argument("--against", help="the program that runs B of compare; without it the same program")
    parser.add_argument("--evolve", action="append", default=[], metavar="WORDS",
                        help="a search, in the words of `fovea kernel evolve`: 'attention --level wmma --budget 10m'; may be repeated")
    parser.add_argument("--profile", action="append", default=[], metavar="WORDS",
                        help="what profiles measures instead of cards, in the words of `fovea kernel profile`; may be repeated")
    parser.add_argument("--answers", default=str(HERE.parent / "tests/lab/answers"), help="folder of task.py and its answers, for judge")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="where judge runs the answers")
    parser.add_argument("--causes", default="", help="causes for planted, such as stage,fence")
    parser.add_argument("--candidate-seconds", default="20", help="limit of one candidate of hostile")
    parser.add_argument("--runs", type=int, default=20, help="of each verdict")
    parser.add_argument("--slower", help="a program whose kernels bench/planted_slow.py has made 2%% slower, for verdicts")
    parser.add_argument("sections", nargs="*", default=[name for name in SECTIONS if name not in ONLY_NAMED])
    options = parser.parse_args()
    if unknown := sorted(set(options.sections) - set(SECTIONS)):
        parser.error(f"there is no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if unknown := sorted(set(filter(None, options.causes.split(","))) - set(causes.CAUSES)):
        parser.error(f"there is no cause {', '.join(unknown)}; there are {', '.join(causes.CAUSES)}")
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
    results = runs.filed(options.json)
    same = {"host": machine.host(), "commit": machine.commit(options.fovea)}
    if results and (other := {key: results["machine"].get(key) for key in same}) != same:
        parser.error(f"{options.json.name} was measured by {other}, and this is {same}; give another file")
    options.failed = False
    for section in options.sections:
        try:
            given = SECTIONS[section](options)
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            print(f"{section}: {error}", file=sys.stderr)
            options.failed, given = True, {}
        if given:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            results |= {"machine": machine.describe(options.fovea) | {"gpu": machine.gpu()}} | without_paths(options, given)
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    return int(options.failed)


if __name__ == "__main__":
    sys.exit(main())
