"""Measures encoder rates of Fovea, OpenVINO, transformers, torch.compile and onnxruntime: with the same model,
pixels and threads, in the same run, in turns.

    python3 bench/peers_cpu.py MODEL [--batch 1,8,32] [--precision fp32,bf16,int8] [--rounds 3] [--seconds 3]
                               [--threads 0] [--photos examples/photos] [--quality FOLDER] [--skip NAME,...]
                               [--bench build/release/bin/encoder_bench] [--tool build/release/tests/encode_tool]
                               [--json FILE]

OpenVINO runs in both of its forms: one request at a time on all threads (latency), and as many requests at once as it
thinks best (throughput); and each with one model for all batch sizes, and with one compiled for each ("static"). Fovea,
too, takes one batch at a time, and as many as OpenVINO takes in one call. torch.compile has static shapes, onnxruntime
one model for all batch sizes. OpenVINO's int8 is NNCF's quantization for transformers, calibrated on --photos; Fovea's
is what `fovea calibrate MODEL examples/photos --precision int8` left in the model's folder before.

Before anything is timed, every engine's embeddings of the same pixels are compared with transformers' in fp32. Each
round times each engine once; the figure is the median of the rounds, and --rounds 0 times nothing. --quality also
compares the embeddings of all photos in a folder, such as `bench/gpu_accuracy.py --write FOLDER` makes, in the same
figures as bench/gpu_accuracy.py. An engine that fails, or that --skip names, is a row with the reason ("skipped")."""

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
from measuring import attempt, in_turns, left_out, tell_beside
from PIL import Image
from programs import answer, log, words
from transformers import SiglipVisionConfig, SiglipVisionModel

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECKED_IMAGES = 4


def pixels_of(photos, side):
    """uint8 pixels [photos, side, side, 3], resized as transformers does."""
    images = [Image.open(path).convert("RGB").resize((side, side), Image.Resampling.BILINEAR) for path in photos]
    return numpy.stack([numpy.asarray(image) for image in images])


def values_of(pixels):
    """What the model reads of these pixels: [images, 3, side, side], from -1 to 1."""
    return (pixels.astype(numpy.float32) / 127.5 - 1).transpose(0, 3, 1, 2).copy()


class Peer:
    """An engine that is called with values, in this process."""

    requests = 1  # of a batch each, at once

    def embed_pixels(self, pixels):
        return self.embed(values_of(pixels))

    def rate(self, pixels, seconds):
        """Images per second. The first call warms up: this batch size may be new to it."""
        values = values_of(pixels)
        return measuring.rate(lambda: self.embed(values), len(pixels), seconds)


class Torch(Peer):
    """transformers' model, eager or compiled."""

    def __init__(self, options, precision, compiled, freezing=False):
        if precision == "int8":
            raise RuntimeError("only its fp32 and bf16 are measured")
        self.dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
        self.model = SiglipVisionModel.from_pretrained(options.model, dtype=self.dtype).eval()
        self.freezing = freezing
        if compiled:
            torch._dynamo.reset()
            torch._dynamo.config.recompile_limit = 64  # batch sizes: beyond the limit it would run eager
            self.model = torch.compile(self.model, dynamic=False)

    def embed(self, values):
        # Freezing does not support inference_mode. A new batch size compiles here, so its option is set here.
        with torch.no_grad(), torch._inductor.config.patch(freezing=self.freezing):
            return self.model(torch.from_numpy(values).to(self.dtype)).pooler_output.float().numpy()


@functools.cache
def exported(model_folder, folder):
    """The path of the model in ONNX, as torch exports it."""
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
    """onnxruntime on the exported model."""

    def __init__(self, options, precision):
        if precision != "fp32":
            raise RuntimeError("only its fp32 is measured")
        import onnxruntime

        session = onnxruntime.SessionOptions()
        session.intra_op_num_threads = options.threads
        self.session = onnxruntime.InferenceSession(
            exported(options.model, options.folder), session, providers=["CPUExecutionProvider"]
        )

    def embed(self, values):
        return self.session.run(None, {"values": values})[0]


