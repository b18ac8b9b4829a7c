"""Measures encoder rates of Fovea, OpenVINO, transformers, torch.compile and onnxruntime with the same model, pixels
and threads, in alternating rounds of one run.

    python3 bench/peers_cpu.py MODEL [--batch 1,8,32] [--precision fp32,bf16,int8] [--rounds 3] [--seconds 3]
                               [--threads 0] [--photos examples/photos] [--quality FOLDER] [--skip NAME,...]
                               [--bench build/release/bin/encoder_bench] [--tool build/release/tests/encode_tool]
                               [--json FILE]

OpenVINO runs in both of its modes: one request at a time on all threads (latency), and the number of parallel requests
that it recommends (throughput); each with one model for all batch sizes, and with one compiled per batch size
("static"). Fovea likewise runs one batch per call, and ("throughput") as many batches per call as OpenVINO has
requests. torch.compile uses static shapes, and onnxruntime one model for all batch sizes. OpenVINO's int8 is NNCF's
quantization for transformers, calibrated on --photos; Fovea's int8 needs a model folder that was calibrated beforehand
with `fovea calibrate MODEL examples/photos --precision int8`.

Before anything is timed, every engine's embeddings of the same pixels are compared with those of transformers in fp32.
Each round times each engine once; the figure is the median of the rounds, and --rounds 0 times nothing. --quality also
compares the embeddings of all photos in a folder, such as `bench/gpu_accuracy.py --write FOLDER` makes, with the same
figures as bench/gpu_accuracy.py. An engine that fails, or that --skip names, has a row with the reason ("skipped")."""

import functools
import json
import os
import pathlib
import statistics
import tempfile
import time

import gpu_accuracy
import hard_photos
import machine
import measuring
import numpy
import torch
import torch._dynamo
import torch._inductor.config
from measuring import add_skipped_row, attempt, interleaved_results, log_against_best_peer
from PIL import Image
from programs import answer, command_arguments, log
from transformers import SiglipVisionConfig, SiglipVisionModel

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECKED_IMAGES = 4


def load_pixels(photos, side):
    """Returns uint8 pixels [photos, side, side, 3], resized as in transformers."""
    images = [Image.open(path).convert("RGB").resize((side, side), Image.Resampling.BILINEAR) for path in photos]
    return numpy.stack([numpy.asarray(image) for image in images])


def normalised(pixels):
    """Converts pixels to the model's input [images, 3, side, side], in the range -1 to 1."""
    return (pixels.astype(numpy.float32) / 127.5 - 1).transpose(0, 3, 1, 2).copy()


class Peer:
    """An engine that is called in this process, with normalised pixels."""

    requests = 1  # parallel requests, of one batch each

    def embed_pixels(self, pixels):
        return self.embed(normalised(pixels))

    def rate(self, pixels, seconds):
        """Returns images per second. The first call warms up, because the engine may compile for a new batch size."""
        values = normalised(pixels)
        return measuring.rate(lambda: self.embed(values), len(pixels), seconds)


class Torch(Peer):
    """The model of transformers, eager or compiled."""

    def __init__(self, options, precision, compiled, freezing=False):
        if precision == "int8":
            raise RuntimeError("measured only in fp32 and bf16")
        self.dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
        self.model = SiglipVisionModel.from_pretrained(options.model, dtype=self.dtype).eval()
        self.freezing = freezing
        if compiled:
            torch._dynamo.reset()
            torch._dynamo.config.recompile_limit = 64  # batch sizes; beyond this limit torch falls back to eager
            self.model = torch.compile(self.model, dynamic=False)

    def embed(self, values):
        # Freezing does not support inference_mode. A new batch size is compiled in this call, so it needs the option.
        with torch.no_grad(), torch._inductor.config.patch(freezing=self.freezing):
            return self.model(torch.from_numpy(values).to(self.dtype)).pooler_output.float().numpy()


