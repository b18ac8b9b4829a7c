"""The kinds of attack. Each module's attack(arena, random) yields cases that were run and judged, until it
has been through all that it knows; another seed gives others."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from random import Random

from attack.arena import Arena, Case

Attack = Callable[[Arena, Random], Iterator[Case]]
NAMES = ("bombs", "huge", "memory", "mutants", "tars", "sources", "models", "hub", "states", "process", "signals",
         "kills", "python")  # fmt: skip


def kind(name: str) -> Attack:
    return importlib.import_module(f"attack.kinds.{name}").attack
