"""Hostile model folders: read or refused, quickly, in little memory, and with clean messages."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Iterator
from random import Random

from attack.arena import Arena, Case

_STRINGS = [
    "\x1b]0;owned\x07",
    "\u202etxt",
    "\u009b31m",
    "../../etc/passwd",
    "/dev/zero",
    "a\0b",
    "x" * 1_000_000,
    "",
]
_NUMBERS = [
    0,
    -1,
    1,
    3,
    1 << 31,
    1 << 32,
    1 << 63,
    1 << 64,
    -(1 << 63),
    1.5,
    1e308,
    float("1e-320"),
    True,
    None,
]


def _value(random: Random):
    return random.choice(
        (random.choice(_STRINGS), random.choice(_NUMBERS), random.choice(_NUMBERS), [], {}, [[]] * 1000)
    )


def _json(case: Case, random: Random, name: str) -> str:
    """One value of a JSON file replaced by another."""
    path = case.folder / "model" / name
    tree = json.loads(path.read_text())
    node, key = tree, random.choice(list(tree))
    while isinstance(node[key], dict) and node[key] and random.random() < 0.9:
        node, key = node[key], random.choice(list(node[key]))
    node[key] = _value(random)
    path.write_text(json.dumps(tree))
    return f"{name} {key} := {str(node[key])[:20]!r}"


def config(case: Case, random: Random) -> str:
    return _json(case, random, "config.json")


def preprocessor(case: Case, random: Random) -> str:
    return _json(case, random, "preprocessor_config.json")


def text(case: Case, random: Random) -> str:
    """Files that are not JSON, deep JSON, long JSON."""
    name = random.choice(("config.json", "preprocessor_config.json", "model.safetensors.index.json"))
    size = random.randrange(1 << 20, 32 << 20)
    what = random.choice((b"[", b'{"a":', b"1", b"\xff", b'"', b" ", b'{"weight_map":{' + b'"a":"b",' * 10, b"[1,"))
    (case.folder / "model" / name).write_bytes(what * (size // len(what)))
    if name.startswith("model"):
        (case.folder / "model/model.safetensors").unlink()
    return f"{name} of {what[:10]!r}"


def weights(case: Case, random: Random) -> str:
    """A header of tensors that lies."""
    path = case.folder / "model/model.safetensors"
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    head, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    how = random.choice(("value", "offsets", "name", "length", "cut", "flip", "deep", "wide"))
    name = random.choice([key for key in head if key != "__metadata__"])
    if how == "value":
        head[name][random.choice(("dtype", "shape", "data_offsets"))] = _value(random)
    elif how == "offsets":
        head[name]["data_offsets"] = [
            random.choice((0, 1, 1 << 40, len(body))),
            random.choice((0, 1 << 63, len(body) + 1)),
        ]
    elif how == "name":
        head[random.choice(_STRINGS)] = head.pop(name)
    packed = json.dumps(head).encode()
    if how == "deep":
        packed = b"[" * (20 << 20)
    if how == "wide":
        packed = (
            b"{"
            + b",".join(b'"t%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(300_000))
            + b"}"
        )
    length = random.choice((0, 1, 1 << 40, (1 << 64) - 1)) if how == "length" else len(packed)
    out = bytearray(struct.pack("<Q", length) + packed + body)
    if how == "cut":
        del out[random.randrange(len(out)) :]
    if how == "flip":
        for _ in range(8):
            out[random.randrange(min(len(out), size))] ^= 1 << random.randrange(8)
    path.write_bytes(out)
    return f"weights {how}"


def special(case: Case, random: Random) -> str:
    """Pipes, devices and folders in place of files, and shards that are elsewhere."""
    name = random.choice(
        (
            "config.json",
            "preprocessor_config.json",
            "model.safetensors",
            "model.safetensors.index.json",
            "shard",
        )
    )
    model = case.folder / "model"
    if name == "shard" or name.endswith("index.json"):
        (model / "model.safetensors").unlink()
    if name == "shard":
        name = "shard.safetensors"
        where = random.choice((name, name, "../model/shard.safetensors", "/dev/zero", random.choice(_STRINGS[:6])))
        (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": where, "b": name}}))
    path = model / name
    path.unlink(missing_ok=True)
    how = random.choice(("pipe", "zero", "folder", "loop", "hole"))
    if how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    elif how == "hole":
        with open(path, "wb") as file:
            file.truncate(1 << 40)
    else:
        path.symlink_to("/dev/zero" if how == "zero" else name)
    return f"{name} is a {how}"


_MAKERS = (
    config,
    config,
    config,
    preprocessor,
    preprocessor,
    text,
    text,
    weights,
    weights,
    weights,
    special,
    special,
    special,
)


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    for make in _MAKERS * 3:
        with arena.case("models", make.__name__) as case:
            shutil.copytree(arena.model, case.folder / "model")
            case.name = make(case, random)
            for command in (
                ["info", "model"],
                ["info", "model", "--json"],
                ["preprocess", arena.photos[0], "-m", "model", "-o", "x.npy"],
                ["embed", arena.photos[0], "-m", "model", "-o", "out", *arena.precisely],
            ):
                ending = case.run(*command, codes=(0, 1, 3))
                if "--json" not in command:
                    case.judge_text(ending.stdout)
                case.refused += ending.code == 1
                case.accepted += ending.code in (0, 3)
        yield case
