"""Describes the contents of result files, and checks files against the description, so that sections can rely on it.

A shape is a scalar's name, [shape] for a list, {key: shape} for an object, or {"*": shape} for an object with arbitrary
keys. A key that ends in "?" may be missing or null, and keys that are not named may hold any value."""

import re

from report.markup import printable


class Damaged(ValueError):
    """Raised for a file that is not a result, or holds invalid values."""


def batch_size(rate: dict) -> float:
    """Returns the batch size of an encoder rate."""
    if batch := rate.get("batch") or rate.get("batch_size"):
        return batch
    match = re.search(r"(?:^| )([1-9]\d{0,8})$", str(rate.get("case")))  # as in "batch 1024"
    if not match:
        raise Damaged(f'its "case" is "{rate.get("case")}", without a batch size')
    return int(match[1])


def images_per_second(rate: dict) -> float | None:
    """Returns images per second, by the GPU's own time where available, or None for a peer that was left out."""
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
    "share": (
        "a share from 0 to 1",
        lambda value: is_number(value) and 0 <= value <= 1.02,
    ),  # sums of rounded parts may exceed 1
}


# Scalar types by key; a key has the same type in all documents.
KEYS = {
    "text": """answer card case description device engine failed_at figure file how kernel level means model name
        parameter peer plan population precision reason role rule sense sources task tool truth try verdict what why
        words wrong""",
    "value": "exit_code line rounds seed",
    "truth": "ambiguous clean kept passed same_result source_changed valid",
    "number": """bf16_flops change cost_seconds e4m3_flops flops l2_bytes_per_second limit matrix_ceiling model_seconds
        model_spread percent ratio reading seconds speed_up speed_up_over_model spread""",
    "positive": "batch batch_size bytes copy_bytes_per_second device_images_per_second images_per_second",
    "whole": "best errors generation number runs",
    "share": "share",
}
SCALAR_BY_KEY = {key: scalar for scalar, names in KEYS.items() for key in names.split()}


def keys(names: str, more: dict | None = None) -> dict:
    """Returns the shape of an object with the given keys, of their types in KEYS, and the keys of `more`."""
    return {name: SCALAR_BY_KEY[name.removesuffix("?")] for name in names.split()} | (more or {})


STALLS = {"*": "share"}
GATE = keys("figure sense limit reading passed model?")
GATE_RUN = {"exit_code?": "value", "levels": [keys("level? kernel? passed", {"missed?": ["text"]})]}
CHOICE = keys("level? kernel? runs?", {"notices?": ["text"]})
PEER = keys("name wrong? ambiguous same_result", {"seconds": "positive", "ratio": "positive"})
FIGURE = keys(
    "card case plan? description? flops bytes spread? matrix_ceiling?", {"seconds": "positive", "peers": [PEER]}
)
RATE = keys("engine? peer? precision? batch? batch_size? case? images_per_second? device_images_per_second?")
SIDE = keys("what?")

# Shapes of documents by their kind.
KINDS = {
    "profile": keys("card case kernel level? plan? sources? verdict? seconds", {
        "parameters?": {"*": "value"},
        "figures?": {"*": "number"},
        "stalls": STALLS,
        "roles?": [keys("name share", {"stalls": STALLS})],
        "findings?": [keys("rule? means try parameter?", {"seen?": {"*": "number"}})],
        "places?": [keys("file? line? role? share", {"stalls?": STALLS})],
    }),
    "gates": {"levels": [keys("card case level? kernel? seconds? passed?", {"gates": [GATE]})]},
    "compare": keys("card? case? verdict ratio rounds?", {
        "a": SIDE, "b": SIDE, "interval?": ["number"], "counters?": [keys("name change?")],
    }),
    "ledger": {
        "run": keys("card case? level? population? seed?", {
            "proposer?": ["text"],
            "baseline?": keys("kernel? seconds?", {"parameters?": {"*": "value"}}),
        }),
        "candidates": [keys(
            "number generation reason? failed_at? why? valid? kept? speed_up? cost_seconds? source_changed?",
            {"parents?": ["whole"]},
        )],
        "confirmations": [keys("number valid? speed_up?")],
        "end?": keys("why? words? best?"),
    },
    "sanitizers": {"tools": [keys("tool card? passed seconds? errors?")]},
    "verdicts": keys("card what truth percent?", {"runs": [keys("verdict ratio?")]}),
    "hostile": {"misdeeds": [keys("how exit_code? passed seconds?", {
        "invalid": [keys("failed_at why")], "valid_after?": ["value"], "ended?": ["text"],
    })]},
    "gate_planted": {
        "gates": keys("what card", {"before": GATE_RUN, "after": GATE_RUN}),
        "choice": keys("what card case?", {"gates": GATE_RUN, "before": CHOICE, "after": CHOICE}),
    },
    "judge": {"answers": [keys("task answer device? verdict", {
        "reasons?": ["text"],
        "figures?": keys("speed_up_over_model? seconds? spread? model_seconds? model_spread?"),
    })]},
}  # fmt: skip

# Shapes of the sections in files of bench/run_gpu.py and bench/run.py that the page shows.
SECTIONS = {
    "kernels": keys("copy_bytes_per_second l2_bytes_per_second? bf16_flops? e4m3_flops?", {"figures": [FIGURE]}),
    **dict.fromkeys(("gpu_bench", "encoder", "torch_encoder"), [RATE]),
    "sanitizer": {"runs": [keys("tool card? clean seconds? errors?")]},
}


def check(value: object, shape: object, name: str = "content") -> None:
    """Raises `Damaged` with the name of the key where the value does not have this shape."""
    if isinstance(shape, str):
        description, is_right = SCALARS[shape]
        if not is_right(value):
            raise Damaged(f'its "{name}" is {printable(value)[:60]}, but must be {description}')
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise Damaged(f'its "{name}" must be a list')
        for item in value:
            check(item, shape[0], name)
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            raise Damaged(f'its "{name}" must be an object')
        for key, part in shape.items():
            if key == "*":
                for field, item in value.items():
                    check(item, part, field)
            elif value.get(key.removesuffix("?")) is not None:
                check(value[key.removesuffix("?")], part, key.removesuffix("?"))
            elif not key.endswith("?"):
                raise Damaged(f'it has no "{key}"')
        if shape is RATE and images_per_second(value):
            batch_size(value)