@functools.cache
def exported(model_folder, folder):
    """Exports the model to ONNX by torch, and returns the path."""
    model = SiglipVisionModel.from_pretrained(model_folder, attn_implementation="eager").eval()
    side = model.config.image_size

    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, values):
            return self.inner(values).pooler_output

    path = os.path.join(folder, "model.onnx")
    torch.onnx.export(
        Pooled().eval(),
        (torch.zeros(2, 3, side, side),),
        path,
        input_names=["values"],
        output_names=["pooled"],
        dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=1024)},),
        dynamo=True,
        verbose=False,
    )
    return path


class Onnx(Peer):
    """Runs the exported model in onnxruntime."""

    def __init__(self, options, precision):
        if precision != "fp32":
            raise RuntimeError("measured only in fp32")
        import onnxruntime

        session = onnxruntime.SessionOptions()
        session.intra_op_num_threads = options.threads
        self.session = onnxruntime.InferenceSession(
            exported(options.model, options.folder), session, providers=["CPUExecutionProvider"]
        )

    def embed(self, values):
        return self.session.run(None, {"values": values})[0]


@functools.cache
def quantized_by_nncf(model_folder, folder, photos):
    """Returns the exported model with NNCF's 8-bit products, calibrated on the photos, with SmoothQuant and corrected
    biases."""
    os.environ["NNCF_CI"] = "1"  # disables NNCF's telemetry
    import nncf
    import openvino

    model = openvino.Core().read_model(exported(model_folder, folder))
    values = normalised(load_pixels(hard_photos.read(photos)[0], model.inputs[0].partial_shape[2].get_length()))
    return nncf.quantize(
        model,
        nncf.Dataset([image[None] for image in values]),
        subset_size=len(values),
        model_type=nncf.ModelType.TRANSFORMER,
        fast_bias_correction=True,
    )


class OpenVino(Peer):
    """Runs the exported model in OpenVINO. `hint` is LATENCY or THROUGHPUT, and `properties` are further settings; with
    `static` the model is compiled for each batch size separately."""

    def __init__(self, options, precision, hint, static=False, **properties):
        import openvino

        self.openvino, self.throughput, self.static = openvino, hint == "THROUGHPUT", static
        core = openvino.Core()
        # torch is asked, because OpenVINO ignores ONEDNN_MAX_CPU_ISA, although both run oneDNN.
        bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
        if precision == "bf16" and not bf16:
            raise RuntimeError("this CPU has no bf16 instructions")
        if precision == "int8":
            model = quantized_by_nncf(options.model, options.folder, options.photos)
        else:
            model = core.read_model(exported(options.model, options.folder))
        self.source = model
        self.compile = lambda source: core.compile_model(
            source,
            "CPU",
            {
                "PERFORMANCE_HINT": hint,
                "INFERENCE_NUM_THREADS": options.threads,
                # OpenVINO computes everything but the 8-bit products in the fastest type of this CPU.
                "INFERENCE_PRECISION_HINT": "f32" if precision == "fp32" or not bf16 else "bf16",
            }
            | properties,
        )
        self.take(CHECKED_IMAGES)
        if self.throughput:
            self.requests = self.model.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")

    def take(self, batch):
        """Compiles the model for this batch size, unless it is compiled already."""
        if (compiled_batch := batch if self.static else "any") == getattr(self, "taken", None):
            return
        source = self.source.clone()
        if self.static:
            source.reshape([batch, *(dimension.get_length() for dimension in list(source.inputs[0].partial_shape)[1:])])
        self.model, self.taken = self.compile(source), compiled_batch
        self.request = self.model.create_infer_request()

    def embed(self, values):
        self.take(len(values))
        return self.request.infer({0: values})[0].copy()

    def rate(self, pixels, seconds):
        if not self.throughput:
            return super().rate(pixels, seconds)
        values = normalised(pixels)
        self.take(len(values))
        queue = self.openvino.AsyncInferQueue(self.model, self.requests)
        for _ in range(len(queue)):  # warm-up: the batch size may be new to the requests
            queue.start_async({0: values})
        queue.wait_all()
        calls, started = 0, time.perf_counter()
        while calls < 3 * len(queue) or time.perf_counter() - started < seconds:
            queue.start_async({0: values})  # waits for an idle request
            calls += 1
        queue.wait_all()
        return len(pixels) * calls / (time.perf_counter() - started)


