"""Runs the GPU's benchmarks, all in one run on one GPU, and stores them as one JSON file.

    python3 bench/run_gpu.py --model MODEL --models MODEL,... --json bench/results/nvidia-h200/DATE-RUN-COMMIT.json
                             [--fovea build/release/bin/fovea] [--quick] [SECTION...]

RUN numbers the runs of a day; the page shows each section from the newest run that has it. Times of kernels and of
bench are compared with earlier results of this GPU in bench/results (fovea kernel bench --against): a time that became
more than 5% slower while its peer did not is reported and kept, and the script then fails.

These sections are stored in the JSON file: kernels (every card, with cuBLASLt and cuDNN as peers; missed gates are in
speed_gates), bench (the encoder by --batch and precision), peers (torch, torch.compile, torchao; docs/performance.md
compares bench only with the peers of the same file), accuracy (--models, --photos), system (JPEGs to embeddings),
operators (the Python package that this interpreter imports: acceptance, attention compared with torch's, and with
--model the rate of Encoder), texts and features (with the same package), naflex and search. Results are saved after
each section. A file holds results of a single program on a single host since its last boot; results of another program
or host are refused.

These sections write documents into the folder of the same name without .json: profiles, gates, sanitizers (all cards,
or --cards), compare (--cards with the program --against, or with itself; and two saved profiles), and, only where they
are named, evolve (--evolve), judge (--answers), planted (the causes of bench/planted.py, or --causes, profiled and
compared), gate_planted (the effect of a planted slow-down on gates and on the choice of kernels), hostile (evolve with
proposers that misbehave) and verdicts (the verdicts of compare over --runs runs, for a program against itself, and
against sources or a build, --slower, that are 2% slower). Documents are written during the measurement; one that ended
early is marked as "partial", and the script then fails. Documents never contain folders of this machine.

--quick measures torch's products only where kernels have no other peer, and repeats less."""

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
from laboratory_runs import strip_paths
from programs import HERE, command_arguments, log, run, script_results, section_figures


def kernels(options):
    with tempfile.NamedTemporaryFile(suffix=".json") as file, speed_gates.earlier_results(options.json) as earlier:
        command = [options.fovea, "kernel", "bench", "--peers", "--against", earlier, f"--json={file.name}"]
        done = run(command, options.seconds, stdout=sys.stderr)
        # After a failure the figures are still kept: wrong kernels have none, and slower times are marked.
        options.failed |= done.returncode != 0
        measured = json.loads(pathlib.Path(file.name).read_text())["kernels"]
        return {"kernels": measured, "speed_gates": speed_gates.summary(measured)}


def bench(options):
    figures = []
    for precision in ("bf16", "int8", "fp8"):
        with tempfile.NamedTemporaryFile(suffix=".json") as file, speed_gates.earlier_results(options.json) as earlier:
            common = {"m": options.model, "device": "cuda", "precision": precision, "batch_size": options.batch}
            arguments = command_arguments(**common, seconds=1.5, against=earlier)
            command = [options.fovea, "bench", *arguments, f"--json={file.name}"]
            options.failed |= run(command, options.seconds, stdout=sys.stderr).returncode != 0
            # Figures that became slower are kept as well.
            figures += json.loads(pathlib.Path(file.name).read_text() or '{"figures": []}')["figures"]
    return {"gpu_bench": figures}


def peers(options):
    batches = ",".join(
        sorted(options.batch.split(","), key=int, reverse=True)
    )  # the largest batches are the most important
    arguments = command_arguments(model=options.model, fovea=options.fovea, batch=batches, sections=options.peers)
    arguments += ["--shapes", "patch_embed"] if options.quick else []
    result = script_results(options, HERE / "peers.py", *arguments)
    return {f"torch_{section}": figures for section, figures in result.items() if section != "machine"}


def accuracy(options):
    arguments = command_arguments(*options.models.split(","), photos=options.photos, fovea=options.fovea)
    return {"accuracy": script_results(options, HERE / "gpu_accuracy.py", *arguments)["accuracy"]}


def system(options):
    arguments = command_arguments(model=options.model, fovea=options.fovea, images=20000 if options.quick else None)
    return section_figures(options, "gpu_system.py", *arguments)


def texts(options):
    arguments = command_arguments(options.model, program=options.fovea, batch="1,32,1024" if options.quick else None)
    return section_figures(options, "texts.py", *arguments)


def features(options):
    return section_figures(options, "features.py", *command_arguments(model=options.model, fovea=options.fovea))


def naflex(options):
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "base-patch16-naflex"
        command = [options.fovea, "init", *command_arguments(preset=model.name, seed=0, o=model)]
        run(command, options.seconds, stdout=sys.stderr)
        names = {"device": "cuda", "precision": "bf16", "batch": "1,32,256", "rounds": 2, "seconds": 1}
        return section_figures(options, "naflex.py", *command_arguments(model, **names, fovea=options.fovea))


