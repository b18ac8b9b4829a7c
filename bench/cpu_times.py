"""Tells where the time of a forward pass on the CPU goes, Fovea's beside OpenVINO's, and what the machine can do at
most, all in one run:

    python3 bench/cpu_times.py MODEL [--batch 32] [--precision fp32,bf16,int8] [--threads 0] [--photos examples/photos]
                               [--fovea build/release/bin/fovea] [--json FILE]

A row is the milliseconds that one precision takes in one part of the network, the median of three calls each. The
products of the ceilings have their operands in the nearest cache (bench/cpu_ceilings.cpp)."""

import collections
import json
import pathlib
import statistics
import tempfile

import hard_photos
import machine
import measuring
import numpy
import peers_cpu
from programs import answer, words
from transformers import SiglipVisionConfig

CALLS = 3
PARTS = ("products", "attention", "norms", "pooling head", "between them")
FOVEA_PARTS = {
    "patch_embed": "products",
    "qkv": "products",
    "out": "products",
    "fc1": "products",
    "fc2": "products",
    "attention": "attention",
    "layer_norm": "norms",
    "pool": "pooling head",
}
# What OpenVINO calls its nodes; the tokenized attention of a layer is a Subgraph. GELU is part of its products, as of
# ours.
OPENVINO_PARTS = {
    "FullyConnected": "products",
    "FullyConnectedQuantizedLegacy": "products",
    "Convolution": "products",
    "Subgraph": "attention",
    "ScaledDotProductAttention": "attention",
    "MatMul": "attention",
    "Softmax": "attention",
    "MVN": "norms",
}


def work(config, images):
    """What a forward pass does outside of the pooling head, which has one token an image: multiplications and additions
    of the products, of which int8 leaves the attention's output projection as it is, and numbers that go through
    norms."""
    tokens = images * (config.image_size // config.patch_size) ** 2
    hidden, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    patch = config.num_channels * config.patch_size**2
    return {
        "out": 2 * tokens * layers * hidden * hidden,
        "other_products": 2 * tokens * hidden * (patch + layers * (3 * hidden + 2 * inner)),
        "attention": 4 * tokens * (tokens // images) * hidden * layers,
        "normed": tokens * hidden * (2 * layers + 1),
    }


def of_fovea(options, precision):
    """Milliseconds of each part."""
    names = words(options.model, batch=options.batch, precision=precision, threads=options.threads, seconds=0)
    done = json.loads(answer(options.fovea.with_name("encoder_bench"), *names))
    result = done["results"][0]
    parts = collections.Counter()
    for place, share in result["operators"].items():
        parts[FOVEA_PARTS[place]] += share * result["milliseconds"]
    return parts


def of_openvino(options, precision):
    """Milliseconds of each part, by its own profile."""
    engine = peers_cpu.OpenVino(options, precision, "LATENCY", PERF_COUNT=True)
    side = SiglipVisionConfig.from_pretrained(options.model).image_size
    values = numpy.random.default_rng(0).standard_normal((options.batch, 3, side, side), dtype=numpy.float32)
    engine.embed(values)
    calls = []
    for _ in range(CALLS):
        engine.embed(values)
        parts = collections.Counter()
        for node in engine.request.get_profiling_info():
            # The pooling head's nodes are few and small: its products and attention stay with the layers'.
            parts[OPENVINO_PARTS.get(node.node_type, "between them")] += node.real_time.total_seconds() * 1e3
        calls.append(parts)
    return {
        part: statistics.median(call[part] for call in calls) for part in PARTS if any(call[part] for call in calls)
    }


def main():
    parser = measuring.parser(__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--precision", default="fp32,bf16,int8")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--photos", type=pathlib.Path, default=hard_photos.EXAMPLES, help="that int8 is calibrated on")
    options = parser.parse_args()
    options.threads = options.threads or machine.cpus()
    config = SiglipVisionConfig.from_pretrained(options.model)
    ceilings = json.loads(answer(options.fovea.with_name("cpu_ceilings"), options.threads))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        options.folder = folder
        for precision in options.precision.split(","):
            for name, engine in (("fovea", of_fovea), ("OpenVINO", of_openvino)):
                milliseconds = dict(engine(options, precision))
                row = {"precision": precision, "batch": options.batch, "engine": name, "milliseconds": milliseconds}
                rows.append(row)
    told = {"threads": options.threads, "ceilings": ceilings, "work": work(config, options.batch), "rows": rows}
    machine.hand_over({"machine": machine.describe(options.fovea), "cpu_times": told}, options.json)


if __name__ == "__main__":
    main()