class Fovea:
    """Runs encoder_bench and encode_tool, each in a new process, with the images of `requests` batches per call."""

    def __init__(self, options, precision):
        self.options, self.precision, self.requests = options, precision, 1
        self.details = {}

    def embed_pixels(self, pixels):
        with tempfile.TemporaryDirectory() as folder:
            source, out = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
            numpy.save(source, pixels)
            answer(self.options.tool, self.options.model, source, self.precision, out, self.options.threads)
            return numpy.load(out)

    def rate(self, pixels, seconds):
        """Returns the rate that encoder_bench measures for this batch size, on its own random pixels."""
        batch, threads = self.requests * len(pixels), self.options.threads
        arguments = command_arguments(
            self.options.model, batch=batch, precision=self.precision, threads=threads, seconds=seconds, device="cpu"
        )
        done = json.loads(answer(self.options.bench, *arguments))
        result = done["results"][0]
        self.details[len(pixels)] = result | {"device": done["device"], "load_seconds": done["load_seconds"]}
        return result["images_per_second"]


ENGINES = {
    "fovea": Fovea,
    "fovea throughput": Fovea,
    "transformers eager": lambda o, p: Torch(o, p, compiled=False),
    "torch.compile": lambda o, p: Torch(o, p, compiled=True),
    "torch.compile freezing": lambda o, p: Torch(o, p, compiled=True, freezing=True),
    "onnxruntime": Onnx,
    "OpenVINO latency": lambda o, p: OpenVino(o, p, "LATENCY"),
    "OpenVINO latency static": lambda o, p: OpenVino(o, p, "LATENCY", static=True),
    "OpenVINO throughput": lambda o, p: OpenVino(o, p, "THROUGHPUT"),
    "OpenVINO throughput static": lambda o, p: OpenVino(o, p, "THROUGHPUT", static=True),
}


class Quality:
    """Compares embeddings of a folder's photos with those of transformers in fp32. The rows have the same form as in
    bench/gpu_accuracy.py."""

    def __init__(self, options, side):
        photos, self.kinds = hard_photos.read(options.quality)
        self.options, self.rows = options, []
        self.corpus = {"photos": len(photos), "kinds": len(set(self.kinds))} | hard_photos.corpus_description(
            options.quality
        )
        self.pixels = load_pixels(photos, side)
        self.truth = gpu_accuracy.torch_embeddings(options.model, self.pixels, torch.float32, "eager", "cpu")

    def add(self, name, engine, precision):
        batch, embeddings = gpu_accuracy.BATCH, []
        for first in range(0, len(self.pixels), batch):
            pixels = self.pixels[first : first + batch]
            full_batch = numpy.resize(pixels, (batch, *pixels.shape[1:]))  # repeats images to fill the last batch
            embeddings.append(engine.embed_pixels(full_batch)[: len(pixels)].astype(numpy.float64))
        row = gpu_accuracy.figures(*gpu_accuracy.compare(self.truth, numpy.concatenate(embeddings)), self.kinds)
        calibration = os.path.relpath(self.options.photos.resolve(), ROOT) if precision == "int8" else ""
        fields = {"model": self.options.model.name, "engine": name, "precision": precision}
        self.rows.append(fields | {"calibration": calibration, "bf16_layers": 0} | row)
        print(
            f"{precision} {name}: cosine mean {row['cosine_mean']:.5f}, 1st percentile "
            f"{row['cosine_percentile_1']:.5f}, minimum {row['cosine_min']:.5f}; recall@10 {row['recall_at_10']:.4f}",
            flush=True,
        )


