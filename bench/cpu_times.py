"""Measures how the time of a forward pass on the CPU is divided among the parts of the network, for Fovea and for
OpenVINO, and the machine's peak rates, all in one run:

    python3 bench/cpu_times.py MODEL [--batch 32] [--precision fp32,bf16,int8] [--threads 0] [--photos examples/photos]
                               [--fovea build/release/bin/fovea] [--json FILE]

A row has the milliseconds that one engine takes in each part of the network at one precision, medians of three calls.
The peak rates of matrix products are those of operands in the L1 cache (bench/cpu_ceilings.cpp)."""

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
from programs import answer, command_arguments
from transformers import SiglipVisionConfig

CALLS = 3
PARTS_OF_NETWORK = ("products", "attention", "norms", "pooling head", "between them")
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
# OpenVINO's node types. The fused attention of a layer is a Subgraph. GELU is fused into the products, as in Fovea.
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
    """Work of a forward pass without the pooling head, which has one token per image: multiplications and additions of
    the products (the attention's output projection apart, as it is not quantized to int8), and the number of elements
    that are normalised."""
    tokens = images * (config.image_size // config.patch_size) ** 2
    hidden, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    patch = config.num_channels * config.patch_size**2
    return {
        "out": 2 * tokens * layers * hidden * hidden,
        "other_products": 2 * tokens * hidden * (patch + layers * (3 * hidden + 2 * inner)),
        "attention": 4 * tokens * (tokens // images) * hidden * layers,
        "normed": tokens * hidden * (2 * layers + 1),
    }


def fovea_times(options, precision):
    """Returns Fovea's milliseconds in each part of the network."""
    arguments = command_arguments(
        options.model, batch=options.batch, precision=precision, threads=options.threads, seconds=0, device="cpu"
    )
    done = json.loads(answer(options.fovea.with_name("encoder_bench"), *arguments))
    result = done["results"][0]
    parts = collections.Counter()
    for operator, share in result["operators"].items():
        parts[FOVEA_PARTS[operator]] += share * result["milliseconds"]
    return parts


def openvino_times(options, precision):
    """Returns OpenVINO's milliseconds in each part of the network, from its own profile."""
    engine = peers_cpu.OpenVino(options, precision, "LATENCY", PERF_COUNT=True)
    side = SiglipVisionConfig.from_pretrained(options.model).image_size
    values = numpy.random.default_rng(0).standard_normal((options.batch, 3, side, side), dtype=numpy.float32)
    engine.embed(values)
    calls = []
    for _ in range(CALLS):
        engine.embed(values)
        parts = collections.Counter()
        for node in engine.request.get_profiling_info():
            # The pooling head's nodes are few and small, so they are counted with those of the layers.
            parts[OPENVINO_PARTS.get(node.node_type, "between them")] += node.real_time.total_seconds() * 1e3
        calls.append(parts)
    return {
        part: statistics.median(call[part] for call in calls)
        for part in PARTS_OF_NETWORK
        if any(call[part] for call in calls)
    }


def main():
    parser = measuring.parser(__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--precision", default="fp32,bf16,int8")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--photos", type=pathlib.Path, default=hard_photos.EXAMPLES, help="photos for int8 calibration")
    options = parser.parse_args()
    options.threads = options.threads or machine.cpus()
    config = SiglipVisionConfig.from_pretrained(options.model)
    ceilings = json.loads(answer(options.fovea.with_name("cpu_ceilings"), options.threads))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        options.folder = folder
        for precision in options.precision.split(","):
            for name, engine in (("fovea", fovea_times), ("OpenVINO", openvino_times)):
                milliseconds = dict(engine(options, precision))
                row = {"precision": precision, "batch": options.batch, "engine": name, "milliseconds": milliseconds}
                rows.append(row)
    figures = {"threads": options.threads, "ceilings": ceilings, "work": work(config, options.batch), "rows": rows}
    machine.write_result({"machine": machine.describe(options.fovea), "cpu_times": figures}, options.json)


if __name__ == "__main__":
    main()
