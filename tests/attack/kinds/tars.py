"""Hostile archives among good photos: what comes before the damage is right, and nothing is lost silently."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

from attack.arena import Arena, Case
from attack.generate.tars import Archive, archives
from attack.jobs import EITHER, ROW, Input, mixed, run_job

_UNPACK = 3e-9  # seconds for a byte that has to be unpacked to get past it: bzip2 and xz take their time


def input_of(case: Case, archive: Archive) -> Input:
    case.write(archive.name, archive.data)
    name = archive.name.encode() + b"#"
    inside = [Input(name + member, ROW, pixels=case.arena.pixels[photo]) for member, photo in archive.whole.items()]
    inside += [Input(name + member, EITHER) for member in archive.named]
    allowed = (1 << 30) + 100 * len(archive.data)  # docs/output.md
    return Input(archive.name.encode(), many=True, inside=inside, honest=_UNPACK * min(archive.packed, allowed))


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    photos = [path.read_bytes() for path in arena.photos[:3]]
    made = list(archives(random, photos, arena.bomb_scale))
    random.shuffle(made)
    for archive in made:
        with arena.case("tars", archive.name) as case:
            run_job(case, mixed(case, [input_of(case, archive)]), command=random.choice(("preprocess", "embed")))
        yield case
    with arena.case("tars", "not a file") as case:
        os.mkfifo(case.folder / "pipe.tar")
        (case.folder / "zero.tar").symlink_to("/dev/zero")
        (case.folder / "folder.tar").mkdir()
        with open(case.folder / "hole.tar", "wb") as file:
            file.truncate(1 << 40)
        names = (b"pipe.tar", b"zero.tar", b"folder.tar", b"hole.tar", b"absent.tar")
        run_job(case, mixed(case, [Input(name, many=True) for name in names]))
    yield case
