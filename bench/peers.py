"""Measures other software on the GPU: cuBLASLt through torch, transformers, torch.compile, and torchao in 8 bits.

    python3 bench/peers.py [--model MODEL] [--sections gemm,encoder] [--batch 1024,256,32,8,1]
                           [--shapes patch_embed,qkv] [--no-compile] [--fovea PROGRAM] [--json FILE]

Data is random, and outputs are compared with fp32 before anything is timed. Times are medians from CUDA events, over
inputs of at least twice the L2 cache. `python -m fovea.lab.bench_attention` measures the peers of attention. A peer
that fails or is left out is listed with its reason. Results are saved after each peer, so that an interrupted run keeps
them; peers that it did not reach are listed as such. The script needs torch with CUDA; the encoder section also needs
transformers and a model folder."""

import argparse
import functools
import pathlib
import statistics

import machine
import torch
import torch._inductor.config
from programs import log, reason

E4M3 = torch.float8_e4m3fn
E4M3_MAX = 448.0
TOKENS = 196
SHAPES = {  # name: (M, N, K, epilogue)
    "patch_embed": (928256, 768, 768, "position"),
    "qkv": (232064, 2304, 768, "bias"),
    "fc1": (232064, 3072, 768, "gelu"),
    "fc2": (232064, 768, 3072, "residual"),
    "out": (232064, 768, 768, "residual"),
}


def device_seconds(call, repeats=15, warmup=3):
    """Returns the median and the spread (10th to 90th percentile) of times from CUDA events, in seconds."""
    for _ in range(warmup):
        call()
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in pairs:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    times = sorted(start.elapsed_time(end) * 1e-3 for start, end in pairs)
    return statistics.median(times), times[round(0.9 * (repeats - 1))] - times[round(0.1 * (repeats - 1))]


def difference(got, expected):
    """Returns ||got - expected|| / ||expected||, which is NaN where any value is NaN."""
    return ((got.double() - expected.double()).norm() / expected.double().norm()).item()


def record(results, section, case, peer, call, check, limit, timer=device_seconds, **work):
    """Checks a peer's output, then times it. `check` returns the difference to fp32."""
    row = {"case": case, "peer": peer}
    try:
        row["difference"] = check()
        if not row["difference"] <= limit:
            raise RuntimeError(f"wrong output: relative difference {row['difference']:.3g}, limit {limit:g}")
        row["seconds"], row["spread"] = timer(call)
        if "flop" in work:
            row["tflops"] = work["flop"] / row["seconds"] * 1e-12
        log(f"{section} {case}: {peer} {row['seconds'] * 1e6:.1f} us")
    except Exception as error:  # peers raise exceptions of any type for what they do not support
        row["skipped"] = reason(error)
        log(f"{section} {case}: skipped {peer}: {row['skipped']}")
    results.setdefault(section, []).append(row)


