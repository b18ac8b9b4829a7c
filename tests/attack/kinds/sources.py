"""Hostile lists, arrays, folders and special files among good photos: each is at worst a failed input."""

from __future__ import annotations

import io
import json
import os
import socket
from collections.abc import Callable, Iterator
from random import Random

import numpy as np

from attack.arena import ROWS, Arena, Case
from attack.generate.names import hostile_names
from attack.jobs import EITHER, ERROR, ROW, Input, mixed, run_job

# Each makes files in the case's folder and returns the inputs that they are.
Maker = Callable[[Case, Random], list[Input]]


def _jsonl(case: Case, name: str, lines: list[bytes], inside: list[Input], end: bytes = b"\n") -> list[Input]:
    case.write(name, end.join(lines) + end)
    return [Input(name.encode(), many=True, inside=inside)]


def _photo(case: Case, number: int, name: str) -> Input:
    """A copy of a good photo, so that it may occur beside the others."""
    case.write(name, case.arena.photos[number].read_bytes())
    return Input(name.encode(), ROW, pixels=case.arena.pixels[number])


def jsonl(case: Case, random: Random) -> list[Input]:
    """Lines that are long, deep, of the wrong type, of odd names; what comes before them is right."""
    before = _photo(case, 20, "before.jpg")
    line = json.dumps({"path": "before.jpg"}).encode()
    size = random.randrange(1 << 20, 8 << 20)
    bad = [
        b'{"path": "' + b"x" * size + b'"}',
        b"[" * size,
        b'{"a":' * size,
        b"{" * 100,
        b"\0" * size,
        b"\xff" * size,
        b'{"path": 5}',
        b'{"path": null}',
        b'{"path": ["x"]}',
        b'{"path": "a\\u0000b"}',
        b'{"path": "\\ud800"}',
        b'{"source": "\\\\x4"}',
        b'{"source": "\\\\q"}',
        b'{"path": "x", "path": "y"}',
        b"{}",
        b'{"path": ""}',
        b"null",
        b'{"path": "\\u001b]0;owned\\u0007"}',
        b'{"path": "' + b"/" * 5000 + b'"}',
        b'{"path": 1e999}',
        b'"' + b"\\" * 1001,
        b'{"path": "/dev/zero"}',
        b'{"path": "/dev/stdin"}',
        b'{"path": "/proc/self/mem"}',
        b'{"path": "."}',
    ]
    return _jsonl(case, "lines.jsonl", [line, random.choice(bad)], [before])


def jsonl_links(case: Case, random: Random) -> list[Input]:
    """Files that never end, or do not answer."""
    os.mkfifo(case.folder / "pipe.jsonl")
    (case.folder / "zero.jsonl").symlink_to("/dev/zero")
    (case.folder / "folder.jsonl").mkdir()
    (case.folder / "loop.jsonl").symlink_to("loop.jsonl")
    with open(case.folder / "hole.jsonl", "wb") as file:
        file.truncate(1 << 36)
    names = [b"pipe.jsonl", b"zero.jsonl", b"folder.jsonl", b"loop.jsonl", b"hole.jsonl", b"absent.jsonl"]
    random.shuffle(names)
    return [Input(name, many=True) for name in names]


def arrays(case: Case, random: Random) -> list[Input]:
    """Arrays of pixels whose index is short, long, misnumbered, or something else; and odd arrays."""
    right = case.arena.pixels[:4]
    buffer = io.BytesIO()
    np.save(buffer, right)
    lines = [b'{"row": %d, "source": "inside%d", "width": 4, "height": 4}' % (i, i) for i in range(4)]
    wrong = {
        "short": lines[:3],
        "long": [*lines, lines[0]],
        "misnumbered": [lines[0], lines[2], lines[1], lines[3]],
        "no-json": [lines[0], b"hello", *lines[2:]],
        "long-line": [lines[0], b"x" * (2 << 20)],
        "empty": [],
        "deep": [b"[" * (1 << 20)],
        "negative": [lines[0].replace(b'"width": 4', b'"width": -4'), *lines[1:]],
        "escapes": [b'{"row": 0, "source": "\\u001b[2J", "width": 4, "height": 4}', *lines[1:]],
        "bad-escape": [b'{"row": 0, "source": "\\\\x4", "width": 4, "height": 4}', *lines[1:]],
    }
    name = random.choice(list(wrong))
    case.write(f"{name}.npy", buffer.getvalue())
    case.write(f"{name}.index.jsonl", b"".join(line + b"\n" for line in wrong[name]))
    os.mkfifo(case.folder / "pipe.npy")
    (case.folder / "zero.npy").symlink_to("/dev/zero")
    case.write("piped-index.npy", buffer.getvalue())
    os.mkfifo(case.folder / "piped-index.index.jsonl")
    cut = buffer.getvalue()
    case.write("cut.npy", cut[: random.randrange(len(cut))])
    damaged = bytearray(cut)
    for _ in range(random.choice((1, 4))):
        damaged[random.randrange(128)] = random.randrange(256)
    case.write("damaged.npy", bytes(damaged))
    names = (f"{name}.npy", "pipe.npy", "zero.npy", "piped-index.npy", "cut.npy", "damaged.npy", "absent.npy")
    return [Input(one.encode(), many=True) for one in names]


