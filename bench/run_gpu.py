"""Runs the GPU's benchmarks, all in one run on one GPU, and stores them as one JSON file.

    python3 bench/run_gpu.py --model MODEL --models MODEL,... --json bench/results/nvidia-h200/DATE-RUN-COMMIT.json
                             [--fovea build/release/bin/fovea] [--quick] [SECTION...]

RUN counts the runs of a day: the newest figures of a section are those of the last run. Times of kernels and of bench
are compared with the earlier results of this GPU in bench/results (fovea kernel bench --against): what became more than
5% slower while its peer did not is told and kept, and this script then fails. Sections of that file: kernels (every
card, beside cuBLASLt and cuDNN; speed_gates says what is missed), bench (the encoder by --batch and precision), peers
(torch, torch.compile, torchao: docs/performance.md shows bench beside the peers of the same file alone), accuracy
(--models, --photos), system (JPEGs to embeddings), operators (the Python package that this interpreter imports:
acceptance, attention beside torch's, and with --model the Encoder's rate), texts, features (both with that package,
too), naflex and search. What a section gave is saved before the next starts. A file holds what one program measured on
one host since it was started: nothing is added to that of another. Sections that file documents in the folder of the
same name without .json: profiles, gates, sanitizers (all cards, or --cards), compare (--cards with the program
--against, or with itself; and two saved profiles), and, only where they are named, evolve (--evolve), judge
(--answers), planted (the causes of bench/planted.py, or --causes, under the profiler and compared), gate_planted (what
gates and the choice of kernels do about a planted slow-down), hostile (evolve with proposers that misbehave) and
verdicts (what compare says, --runs times each, of a program beside itself, and beside sources that are 2% slower, or a
build of such, --slower). They are filed while they are measured; a document of what ended early says so ("partial"),
and this script then fails. Nothing that is filed names a folder of the machine. --quick: torch's products only where
kernels have no peer; fewer repetitions."""

import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

import laboratory_runs
import machine
import planted as causes
import runs
import speed_gates
from laboratory_runs import without_paths
from programs import HERE, log, run, saved, section_of, words


def kernels(options):
    with tempfile.NamedTemporaryFile(suffix=".json") as file, speed_gates.earlier_results(options.json) as earlier:
        command = [options.fovea, "kernel", "bench", "--peers", "--against", earlier, f"--json={file.name}"]
        done = run(command, options.seconds, stdout=sys.stderr)
        # Wrong kernels have no figure, and the others stay; the figures say what became slower.
        options.failed |= done.returncode != 0
        measured = json.loads(pathlib.Path(file.name).read_text())["kernels"]
        return {"kernels": measured, "speed_gates": speed_gates.summary(measured)}


def bench(options):
    figures = []
    for precision in ("bf16", "int8", "fp8"):
        with tempfile.NamedTemporaryFile(suffix=".json") as file, speed_gates.earlier_results(options.json) as earlier:
            common = {"m": options.model, "device": "cuda", "precision": precision, "batch_size": options.batch}
            names = words(**common, seconds=1.5, against=earlier)
            command = [options.fovea, "bench", *names, f"--json={file.name}"]
            options.failed |= run(command, options.seconds, stdout=sys.stderr).returncode != 0
            # What became slower is kept, too.
            figures += json.loads(pathlib.Path(file.name).read_text() or '{"figures": []}')["figures"]
    return {"gpu_bench": figures}


def peers(options):
    batches = ",".join(sorted(options.batch.split(","), key=int, reverse=True))  # what is worth most comes first
    names = words(model=options.model, fovea=options.fovea, batch=batches, sections=options.peers)
    names += ["--shapes", "patch_embed"] if options.quick else []
    result = saved(options, HERE / "peers.py", *names)
    return {f"torch_{section}": found for section, found in result.items() if section != "machine"}


def accuracy(options):
    names = words(*options.models.split(","), photos=options.photos, fovea=options.fovea)
    return {"accuracy": saved(options, HERE / "gpu_accuracy.py", *names)["accuracy"]}


def system(options):
    names = words(model=options.model, fovea=options.fovea, images=20000 if options.quick else None)
    return section_of(options, "gpu_system.py", *names)


