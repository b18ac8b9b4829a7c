"""Measures how close embeddings are to those of transformers in fp32, for each precision and for torch in bf16, over
hundreds of hard photos.

    python3 bench/gpu_accuracy.py MODEL... [--photos FOLDER | --seed 1 --each 6] [--device cuda] [--precision bf16,int8,fp8]
                                  [--bf16-layers 2,4] [--fovea build/release/bin/fovea] [--json FILE]
    python3 bench/gpu_accuracy.py --write FOLDER [--seed 1] [--each 6]

MODEL is a folder, or PRESET@SEED for random weights that `fovea init` makes. The photos are those of bench/hard_photos,
generated on the fly; a machine without scikit-image needs a folder that --write made elsewhere. Any other folder works
too: the names of its subfolders are taken as the kinds of the photos in them.

The figures of an engine and precision are the mean, 1st percentile and minimum of the photos' cosines to fp32, and
recall@10: the share of each photo's ten nearest neighbours in fp32 that are also among its ten nearest here. The 8-bit
precisions are calibrated twice: on examples/photos, and, for each half of the photos, on a sample of the other half
that is as large as `fovea calibrate` uses. --bf16-layers N,... adds a row per N to the 8-bit precisions: calibrated on
examples/photos, with the first N layers left in bf16. The file of --json keeps rows of other models that the same
program measured on the same photos."""

import pathlib
import sys
import tempfile
import time

import hard_photos
import machine
import measuring
import numpy
import runs
import torch
from programs import answer, command_arguments, write_list
from transformers import SiglipVisionModel

NEIGHBOURS = 10
CALIBRATION_PHOTOS = 32  # the default of `fovea calibrate`
BATCH = 32
EIGHT_BITS = ("int8", "fp8")


def nearest(embeddings):
    """Returns the indices of the ten photos nearest to each photo [photos, 10]; ties keep their order."""
    unit = measuring.unit(embeddings)
    likeness = unit @ unit.T
    numpy.fill_diagonal(likeness, -numpy.inf)
    return numpy.argsort(-likeness, axis=1, kind="stable")[:, : min(NEIGHBOURS, len(unit) - 1)]


def compare(truth, embeddings):
    """Returns each photo's cosine to the true embedding, and the share of its true neighbours that were found."""
    if truth.shape != embeddings.shape or not (numpy.isfinite(truth).all() and numpy.isfinite(embeddings).all()):
        raise RuntimeError(f"embeddings of shape {embeddings.shape}, expected {truth.shape}, all of them finite")
    pairs = zip(nearest(truth), nearest(embeddings), strict=True)
    return measuring.cosines(embeddings, truth), numpy.array(
        [len(numpy.intersect1d(*pair)) / len(pair[0]) for pair in pairs]
    )


def figures(cosines, recalls, kinds):
    """Returns the figures of an engine over all photos, and the mean cosine of each kind, the worst kind first."""
    kinds = numpy.array(kinds)
    by_kind = {str(kind): round(float(cosines[kinds == kind].mean()), 6) for kind in numpy.unique(kinds)}
    return {
        "cosine_mean": float(cosines.mean()),
        "cosine_percentile_1": float(numpy.percentile(cosines, 1)),
        "cosine_min": float(cosines.min()),
        "recall_at_10": float(recalls.mean()),
        "kinds": dict(sorted(by_kind.items(), key=lambda item: item[1])),
    }


def torch_embeddings(model, pixels, dtype, attention, device):
    """Returns transformers' embeddings [n, d] of uint8 pixels [n, height, width, 3]."""
    measuring.disable_tf32()
    tower = SiglipVisionModel.from_pretrained(model, dtype=dtype, attn_implementation=attention).eval().to(device)
    embeddings = []
    with torch.inference_mode():
        for first in range(0, len(pixels), BATCH):
            values = pixels[first : first + BATCH].astype(numpy.float32) / 127.5 - 1
            values = torch.from_numpy(values).permute(0, 3, 1, 2).to(device, dtype)
            embeddings.append(tower(values).pooler_output.double().cpu().numpy())
    return numpy.concatenate(embeddings)