class Gemm:
    """Operands and peers of one shape: cuBLASLt alone, and followed by the parts of the epilogue it cannot fuse."""

    def __init__(self, name):
        self.name = name
        self.m, self.n, self.k, self.rest = SHAPES[name]
        self.x = torch.randn(self.m, self.k, device="cuda", dtype=torch.bfloat16)
        self.w = torch.randn(self.n, self.k, device="cuda", dtype=torch.bfloat16) / self.k**0.5
        self.x8 = self.x.to(E4M3)
        self.w8 = (self.w * 16).to(E4M3)
        self.bias = torch.randn(self.n, device="cuda", dtype=torch.bfloat16)
        self.unit_scale = torch.ones((), device="cuda")
        self.w_scale = torch.full((), 1 / 16, device="cuda")
        self.row_ones = torch.ones(self.m, 1, device="cuda")
        self.column_scales = torch.full((1, self.n), 1 / 16, device="cuda")
        self.position = torch.randn(TOKENS, self.n, device="cuda", dtype=torch.bfloat16)
        self.residual = torch.randn(self.m, self.n, device="cuda", dtype=torch.bfloat16)

    def mm8(self, bias=None, row_wise=False):
        scales = (self.row_ones, self.column_scales) if row_wise else (self.unit_scale, self.w_scale)
        return torch._scaled_mm(self.x8, self.w8.T, *scales, bias=bias, out_dtype=torch.bfloat16, use_fast_accum=True)

    def mm16(self, bias=None):
        return torch.nn.functional.linear(self.x, self.w, bias)

    def unfused_epilogue(self, y, to_e4m3):
        """Applies the parts of the epilogue that follow GEMM + bias, as separate torch operators."""
        if self.rest == "position":
            return y.view(-1, TOKENS, self.n).add_(self.position).view(self.m, self.n)
        if self.rest == "residual":
            return self.residual.add(y)
        if self.rest == "gelu":
            y = torch.nn.functional.gelu(y, approximate="tanh")
            return y.clamp(-E4M3_MAX, E4M3_MAX).to(E4M3) if to_e4m3 else y
        return y

    def expected(self, rows, e4m3):
        x, w = (self.x8.float(), self.w8.float() / 16) if e4m3 else (self.x.float(), self.w.float())
        y = x[rows] @ w.T + self.bias.float()
        if self.rest == "position":
            return y + self.position.float()[torch.arange(self.m, device="cuda")[rows] % TOKENS]
        if self.rest == "residual":
            return y + self.residual.float()[rows]
        return torch.nn.functional.gelu(y, approximate="tanh") if self.rest == "gelu" else y

    def peers(self):
        def whole8():
            return self.unfused_epilogue(self.mm8(self.bias), True)

        def whole16():
            return self.unfused_epilogue(self.mm16(self.bias), False)

        def compiled(call):
            return torch.compile(call, mode="max-autotune-no-cudagraphs", dynamic=False)

        only_bias = self.rest == "bias"
        return {  # name: (call, whether operands are e4m3, whether the call includes the epilogue, compiled)
            "cublaslt e4m3": (self.mm8, True, False, False),
            "cublaslt e4m3 + bias": (lambda: self.mm8(self.bias), True, only_bias, False),
            "cublaslt e4m3 row-wise + bias": (lambda: self.mm8(self.bias, True), True, only_bias, False),
            "cublaslt e4m3 + bias, rest unfused": (whole8, True, True, False),
            "torch.compile e4m3": (compiled(whole8), True, True, True),
            "cublaslt bf16": (self.mm16, False, False, False),
            "cublaslt bf16 + bias": (lambda: self.mm16(self.bias), False, only_bias, False),
            "cublaslt bf16 + bias, rest unfused": (whole16, False, True, False),
            "torch.compile bf16": (compiled(whole16), False, True, True),
        }


def gemms(results, shapes, compile_too):
    torch.manual_seed(0)
    rows = slice(-512, None)
    for name in shapes:
        gemm = Gemm(name)
        for peer, (call, e4m3, is_complete, compiled) in gemm.peers().items():
            if compiled and not compile_too:
                row = {"case": name, "peer": peer, "skipped": "torch.compile was left out"}
                results.setdefault("gemm", []).append(row)
                continue

            def check(call=call, e4m3=e4m3, is_complete=is_complete, peer=peer, gemm=gemm):
                got = call()[rows].float()
                if is_complete:
                    return difference(got, gemm.expected(rows, e4m3))
                x, w = (gemm.x8.float(), gemm.w8.float() / 16) if e4m3 else (gemm.x.float(), gemm.w.float())
                return difference(got, x[rows] @ w.T + ("bias" in peer) * gemm.bias.float())

            # An e4m3 output has 3 mantissa bits; all other outputs are bf16.
            limit = 0.04 if gemm.rest == "gelu" and is_complete and e4m3 else 0.01
            record(results, "gemm", name, peer, call, check, limit, flop=2.0 * gemm.m * gemm.n * gemm.k)
        del gemm
        torch.cuda.empty_cache()


def quantized(model, precision):
    """Returns the bf16 model with torchao's 8-bit products in its encoder layers: inputs have dynamic scales per row,
    and weights a scale per output channel."""
    from torchao import quantization

    config = {
        "int8": lambda: quantization.Int8DynamicActivationInt8WeightConfig(version=2),
        "fp8": lambda: quantization.Float8DynamicActivationFloat8WeightConfig(granularity=quantization.PerRow()),
    }[precision]()
    quantization.quantize_(model.encoder if hasattr(model, "encoder") else model.vision_model.encoder, config)
    return model


