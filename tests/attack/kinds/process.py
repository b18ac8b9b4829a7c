"""Closed descriptors, full standard outputs, and too few descriptors, threads, or bytes of memory."""

from __future__ import annotations

import itertools
import os
import resource
import signal
from collections.abc import Iterator
from random import Random

from attack.arena import OTHER, ROWS, Arena, Case
from attack.jobs import ERROR, Input, mixed, run_job
from attack.kinds.folder_jobs import FolderJob
from attack.supervise import Limits


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    parts = [_closed(arena, random), _full_stdout(arena), _starved(arena, random), _replaced(arena, random)]
    while parts:  # in turn, so that a part of them all is done whenever it is enough
        for part in list(parts):
            case = next(part, None)
            if case is None:
                parts.remove(part)
            else:
                yield case


def _closed(arena: Arena, random: Random) -> Iterator[Case]:
    """Without standard descriptors files get their numbers, and messages must not go into them."""
    combinations = [c for n in (1, 2, 3) for c in itertools.combinations((0, 1, 2), n)]
    random.shuffle(combinations)
    for closed in combinations:
        for command in ("preprocess", "embed"):
            with arena.case("process", f"{command} without {closed}") as case:
                case.write("damaged.jpg", b"damaged")
                inputs = mixed(case, [Input(b"damaged.jpg", ERROR), Input(b"absent.jpg", ERROR)])
                run_job(case, inputs, command=command, limits=Limits(closed=closed), flags=())
            yield case
        with arena.case("process", f"signal without {closed}") as case:
            job_inputs = [str(path) for path in arena.photos] * 40
            case.write("list", "".join(f"{path}\n" for path in job_inputs).encode())
            process = case.start(
                "embed",
                "@list",
                "-m",
                arena.model,
                "-o",
                "out",
                "--batch-size",
                "4",
                *arena.precisely,
                limits=Limits(closed=closed),
                note="and SIGTERM",
            )
            process.wait(random.uniform(0.05, 0.3))
            process.send(signal.SIGTERM)
            case.end(process, codes=(0, 130, -signal.SIGTERM))
            case.run(
                "embed",
                "@list",
                "-m",
                arena.model,
                "-o",
                "out",
                "--batch-size",
                "4",
                *arena.precisely,
                codes=(0,),
            )
            _judge_repeated(case, len(job_inputs))
        yield case


def _judge_repeated(case: Case, count: int) -> None:
    import numpy as np

    out = case.folder / "out"
    if not (out / "embeddings-00000.npy").exists():
        return
    rows = np.load(out / "embeddings-00000.npy")
    right = np.tile(case.arena.embeddings, (count // len(case.arena.photos), 1))
    if rows.tobytes() != right.tobytes():
        case.problem(ROWS, f"{len(rows)} rows, of which some are not those of the good photos")


def _full_stdout(arena: Arena) -> Iterator[Case]:
    with arena.case("process", "a full standard output") as case:
        case.run("embed", *arena.photos, "-m", arena.model, "-o", "out", *arena.precisely)
        for command in (
            ["info", arena.model],
            ["info", arena.model, "--json"],
            ["similar", "--in", "out"],
            ["similar", "--in", "out", "--json"],
            ["similar", "--in", "out", "--duplicates", "--threshold", "0.01"],
            ["similar", "--in", "out", "--duplicates", "--json"],
        ):
            good = case.run(*command)
            if good.stdout:
                ending = case.run(*command, stdout="/dev/full", codes=(1,))
                if ending.code == 1 and not ending.stderr:
                    case.problem(OTHER, f"{command} fails without a message")
    yield case


def _starved(arena: Arena, random: Random) -> Iterator[Case]:
    """A lack of resources is not the fault of a photo: the job continues with less, or ends and says why."""
    job = FolderJob(arena, random)
    with arena.case("process", "an undisturbed job") as case:
        whole = job.undisturbed(case)
    yield case
    nobody = random.randrange(100_000, 2_000_000_000)
    for number in range(16 if whole else 0):
        what = ("descriptors", "memory", "threads", "memory")[number % 4]
        threads = str(random.choice((1, 2, 16, 64, 300)))
        if what == "descriptors":
            limits = Limits({resource.RLIMIT_NOFILE: random.randrange(4, 40)})
        elif what == "memory":
            limits = Limits({resource.RLIMIT_AS: random.randrange(30, 2500) << 20})
        else:
            limits = Limits({resource.RLIMIT_NPROC: random.randrange(1, 24)}, user=nobody)
        least = next(iter(limits.resources.values()))
        with arena.case("process", f"{least} {what}, {threads} decode threads") as case:
            job.prepare(case)
            case.folder.chmod(0o777)
            if limits.user >= 0 and not _may_run(case, nobody):
                continue
            codes = (0, 1, 3, 127) if what == "memory" else (0, 1, 3)
            command = job.command(case)
            command[command.index("--decode-threads") + 1] = threads
            ending = case.run(*command, limits=limits, codes=codes, patience=20)
            if ending.code == 1 and not ending.stderr.strip():
                case.problem(OTHER, "fails without a message")
            job.finish(case)
        yield case


def _may_run(case: Case, user: int) -> bool:
    """Whether another user may run the program here at all."""
    if os.geteuid() != 0:
        return False
    ending = case.start("--version", limits=Limits(user=user)).end(10)
    case.commands.clear()
    return ending.code == 0


def _replaced(arena: Arena, random: Random) -> Iterator[Case]:
    """An output that is an input, or whose temporary names are links to something else."""
    with arena.case("process", "an output that is an input") as case:
        case.run("preprocess", *arena.photos, "-m", arena.model, "-o", "x.npy")
        before = (case.folder / "x.npy").read_bytes()
        (case.folder / "link.npy").symlink_to("x.npy")
        os.link(case.folder / "x.npy", case.folder / "hard.npy")
        for name in ("x.npy", "./x.npy", "link.npy", "hard.npy"):
            for command in ("embed", "preprocess"):
                case.run(command, "x.npy", "-m", arena.model, "-o", name, codes=(2,))
                if (case.folder / "x.npy").read_bytes() != before:
                    case.problem(ROWS, f"{command} x.npy -o {name} replaced its own input")
                    (case.folder / "x.npy").write_bytes(before)
    yield case
    names = [
        "x.npy.partial",
        "x.index.jsonl.partial",
        "x.errors.jsonl.partial",
        "out/manifest.json.partial",
        "out/.lock",
        "out/errors.jsonl.partial",
        "out/embeddings-00000.npy.partial",
        "out/index-00000.jsonl.partial",
        "out/checksums.jsonl.partial",
    ]
    random.shuffle(names)
    for name in names:
        with arena.case("process", f"{name} is a link") as case:
            victim = case.write("victim", b"precious")
            (case.folder / "out").mkdir()
            (case.folder / name).symlink_to(victim)
            out = "out" if name.startswith("out") else "x.npy"
            case.run("embed", *arena.photos, "-m", arena.model, "-o", out, *arena.precisely, codes=(0, 1))
            if victim.read_bytes() != b"precious":
                case.problem(ROWS, f"the file that {name} links to was written to")
            result = case.folder / out
            if result.is_symlink():
                case.problem(ROWS, f"{out} is a link now")
        yield case