class Fovea:
    """Runs the program on the photos of one study."""

    def __init__(self, options, photos, work):
        self.options, self.photos, self.work = options, photos, work
        self.list = write_list(work / "photos.txt", photos)

    def pixels(self, model):
        out = self.work / "pixels.npy"
        answer(self.options.fovea, "preprocess", *command_arguments(self.list, m=model, quiet=True, o=out))
        return numpy.load(out)

    def embed(self, model, precision):
        """Returns embeddings [photos, d] that are not normalised."""
        out = self.work / "out.npy"
        out.unlink(missing_ok=True)
        arguments = command_arguments(
            self.list, m=model, device=self.options.device, precision=precision, quiet=True, o=out
        )
        answer(self.options.fovea, "embed", "--no-normalize", *arguments)
        return numpy.load(out).astype(numpy.float64)

    def calibrate(self, model, name, source, bf16_layers=0):
        """Returns a folder with the model's files, calibrated for all requested 8-bit precisions."""
        folder = self.work / f"calibrated on {name}, {bf16_layers} layers in bf16"
        if not folder.exists():
            measuring.link_uncalibrated(model, folder)
            precisions = ",".join(name for name in EIGHT_BITS if name in self.options.precision.split(","))
            arguments = command_arguments(
                folder, source, precision=precisions, images=CALIBRATION_PHOTOS, bf16_layers=bf16_layers
            )
            answer(self.options.fovea, "calibrate", *arguments)
        return folder


def half_numbers(kinds):
    """Assigns each photo to half 0 or 1, so that both halves have photos of every kind with two or more."""
    count_by_kind, half = {}, []
    for kind in kinds:
        count_by_kind[kind] = count_by_kind.get(kind, -1) + 1
        half.append(count_by_kind[kind] % 2)
    return numpy.array(half)


def spread(photos, count):
    """Returns `count` photos at equal distances in the list."""
    return [photos[index] for index in numpy.linspace(0, len(photos) - 1, min(count, len(photos))).astype(int)]


def calibrated_figures(fovea, model, precision, truth, kinds):
    """Yields, for each calibration, the name of its photos, the number of layers left in bf16, and the figures."""
    for layers in (0, *fovea.options.bf16_layers):
        folder = fovea.calibrate(model, "examples", hard_photos.EXAMPLES, layers)
        yield "examples/photos", layers, figures(*compare(truth, fovea.embed(folder, precision)), kinds)
    half, cosines, recalls = half_numbers(kinds), numpy.empty(len(kinds)), numpy.empty(len(kinds))
    for tested in (0, 1):
        calibration_photos = [photo for photo, side in zip(fovea.photos, half, strict=True) if side != tested]
        source = write_list(fovea.work / f"half-{1 - tested}.txt", spread(calibration_photos, CALIBRATION_PHOTOS))
        folder = fovea.calibrate(model, f"half {1 - tested}", source)
        # All photos are embedded, so that neighbours come from the same model, but only this half is reported.
        results = compare(truth, fovea.embed(folder, precision))
        cosines[half == tested], recalls[half == tested] = (values[half == tested] for values in results)
    yield "the other half", 0, figures(cosines, recalls, kinds)