def search(options):
    programs = pathlib.Path(options.fovea).parent.parent
    with tempfile.TemporaryDirectory() as folder:
        names = {"rows": 4000000, "repeats": 5, "device": "cuda", "programs": programs}
        return section_figures(options, "search_times.py", *command_arguments(pathlib.Path(folder) / "rows", **names))


def operators(options):
    accepted = script_results(options, "-m", "fovea.lab.accept")
    attention = script_results(options, "-m", "fovea.lab.bench_attention")
    arguments = command_arguments(model=options.model, fovea=options.fovea, repeats=2 if options.quick else None)
    rate = script_results(options, HERE / "python_rate.py", *arguments) if options.model else {}
    results = {"operators_accepted": accepted, "operators_attention": attention, "python": rate.get("python")}
    return {section: figures for section, figures in results.items() if figures}


FIGURE_SECTIONS = (kernels, bench, peers, accuracy, system, texts, features, naflex, search, operators)
SECTIONS = {section.__name__: section for section in FIGURE_SECTIONS} | laboratory_runs.SECTIONS
# Sections that do not need --model.
WITHOUT_MODEL = {"kernels", "naflex", "search", "operators", *laboratory_runs.SECTIONS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="calibrated folder of base-patch16-224; sections of the laboratory need none")
    parser.add_argument("--models", default="", help="folders, or PRESET@SEED, for the accuracy table")
    photos = "folder of photos for accuracy (bench/gpu_accuracy.py --write); default: generated"
    parser.add_argument("--photos", help=photos)
    parser.add_argument("--fovea", default=str(HERE.parent / "build/release/bin/fovea"))
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--batch", default="1,8,32,256,1024", help="batch sizes of bench and peers")
    parser.add_argument("--peers", default="gemm,encoder", help="sections of bench/peers.py to measure")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=1800, help="time limit for each program of a section")
    cards = "cards for profiles, gates, sanitizers, compare and verdicts, such as gemm_qkv_bf16,pool"
    parser.add_argument("--cards", default="", help=cards)
    parser.add_argument("--against", help="program that runs side B of compare (default: --fovea)")
    repeated = {"action": "append", "default": [], "metavar": "WORDS"}
    evolve = "arguments of `fovea kernel evolve`, such as 'attention --level wmma --budget 10m'; may be repeated"
    parser.add_argument("--evolve", **repeated, help=evolve)
    profile = "arguments of `fovea kernel profile`, to profile instead of --cards; may be repeated"
    parser.add_argument("--profile", **repeated, help=profile)
    answers = HERE.parent / "tests/lab/answers"
    parser.add_argument("--answers", default=answers, help="folder with task.py and its answers, for judge")
    parser.add_argument(
        "--device", choices=["cuda", "cpu"], default="cuda", help="device on which judge runs the answers"
    )
    parser.add_argument("--causes", default="", help="causes for planted, such as stage,fence")
    parser.add_argument("--candidate-seconds", default="20", help="time limit per candidate of hostile")
    parser.add_argument("--runs", type=int, default=20, help="number of runs per verdict")
    slower = "program with kernels that are 2%% slower (bench/planted_slow.py), for verdicts"
    parser.add_argument("--slower", help=slower)
    default = [name for name in SECTIONS if name not in laboratory_runs.EXPLICIT_SECTIONS]
    parser.add_argument("sections", nargs="*", default=default)
    options = parser.parse_args()
    if unknown := sorted(set(options.sections) - set(SECTIONS)):
        parser.error(f"unknown section: {', '.join(unknown)} (choose from {', '.join(SECTIONS)})")
    if unknown := sorted(set(filter(None, options.causes.split(","))) - set(causes.CAUSES)):
        parser.error(f"unknown cause: {', '.join(unknown)} (choose from {', '.join(causes.CAUSES)})")
    if options.model is None and not WITHOUT_MODEL.issuperset(options.sections):
        parser.error(f"--model is required for all sections but {', '.join(sorted(WITHOUT_MODEL))}")
    if "evolve" in options.sections and not options.evolve:
        parser.error("section evolve needs --evolve WORDS")
    options.models = options.models or options.model
    # Commands also run in other folders.
    options.fovea, options.against, options.slower = (
        path and str(pathlib.Path(path).resolve()) for path in (options.fovea, options.against, options.slower)
    )
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that child processes are ended, too
    results = runs.read_result(options.json)
    identity = {"host": machine.host(), "commit": machine.commit(options.fovea)}
    if results and (other := {key: results["machine"].get(key) for key in identity}) != identity:
        parser.error(f"{options.json.name} was measured by {other}, but this is {identity}; choose another file")
    options.failed = False
    for section in options.sections:
        try:
            section_result = SECTIONS[section](options)
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            log(f"{section}: {error}")
            options.failed, section_result = True, {}
        if section_result:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            where = {"machine": machine.describe(options.fovea, "cuda")}
            results |= where | strip_paths(options, section_result)
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    return int(options.failed)


if __name__ == "__main__":
    sys.exit(main())