# Name of a peer, its precision, the largest accepted distance of a cosine from 1, and whether it is compiled (once per
# batch size).
ENCODERS = (
    ("transformers eager", "bf16", 1e-3, False),
    ("torch.compile max-autotune", "bf16", 1e-3, True),
    ("torchao dynamic, torch.compile max-autotune", "int8", 0.05, True),
    ("torchao dynamic, torch.compile max-autotune", "fp8", 0.05, True),
)


def encoders(results, model_path, batches, compile_too, save):
    """Times the vision tower with its pooling head, on normalised bf16 pixels that are on the GPU already."""
    from transformers import SiglipVisionModel

    reference = SiglipVisionModel.from_pretrained(model_path).eval().cuda()
    side = reference.config.image_size
    torch.manual_seed(0)
    sample = torch.rand(4, 3, side, side, device="cuda") * 2 - 1
    with torch.inference_mode():
        expected = reference(sample).pooler_output.float()
    del reference

    def difference(run, values):
        """Returns 1 minus the minimum cosine over the sample, which is copied to the start of the batch."""
        values[: len(sample)] = sample[: len(values)].bfloat16()
        got = run(values).pooler_output[: len(sample)].float()
        return 1 - torch.nn.functional.cosine_similarity(got, expected[: len(got)]).min().item()

    measured = [(batch, *encoder) for batch in batches for encoder in ENCODERS]
    rows = results["encoder"] = [
        {
            "case": f"{precision} batch {batch}",
            "peer": peer,
            "batch": batch,
            "precision": precision,
            "skipped": "torch.compile was left out" if compiled and not compile_too else "the run ended before it",
        }
        for batch, peer, precision, _, compiled in measured
    ]
    save()
    for number, (batch, peer, precision, limit, compiled) in enumerate(measured):
        if compiled and not compile_too:
            continue
        values = (torch.rand(batch, 3, side, side, device="cuda") * 2 - 1).bfloat16()
        results_of_batch, engine = {}, []  # the engine is made by the first call, so that record() reports its failure

        def run(x, engine=engine, precision=precision, compiled=compiled):
            # torchao's tensors do not support inference mode.
            with torch.inference_mode() if precision == "bf16" else torch.no_grad():
                if not engine:
                    model = SiglipVisionModel.from_pretrained(model_path, dtype=torch.bfloat16).eval().cuda()
                    model = quantized(model, precision) if precision != "bf16" else model
                    torch._dynamo.reset()
                    engine.append(torch.compile(model, mode="max-autotune", dynamic=False) if compiled else model)
                return engine[0](x)

        settings = torch._inductor.config.save_config()  # torchao changes global settings
        case, repeats = rows[number]["case"], 30 if batch < 64 else 8
        engine_call = functools.partial(run, values)
        check, timer = functools.partial(difference, run, values), functools.partial(device_seconds, repeats=repeats)
        record(results_of_batch, "encoder", case, peer, engine_call, check, limit, timer)
        rows[number] = {key: value for key, value in rows[number].items() if key != "skipped"} | results_of_batch[
            "encoder"
        ][0]
        if "seconds" in rows[number]:
            rows[number]["images_per_second"] = batch / rows[number]["seconds"]
        torch._inductor.config.load_config(settings)
        engine.clear()
        torch.cuda.empty_cache()
        save()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, help="model folder, for the encoder section")
    parser.add_argument("--sections", default="gemm,encoder")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="shapes of the gemm section")
    parser.add_argument(
        "--batch", default="1024,256,32,8,1", help="batch sizes of the encoder, in order of measurement"
    )
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which takes minutes")
    parser.add_argument("--fovea", default=machine.PROGRAM, help="program that the results are compared with")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    sections = options.sections.split(",")
    if "encoder" in sections and options.model is None:
        parser.error("the encoder section needs --model")

    results = {"machine": machine.describe(options.fovea, "cuda")}

    def save():
        if options.json:
            machine.write_result(results, options.json)

    # Saved after each section, so that an interrupted run keeps its results.
    if "gemm" in sections:
        gemms(results, options.shapes.split(","), not options.no_compile)
        save()
    if "encoder" in sections:
        encoders(results, options.model, list(map(int, options.batch.split(","))), not options.no_compile, save)
    save()
    if not options.json:
        machine.write_result(results, None)


if __name__ == "__main__":
    main()