def study(model, name, options, photos, kinds, work):
    """Yields a row for each engine and precision."""
    started = time.monotonic()
    fovea = Fovea(options, photos, work)
    pixels = fovea.pixels(model)
    truth = torch_embeddings(model, pixels, torch.float32, "eager", options.device)

    def row(engine, precision, measured, calibration="", bf16_layers=0):
        fields = {"model": name, "engine": engine, "precision": precision, "calibration": calibration}
        worst = ", ".join(f"{kind} {cosine:.5f}" for kind, cosine in list(measured["kinds"].items())[:3])
        calibration += f", {bf16_layers} layers bf16" if bf16_layers else ""
        print(
            f"{name:28} {engine:12} {precision:5} {calibration:32} mean {measured['cosine_mean']:.5f} 1st percentile "
            f"{measured['cosine_percentile_1']:.5f} minimum {measured['cosine_min']:.5f} recall@10 {measured['recall_at_10']:.4f}"
            f"  worst: {worst}  ({time.monotonic() - started:.0f} s)",
            flush=True,
        )
        return fields | {"bf16_layers": bf16_layers} | measured

    for attention in ("eager", "sdpa"):
        values = torch_embeddings(model, pixels, torch.bfloat16, attention, options.device)
        yield row(f"torch, {attention}", "bf16", figures(*compare(truth, values), kinds))
    for precision in options.precision.split(","):
        try:
            if precision in EIGHT_BITS:
                for calibration, layers, values in calibrated_figures(fovea, model, precision, truth, kinds):
                    yield row("fovea", precision, values, calibration, layers)
            else:
                yield row("fovea", precision, figures(*compare(truth, fovea.embed(model, precision)), kinds))
        except RuntimeError as failure:
            print(f"{name}: {precision} was not measured: {failure}", file=sys.stderr)
            options.failed = True


def resolve_model(options, model, work):
    """Returns the model's folder, which is made for PRESET@SEED, and the name to display."""
    preset, seed_mark, seed = model.partition("@")
    if not seed_mark:
        return pathlib.Path(model), pathlib.Path(model).name
    answer(options.fovea, "init", *command_arguments(preset=preset, seed=seed, o=work / preset))
    return work / preset, f"{preset}, seed {seed}"


def earlier_rows(options, corpus):
    """Returns the rows that --json already holds for this corpus, unless they were measured with another commit."""
    result = runs.read_result(options.json)
    accuracy, measured = result.get("accuracy", {}), result.get("machine", {}).get("commit")
    return accuracy["rows"] if accuracy.get("corpus") == corpus and measured == machine.commit(options.fovea) else []


def main():
    parser = measuring.parser(__doc__, device="cuda")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--write", type=pathlib.Path, metavar="FOLDER", help="write the photos to FOLDER and exit")
    parser.add_argument(
        "--photos", type=pathlib.Path, metavar="FOLDER", help="use the photos in FOLDER instead of generating them"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated photos")
    parser.add_argument("--each", type=int, default=hard_photos.EACH, help="number of generated photos per kind")
    parser.add_argument("--precision", help="default: bf16,int8,fp8 on a GPU, fp32,bf16 on the CPU")
    layers = "rows for the 8-bit precisions with the first N layers left in bf16"
    parser.add_argument("--bf16-layers", default=[], type=measuring.numbers, metavar="N,...", help=layers)
    options = parser.parse_args()
    options.precision = options.precision or {"cuda": "bf16,int8,fp8", "cpu": "fp32,bf16"}[options.device]
    options.failed = False
    if options.write:
        hard_photos.write(options.write, options.seed, options.each)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        source = options.photos or pathlib.Path(folder) / "photos"
        if not options.photos:
            hard_photos.write(source, options.seed, options.each)
        photos, kinds = hard_photos.read(source)
        corpus = {"photos": len(photos), "kinds": len(set(kinds))} | hard_photos.corpus_description(source)
        rows = earlier_rows(options, corpus)
        for model_argument in options.models:
            with tempfile.TemporaryDirectory(dir=folder) as work_folder:
                work = pathlib.Path(work_folder)
                model, name = resolve_model(options, model_argument, work)
                rows = [row for row in rows if row["model"] != name]
                for row in study(model, name, options, photos, kinds, work):
                    rows.append(row)
                    if options.json:  # saved after each row, so that an interrupted run keeps its results
                        where = machine.describe(options.fovea, "cuda")
                        result = {"machine": where, "accuracy": {"corpus": corpus, "rows": rows}}
                        machine.write_result(result, options.json)
    return int(options.failed)


if __name__ == "__main__":
    sys.exit(main())