@functools.cache
def quantized(model_folder, folder, photos):
    """The exported model with NNCF's 8-bit products: SmoothQuant, and biases corrected, on these photos."""
    os.environ["NNCF_CI"] = "1"  # else it tells a server on the Internet that it is used
    import nncf
    import openvino

    model = openvino.Core().read_model(exported(model_folder, folder))
    values = values_of(pixels_of(hard_photos.read(photos)[0], model.inputs[0].partial_shape[2].get_length()))
    return nncf.quantize(
        model,
        nncf.Dataset([image[None] for image in values]),
        subset_size=len(values),
        model_type=nncf.ModelType.TRANSFORMER,
        fast_bias_correction=True,
    )


class OpenVino(Peer):
    """OpenVINO on the exported model; `hint` is LATENCY or THROUGHPUT, `properties` are more of its settings. `static`:
    it is compiled for each batch size alone."""

    def __init__(self, options, precision, hint, static=False, **properties):
        import openvino

        self.openvino, self.throughput, self.static = openvino, hint == "THROUGHPUT", static
        core = openvino.Core()
        # Both run oneDNN. OpenVINO itself does not ask what ONEDNN_MAX_CPU_ISA allows.
        bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
        if precision == "bf16" and not bf16:
            raise RuntimeError("this CPU has no bf16 for it")
        if precision == "int8":
            model = quantized(options.model, options.folder, options.photos)
        else:
            model = core.read_model(exported(options.model, options.folder))
        self.source = model
        self.compile = lambda source: core.compile_model(
            source,
            "CPU",
            {
                "PERFORMANCE_HINT": hint,
                "INFERENCE_NUM_THREADS": options.threads,
                # OpenVINO computes all but the 8-bit products in the type that is fastest here.
                "INFERENCE_PRECISION_HINT": "f32" if precision == "fp32" or not bf16 else "bf16",
            }
            | properties,
        )
        self.take(CHECKED_IMAGES)
        if self.throughput:
            self.requests = self.model.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")

    def take(self, batch):
        """Compiles the model, if it is not there for so many images."""
        if (taken := batch if self.static else "any") == getattr(self, "taken", None):
            return
        source = self.source.clone()
        if self.static:
            source.reshape([batch, *(dimension.get_length() for dimension in list(source.inputs[0].partial_shape)[1:])])
        self.model, self.taken = self.compile(source), taken
        self.request = self.model.create_infer_request()

    def embed(self, values):
        self.take(len(values))
        return self.request.infer({0: values})[0].copy()

    def rate(self, pixels, seconds):
        if not self.throughput:
            return super().rate(pixels, seconds)
        values = values_of(pixels)
        self.take(len(values))
        queue = self.openvino.AsyncInferQueue(self.model, self.requests)
        for _ in range(len(queue)):  # this batch size may be new to them
            queue.start_async({0: values})
        queue.wait_all()
        calls, started = 0, time.perf_counter()
        while calls < 3 * len(queue) or time.perf_counter() - started < seconds:
            queue.start_async({0: values})  # waits for one that is idle
            calls += 1
        queue.wait_all()
        return len(pixels) * calls / (time.perf_counter() - started)