def measure(options):
    """Returns a row for each precision, batch size and engine, and the comparison of --quality or None."""
    batches = measuring.numbers(options.batch)
    side = SiglipVisionConfig.from_pretrained(options.model).image_size
    shape = (max(CHECKED_IMAGES, *batches), side, side, 3)
    pixels = numpy.random.default_rng(0).integers(0, 256, shape, dtype=numpy.uint8)
    expected = gpu_accuracy.torch_embeddings(options.model, pixels[:CHECKED_IMAGES], torch.float32, "eager", "cpu")
    quality = Quality(options, side) if options.quality else None
    results = []
    for precision in options.precision.split(","):

        def minimum_cosine(_, engine):
            return measuring.checked_cosine(engine.embed_pixels(pixels[:CHECKED_IMAGES]), expected, precision)

        makers = {name: make for name, make in ENGINES.items() if name not in options.skip.split(",")}
        for name in (name for name in ENGINES if name not in makers):
            add_skipped_row(results, name, precision, "excluded by --skip")
        engines = attempt(makers, precision, results, lambda _, make: make(options, precision))
        cosines = attempt(engines, precision, results, minimum_cosine)
        if quality:
            mode_suffixes = ("throughput", "static")  # modes whose embeddings are the same as those of another mode
            distinct = {
                name: engine for name, engine in engines.items() if not any(word in name for word in mode_suffixes)
            }
            attempt(distinct, precision, results, lambda name, engine: quality.add(name, engine, precision))
        requests = max((engine.requests for engine in engines.values()), default=1)
        if requests == 1 and engines.pop("fovea throughput", None):
            add_skipped_row(results, "fovea throughput", precision, "no peer runs several batches in parallel")
        if "fovea throughput" in engines:
            engines["fovea throughput"].requests = requests
        for batch in batches if options.rounds else []:

            def rate(name, engine):
                images_per_second = engine.rate(pixels[:batch], options.seconds)
                log(f"{precision} batch {batch}: {name} {images_per_second:.2f} images/s")
                return images_per_second

            rates = interleaved_results(options.rounds, engines, precision, results, rate)
            medians = {name: statistics.median(found) for name, found in rates.items()}
            for name, engine in engines.items():
                row = {
                    "precision": precision,
                    "batch": batch,
                    "engine": name,
                    "images_per_second": medians[name],
                    "requests": engine.requests,
                    "rounds": rates[name],
                    "minimum_cosine": cosines[name],
                }
                if isinstance(engine, Fovea):
                    row["details"] = engine.details[batch]
                results.append(row)
            for subject, mode_suffixes in (
                ("fovea", [name for name, engine in engines.items() if engine.requests == 1]),
                ("fovea throughput", list(engines)),
            ):
                peers = [name for name in mode_suffixes if not name.startswith("fovea")]
                log_against_best_peer(f"{precision} batch {batch}", subject, peers, medians)
    return results, quality


def main():
    parser = measuring.parser(__doc__, program="--bench", path=machine.PROGRAM.with_name("encoder_bench"))
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--batch", default="1,8,32")
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--photos", type=pathlib.Path, default=hard_photos.EXAMPLES, help="photos for int8 calibration")
    parser.add_argument(
        "--quality", type=pathlib.Path, metavar="FOLDER", help="also compare the embeddings of the photos in FOLDER"
    )
    parser.add_argument("--skip", default="", help="engines to leave out")
    parser.add_argument("--tool", type=pathlib.Path, default=ROOT / "build/release/tests/encode_tool")
    options = parser.parse_args()
    options.threads = options.threads or machine.cpus()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory(prefix="peers-") as options.folder:
        results, quality = measure(options)
    where = machine.describe(options.bench.with_name("fovea"))
    result = {"machine": where, "threads": options.threads, "results": results}
    if quality:
        result["accuracy"] = {"corpus": quality.corpus, "rows": quality.rows}
    machine.write_result(result, options.json)


if __name__ == "__main__":
    main()