def special(case: Case, random: Random) -> list[Input]:
    """Names of things that are not regular files."""
    os.mkfifo(case.folder / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(case.folder)  # a socket's name may not be long
        server.bind("socket.jpg")
        os.chdir(here)
    (case.folder / "loop.jpg").symlink_to("loop.jpg")
    with open(case.folder / "hole.jpg", "wb") as file:
        file.truncate(1 << 40)
    names = [
        b"pipe.jpg",
        b"socket.jpg",
        b"loop.jpg",
        b"hole.jpg",
        b"/dev/zero",
        b"/dev/full",
        b"/dev/random",
        b"/dev/tty",
        b"/proc/self/mem",
        b"/proc/kmsg",
        b"/proc/self/pagemap",
        b"/dev/fd/0",
        b"/proc/self/fd/2",
    ]
    random.shuffle(names)
    return [Input(name, ERROR) for name in names]


def linked_folders(case: Case, random: Random) -> list[Input]:
    """Folders that link to each other: the photos of each are read, and not again by every way there is."""
    count = random.randrange(5, 9)
    for number in range(count):
        case.write(f"web/{number}/{number}.jpg", case.arena.photos[20].read_bytes())
        for other in range(count):
            (case.folder / f"web/{number}/to{other}").symlink_to(f"../{other}")
    (case.folder / "web/up").symlink_to("..")
    (case.folder / "web/self.jpg").symlink_to(".")
    return [Input(b"web", many=True)]


def names(case: Case, random: Random) -> list[Input]:
    """Files of odd names, some there and some not."""
    inputs = []
    for name in hostile_names(random):
        if b"\0" in name:
            continue
        if random.random() < 0.7 and name not in (b"-",):
            (case.folder / os.fsdecode(name)).write_bytes(case.arena.photos[21].read_bytes())
            inputs.append(Input(name, EITHER, pixels=case.arena.pixels[21]))
        else:
            inputs.append(Input(b"absent" + name, ERROR))
    inputs.append(Input(b"long" * random.choice((1000, 200_000)), ERROR))
    return inputs


_MAKERS: tuple[Maker, ...] = (
    jsonl,
    jsonl,
    jsonl,
    jsonl,
    jsonl_links,
    arrays,
    arrays,
    arrays,
    special,
    linked_folders,
    names,
)


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    for make in _MAKERS:
        with arena.case("sources", make.__name__) as case:
            inputs = make(case, random)
            run_job(case, mixed(case, inputs), command=random.choice(("preprocess", "embed")), flags=())
            if make is linked_folders:
                _judge_web(case)
        yield case
    yield from _on_the_command_line(arena, random)


def _judge_web(case: Case) -> None:
    """Of each photo there is a row, and no more rows than a person would look through."""
    index = case.folder / "out.index.jsonl"
    sources = [json.loads(line)["source"] for line in index.read_text().splitlines()] if index.exists() else []
    there = {os.path.basename(source) for source in sources if source.startswith("web/")}
    if wanted := {path.name for path in case.folder.glob("web/?/?.jpg")} - there:
        case.problem(ROWS, f"no row for {sorted(wanted)}")
    if len(sources) > 1000:
        case.problem(ROWS, f"{len(sources)} rows for {len(there)} photos in folders that link to each other")


def _on_the_command_line(arena: Arena, random: Random) -> Iterator[Case]:
    """What a list may hold may also be named itself; a list that is a pipe may end the job, at once."""
    for name in (
        "pipe.npy",
        "pipe.jsonl",
        "pipe.tar",
        "pipe.jpg",
        "@pipe",
        "@/dev/zero",
        "@folder",
        "@long",
        "@/dev/full",
    ):
        with arena.case("sources", f"argument {name}") as case:
            if name.startswith("pipe"):
                os.mkfifo(case.folder / name)
            os.mkfifo(case.folder / "pipe")
            (case.folder / "folder").mkdir()
            case.write("long", b"x" * random.randrange(1 << 20, 1 << 25))
            # The list that is a pipe waits for its writer: a job that may wait as long as it hears signals.
            if name == "@pipe":
                process = case.start("preprocess", name, "-m", arena.model, "-o", "out.npy", note="then SIGTERM")
                process.wait(random.uniform(0.3, 1.0))
                process.send(15)
                case.end(process, patience=2, codes=(130, -15, 0, 1))
            else:
                case.run("preprocess", name, "-m", arena.model, "-o", "out.npy", codes=(0, 1, 3))
        yield case