class Fovea:
    """Runs encoder_bench and encode_tool, each in a new process, with the images of `requests` in a call."""

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
        """Rate that encoder_bench measures on as many images, with pixels that it makes itself."""
        batch, threads = self.requests * len(pixels), self.options.threads
        told = words(self.options.model, batch=batch, precision=self.precision, threads=threads, seconds=seconds)
        done = json.loads(answer(self.options.bench, *told))
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
    """Embeddings of a folder's photos beside transformers' in fp32: rows as bench/gpu_accuracy.py has them."""

    def __init__(self, options, side):
        photos, self.kinds = hard_photos.read(options.quality)
        self.options, self.rows = options, []
        self.corpus = {"photos": len(photos), "kinds": len(set(self.kinds))} | hard_photos.described(options.quality)
        self.pixels = pixels_of(photos, side)
        self.truth = gpu_accuracy.by_torch(options.model, self.pixels, torch.float32, "eager", "cpu")

    def add(self, name, engine, precision):
        batch, found = gpu_accuracy.BATCH, []
        for first in range(0, len(self.pixels), batch):
            pixels = self.pixels[first : first + batch]
            whole = numpy.resize(pixels, (batch, *pixels.shape[1:]))  # repeats some where fewer are left
            found.append(engine.embed_pixels(whole)[: len(pixels)].astype(numpy.float64))
        row = gpu_accuracy.figures(*gpu_accuracy.compare(self.truth, numpy.concatenate(found)), self.kinds)
        calibration = os.path.relpath(self.options.photos.resolve(), ROOT) if precision == "int8" else ""
        told = {"model": self.options.model.name, "engine": name, "precision": precision}
        self.rows.append(told | {"calibration": calibration, "bf16_layers": 0} | row)
        print(
            f"{precision} {name}: cosine mean {row['cosine_mean']:.5f}, 1st percentile "
            f"{row['cosine_percentile_1']:.5f}, minimum {row['cosine_min']:.5f}; recall@10 {row['recall_at_10']:.4f}",
            flush=True,
        )


def measure(options):
    """A row for each precision, batch size and engine, and what --quality asks for."""
    batches = measuring.numbers(options.batch)
    side = SiglipVisionConfig.from_pretrained(options.model).image_size
    shape = (max(CHECKED_IMAGES, *batches), side, side, 3)
    pixels = numpy.random.default_rng(0).integers(0, 256, shape, dtype=numpy.uint8)
    expected = gpu_accuracy.by_torch(options.model, pixels[:CHECKED_IMAGES], torch.float32, "eager", "cpu")
    quality = Quality(options, side) if options.quality else None
    results = []
    for precision in options.precision.split(","):

        def minimum_cosine(_, engine):
            return measuring.least_cosine(engine.embed_pixels(pixels[:CHECKED_IMAGES]), expected, precision)

        makers = {name: make for name, make in ENGINES.items() if name not in options.skip.split(",")}
        for name in (name for name in ENGINES if name not in makers):
            left_out(results, name, precision, "--skip left it out")
        engines = attempt(makers, precision, results, lambda _, make: make(options, precision))
        cosines = attempt(engines, precision, results, minimum_cosine)
        if quality:
            others = ("throughput", "static")  # forms of the same embeddings
            distinct = {name: engine for name, engine in engines.items() if not any(word in name for word in others)}
            attempt(distinct, precision, results, lambda name, engine: quality.add(name, engine, precision))
        requests = max((engine.requests for engine in engines.values()), default=1)
        if requests == 1 and engines.pop("fovea throughput", None):
            left_out(results, "fovea throughput", precision, "no peer takes several batches at once here")
        if "fovea throughput" in engines:
            engines["fovea throughput"].requests = requests
        for batch in batches if options.rounds else []:

            def rate(name, engine):
                found = engine.rate(pixels[:batch], options.seconds)
                log(f"{precision} batch {batch}: {name} {found:.2f} images/s")
                return found

            rates = in_turns(options.rounds, engines, precision, results, rate)
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
            for subject, others in (
                ("fovea", [name for name, engine in engines.items() if engine.requests == 1]),
                ("fovea throughput", list(engines)),
            ):
                peers = [name for name in others if not name.startswith("fovea")]
                tell_beside(f"{precision} batch {batch}", subject, peers, medians)
    return results, quality


def main():
    parser = measuring.parser(__doc__, program="--bench", path=machine.PROGRAM.with_name("encoder_bench"))
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--batch", default="1,8,32")
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--photos", type=pathlib.Path, default=hard_photos.EXAMPLES, help="that int8 is calibrated on")
    parser.add_argument("--quality", type=pathlib.Path, metavar="FOLDER", help="also compare its photos")
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
    machine.hand_over(result, options.json)


if __name__ == "__main__":
    main()