def texts(options):
    names = words(options.model, program=options.fovea, batch="1,32,1024" if options.quick else None)
    return section_of(options, "texts.py", *names)


def features(options):
    return section_of(options, "features.py", *words(model=options.model, fovea=options.fovea))


def naflex(options):
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "base-patch16-naflex"
        command = [options.fovea, "init", *words(preset=model.name, seed=0, o=model)]
        run(command, options.seconds, stdout=sys.stderr)
        names = {"device": "cuda", "precision": "bf16", "batch": "1,32,256", "rounds": 2, "seconds": 1}
        return section_of(options, "naflex.py", *words(model, **names, fovea=options.fovea))


def search(options):
    programs = pathlib.Path(options.fovea).parent.parent
    with tempfile.TemporaryDirectory() as folder:
        names = {"rows": 4000000, "repeats": 5, "device": "cuda", "programs": programs}
        return section_of(options, "search_times.py", *words(pathlib.Path(folder) / "rows", **names))


def operators(options):
    accepted = saved(options, "-m", "fovea.lab.accept")
    attention = saved(options, "-m", "fovea.lab.bench_attention")
    names = words(model=options.model, fovea=options.fovea, repeats=2 if options.quick else None)
    rate = saved(options, HERE / "python_rate.py", *names) if options.model else {}
    found = {"operators_accepted": accepted, "operators_attention": attention, "python": rate.get("python")}
    return {section: figures for section, figures in found.items() if figures}


OF_FIGURES = (kernels, bench, peers, accuracy, system, texts, features, naflex, search, operators)
SECTIONS = {section.__name__: section for section in OF_FIGURES} | laboratory_runs.SECTIONS
# Sections that need no model; those of the laboratory that take as long as they are told run when they are named.
WITHOUT_MODEL = {"kernels", "naflex", "search", "operators", *laboratory_runs.SECTIONS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="calibrated folder of base-patch16-224; sections of the laboratory need none")
    parser.add_argument("--models", default="", help="folders, or PRESET@SEED, for the accuracy table")
    photos = "folder of the photos for it (bench/gpu_accuracy.py --write); made where there is none"
    parser.add_argument("--photos", help=photos)
    parser.add_argument("--fovea", default=str(HERE.parent / "build/release/bin/fovea"))
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--batch", default="1,8,32,256,1024", help="images at once, of bench and peers")
    parser.add_argument("--peers", default="gemm,encoder", help="sections of bench/peers.py that peers measures")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=1800, help="limit of one section's programs")
    cards = "cards for profiles, gates, sanitizers, compare and verdicts, such as gemm_qkv_bf16,pool"
    parser.add_argument("--cards", default="", help=cards)
    parser.add_argument("--against", help="the program that runs B of compare; without it the same program")
    repeated = {"action": "append", "default": [], "metavar": "WORDS"}
    evolve = "a search, in the words of `fovea kernel evolve`: 'attention --level wmma --budget 10m'; may be repeated"
    parser.add_argument("--evolve", **repeated, help=evolve)
    profile = "what profiles measures instead of cards, in the words of `fovea kernel profile`; may be repeated"
    parser.add_argument("--profile", **repeated, help=profile)
    answers = HERE.parent / "tests/lab/answers"
    parser.add_argument("--answers", default=answers, help="folder of task.py and its answers, for judge")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="where judge runs the answers")
    parser.add_argument("--causes", default="", help="causes for planted, such as stage,fence")
    parser.add_argument("--candidate-seconds", default="20", help="limit of one candidate of hostile")
    parser.add_argument("--runs", type=int, default=20, help="of each verdict")
    slower = "a program whose kernels bench/planted_slow.py has made 2%% slower, for verdicts"
    parser.add_argument("--slower", help=slower)
    default = [name for name in SECTIONS if name not in laboratory_runs.ONLY_NAMED]
    parser.add_argument("sections", nargs="*", default=default)
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
            log(f"{section}: {error}")
            options.failed, given = True, {}
        if given:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            where = {"machine": machine.describe(options.fovea, "cuda")}
            results |= where | without_paths(options, given)
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    return int(options.failed)


if __name__ == "__main__":
    sys.exit(main())
