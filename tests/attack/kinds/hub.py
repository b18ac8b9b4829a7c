"""`fovea pull` from a hostile hub: an error in time, in little memory, and whatever it does a signal ends it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from attack.arena import STOP, Arena, Case
from attack.generate.hub import NAME, Hub, situations

# A transfer that goes slowly is given up only after a while, and tried again; what a person does is Ctrl-C.
_SLOW = ("drip", "silent")
_PATIENCE = 15.0
_MEMORY = 300_000_000


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    files = {path.name: path.read_bytes() for path in arena.model.iterdir()}
    for where, how, status in situations(random):
        with arena.case("hub", f"{where} {how} {status}") as case:
            hub = Hub(files, where, how, status)
            env = {"HF_HOME": str(case.folder / "hf"), "HF_HUB_CACHE": "", "HF_TOKEN": "", "HF_ENDPOINT": hub.endpoint, "no_proxy": "*"}
            process = case.start("pull", NAME, "--retries", "0", env=env,
                                 note=f"with a hub (tests/attack/generate/hub.py) that answers {case.name}")  # fmt: skip
            try:
                if how in _SLOW or random.random() < 0.2:
                    process.wait(random.uniform(0.3, 2.0))
                    process.send(random.choice((2, 15)))
                    ending = case.end(process, patience=STOP, codes=(0, 1, 130, -2, -15), memory=_MEMORY)
                else:
                    ending = case.end(process, patience=_PATIENCE, codes=(0, 1), memory=_MEMORY)
                case.judge_text(ending.stdout)
                case.refused += ending.code != 0
                case.accepted += ending.code == 0
            finally:
                hub.close()
        yield case
