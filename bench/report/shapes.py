"""What files of results hold, and how one that is damaged is told: sections may then rely on it.

A shape is a scalar's name, [shape] for a list, {key: shape} for an object, {"*": shape} for an object of any keys. A
key that ends in "?" may be missing or null, and keys that are not named may hold anything."""

import re

from report.markup import printable


class Damaged(ValueError):
    """A file that is no result, or holds what none can hold."""


def batch_of(rate: dict) -> float:
    """What a rate of the encoder is of."""
    if batch := rate.get("batch") or rate.get("batch_size"):
        return batch
    found = re.search(r"(?:^| )([1-9]\d{0,8})$", str(rate.get("case")))  # batch 1024
    if not found:
        raise Damaged(f'its "case" is "{rate.get("case")}", which names no batch')
    return int(found[1])


def rate_of(rate: dict) -> float | None:
    """Images per second, by the GPU's own time where it is told; a peer that was left out has none."""
    return rate.get("device_images_per_second") or rate.get("images_per_second")


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


SCALARS = {
    "text": ("text", lambda value: isinstance(value, str)),
    "value": ("text or a number", lambda value: isinstance(value, str) or is_number(value)),
    "truth": ("true or false", lambda value: isinstance(value, bool)),
    "number": ("a number", is_number),
    "positive": ("a number above 0", lambda value: is_number(value) and value > 0),
    "whole": ("a whole number", lambda value: is_number(value) and value == int(value) and abs(value) <= 1e9),
    "share": ("a share from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1.02),  # of rounded parts
}

STALLS = {"*": "share"}
GATE = {"figure": "text", "sense": "text", "limit": "number", "reading": "number", "passed": "truth", "model?": "text"}
LEVEL = {
    "card": "text",
    "case": "text",
    "level?": "text",
    "kernel?": "text",
    "seconds?": "number",
    "passed?": "truth",
    "gates": [GATE],
}
RUN_OF_GATES = {
    "exit_code?": "value",
    "levels": [{"level?": "text", "kernel?": "text", "passed": "truth", "missed?": ["text"]}],
}
CHOICE = {"level?": "text", "kernel?": "text", "runs?": "whole", "notices?": ["text"]}
PEER = {
    "name": "text",
    "wrong?": "text",
    "seconds": "positive",
    "ratio": "positive",
    "ambiguous": "truth",
    "same_result": "truth",
}
FIGURE = {
    "card": "text",
    "case": "text",
    "plan?": "text",
    "description?": "text",
    "flops": "number",
    "bytes": "positive",
    "seconds": "positive",
    "spread?": "number",
    "matrix_ceiling?": "number",
    "peers": [PEER],
}
RATE = {
    "engine?": "text",
    "peer?": "text",
    "precision?": "text",
    "batch?": "positive",
    "batch_size?": "positive",
    "case?": "text",
    "images_per_second?": "positive",
    "device_images_per_second?": "positive",
}
CANDIDATE = {
    "number": "whole",
    "generation": "whole",
    "parents?": ["whole"],
    "reason?": "text",
    "failed_at?": "text",
    "why?": "text",
    "valid?": "truth",
    "kept?": "truth",
    "speed_up?": "number",
    "cost_seconds?": "number",
    "source_changed?": "truth",
}
SIDE = {"what?": "text"}

# Shapes by the kind that a document says to be of.
KINDS = {
    "profile": {
        "card": "text", "case": "text", "kernel": "text", "level?": "text", "plan?": "text", "sources?": "text",
        "parameters?": {"*": "value"},
        "seconds": "number", "figures?": {"*": "number"}, "stalls": STALLS, "verdict?": "text",
        "roles?": [{"name": "text", "share": "share", "stalls": STALLS}],
        "findings?": [{"rule?": "text", "means": "text", "try": "text", "parameter?": "text",
        "seen?": {"*": "number"}}],
        "places?": [{"file?": "text", "line?": "value", "role?": "text", "share": "share", "stalls?": STALLS}],
    },
    "gates": {"levels": [LEVEL]},
    "compare": {
        "card?": "text", "case?": "text", "a": SIDE, "b": SIDE, "verdict": "text", "ratio": "number",
        "interval?": ["number"], "rounds?": "value",
        "counters?": [{"name": "text", "change?": "number"}],
    },
    "ledger": {
        "run": {
            "card": "text", "case?": "text", "level?": "text", "population?": "text", "seed?": "value",
            "proposer?": ["text"],
            "baseline?": {"kernel?": "text", "parameters?": {"*": "value"}, "seconds?": "number"},
        },
        "candidates": [CANDIDATE],
        "confirmations": [{"number": "whole", "valid?": "truth", "speed_up?": "number"}],
        "end?": {"why?": "text", "words?": "text", "best?": "whole"},
    },
    "sanitizers": {"tools": [{"tool": "text", "card?": "text", "passed": "truth", "seconds?": "number",
    "errors?": "whole"}]},
    "verdicts": {"card": "text", "what": "text", "truth": "text", "runs": [{"verdict": "text", "ratio?": "number"}],
    "percent?": "number"},
    "hostile": {
        "misdeeds": [{
            "how": "text", "exit_code?": "value", "passed": "truth", "seconds?": "number",
            "invalid": [{"failed_at": "text", "why": "text"}],
            "valid_after?": ["value"], "ended?": ["text"],
        }],
    },
    "gate_planted": {
        "gates": {"what": "text", "card": "text", "before": RUN_OF_GATES, "after": RUN_OF_GATES},
        "choice": {"what": "text", "card": "text", "case?": "text", "gates": RUN_OF_GATES, "before": CHOICE,
        "after": CHOICE},
    },
    "judge": {"answers": [{
        "task": "text", "answer": "text", "device?": "text", "verdict": "text", "reasons?": ["text"],
        "figures?": {"speed_up_over_model?": "number", "seconds?": "number", "spread?": "number",
        "model_seconds?": "number", "model_spread?": "number"},
    }]},
}  # fmt: skip

# The sections of a file of bench/run_gpu.py and bench/run.py that the page shows, and those by which such a file is known.
SECTIONS = {
    "kernels": {
        "copy_bytes_per_second": "positive", "l2_bytes_per_second?": "number", "bf16_flops?": "number",
        "e4m3_flops?": "number", "figures": [FIGURE],
    },
    "gpu_bench": [RATE], "encoder": [RATE], "torch_encoder": [RATE],
    "sanitizer": {"runs": [{"tool": "text", "card?": "text", "clean": "truth", "seconds?": "number",
    "errors?": "whole"}]},
}  # fmt: skip


def check(value: object, shape: object, name: str = "content") -> None:
    """Raises `Damaged` that names the key where the value is not of this shape."""
    if isinstance(shape, str):
        word, is_right = SCALARS[shape]
        if not is_right(value):
            raise Damaged(f'its "{name}" is {printable(value)[:60]}, and should be {word}')
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise Damaged(f'its "{name}" is no list')
        for item in value:
            check(item, shape[0], name)
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            raise Damaged(f'its "{name}" is no object')
        for key, part in shape.items():
            if key == "*":
                for field, item in value.items():
                    check(item, part, field)
            elif value.get(key.removesuffix("?")) is not None:
                check(value[key.removesuffix("?")], part, key.removesuffix("?"))
            elif not key.endswith("?"):
                raise Damaged(f'it has no "{key}"')
        if shape is RATE and rate_of(value):
            batch_of(value)
