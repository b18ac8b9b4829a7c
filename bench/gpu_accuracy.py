"""How near embeddings are to transformers in fp32, by precision, over hundreds of photos that are hard; torch in bf16
beside.

    python3 bench/gpu_accuracy.py MODEL... [--photos FOLDER | --seed 1 --each 6] [--device cuda] [--precision bf16,int8,fp8]
                                  [--bf16-layers 2,4] [--fovea build/release/bin/fovea] [--json FILE]
    python3 bench/gpu_accuracy.py --write FOLDER [--seed 1] [--each 6]

MODEL is a folder, or PRESET@SEED for random weights that `fovea init` makes. The photos are those of bench/hard_photos,
made on the spot; a machine without scikit-image is given a folder that --write left elsewhere. Any other folder works
too: photos in folders of their own are told apart by the folders' names.

For each engine and precision: mean, 1st percentile and minimum of the photos' cosines to fp32, and recall@10: of each
photo's ten nearest among the others by fp32, the share that is also among its ten nearest here. The 8-bit precisions
are calibrated twice: on examples/photos, and each half of the photos on some of the other half, as many as `fovea
calibrate` looks at. --bf16-layers N,... adds a row to each of them per N: calibrated on examples/photos, with the first
N layers left in bf16. Rows of other models that the same program left in the file of --json for these photos stay."""

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
from programs import answer, listed, words
from transformers import SiglipVisionModel

NEIGHBOURS = 10
CALIBRATION_PHOTOS = 32  # what `fovea calibrate` looks at
BATCH = 32
EIGHT_BITS = ("int8", "fp8")


def nearest(embeddings):
    """Numbers of the ten photos nearest to each photo [photos, 10]; equals in their order."""
    unit = measuring.unit(embeddings)
    likeness = unit @ unit.T
    numpy.fill_diagonal(likeness, -numpy.inf)
    return numpy.argsort(-likeness, axis=1, kind="stable")[:, : min(NEIGHBOURS, len(unit) - 1)]


def compare(truth, found):
    """Cosine of each photo to the truth, and the share of its true neighbours that were found."""
    if truth.shape != found.shape or not (numpy.isfinite(truth).all() and numpy.isfinite(found).all()):
        raise RuntimeError(f"embeddings of shape {found.shape}, expected {truth.shape}, all of them finite")
    pairs = zip(nearest(truth), nearest(found), strict=True)
    return measuring.cosines(found, truth), numpy.array(
        [len(numpy.intersect1d(*pair)) / len(pair[0]) for pair in pairs]
    )


def figures(cosines, recalls, kinds):
    """What is told of an engine: over all photos, and the mean of each kind's, the worst kind first."""
    kinds = numpy.array(kinds)
    by_kind = {str(kind): round(float(cosines[kinds == kind].mean()), 6) for kind in numpy.unique(kinds)}
    return {
        "cosine_mean": float(cosines.mean()),
        "cosine_percentile_1": float(numpy.percentile(cosines, 1)),
        "cosine_min": float(cosines.min()),
        "recall_at_10": float(recalls.mean()),
        "kinds": dict(sorted(by_kind.items(), key=lambda item: item[1])),
    }


def by_torch(model, pixels, dtype, attention, device):
    """transformers' embeddings [n, d] of uint8 pixels [n, height, width, 3]."""
    measuring.without_tf32()
    tower = SiglipVisionModel.from_pretrained(model, dtype=dtype, attn_implementation=attention).eval().to(device)
    found = []
    with torch.inference_mode():
        for first in range(0, len(pixels), BATCH):
            values = pixels[first : first + BATCH].astype(numpy.float32) / 127.5 - 1
            values = torch.from_numpy(values).permute(0, 3, 1, 2).to(device, dtype)
            found.append(tower(values).pooler_output.double().cpu().numpy())
    return numpy.concatenate(found)


class Fovea:
    """The program, on the photos of one study."""

    def __init__(self, options, photos, work):
        self.options, self.photos, self.work = options, photos, work
        self.list = listed(work / "photos.txt", photos)

    def pixels(self, model):
        out = self.work / "pixels.npy"
        answer(self.options.fovea, "preprocess", *words(self.list, m=model, quiet=True, o=out))
        return numpy.load(out)

    def embed(self, model, precision):
        """Embeddings [photos, d], not normalised."""
        out = self.work / "out.npy"
        out.unlink(missing_ok=True)
        names = words(self.list, m=model, device=self.options.device, precision=precision, quiet=True, o=out)
        answer(self.options.fovea, "embed", "--no-normalize", *names)
        return numpy.load(out).astype(numpy.float64)

    def calibrated(self, model, name, source, bf16_layers=0):
        """A folder with the model's files, calibrated for all the 8-bit precisions that are asked for."""
        folder = self.work / f"calibrated on {name}, {bf16_layers} layers in bf16"
        if not folder.exists():
            measuring.uncalibrated(model, folder)
            wanted = ",".join(name for name in EIGHT_BITS if name in self.options.precision.split(","))
            names = words(folder, source, precision=wanted, images=CALIBRATION_PHOTOS, bf16_layers=bf16_layers)
            answer(self.options.fovea, "calibrate", *names)
        return folder


def halves(kinds):
    """Half of each photo, 0 or 1: both halves have photos of every kind that has two."""
    seen, half = {}, []
    for kind in kinds:
        seen[kind] = seen.get(kind, -1) + 1
        half.append(seen[kind] % 2)
    return numpy.array(half)


def spread(photos, count):
    """`count` of the photos, from all over the list."""
    return [photos[index] for index in numpy.linspace(0, len(photos) - 1, min(count, len(photos))).astype(int)]


def calibrated_figures(fovea, model, precision, truth, kinds):
    """Yields what the calibration was made on, how many layers it left in bf16, and the figures with it."""
    for layers in (0, *fovea.options.bf16_layers):
        folder = fovea.calibrated(model, "examples", hard_photos.EXAMPLES, layers)
        yield "examples/photos", layers, figures(*compare(truth, fovea.embed(folder, precision)), kinds)
    half, cosines, recalls = halves(kinds), numpy.empty(len(kinds)), numpy.empty(len(kinds))
    for tested in (0, 1):
        others = [photo for photo, side in zip(fovea.photos, half, strict=True) if side != tested]
        source = listed(fovea.work / f"half-{1 - tested}.txt", spread(others, CALIBRATION_PHOTOS))
        folder = fovea.calibrated(model, f"half {1 - tested}", source)
        # All photos, so that neighbours are embedded by the same model; told are those of this half.
        found = compare(truth, fovea.embed(folder, precision))
        cosines[half == tested], recalls[half == tested] = (values[half == tested] for values in found)
    yield "the other half", 0, figures(cosines, recalls, kinds)


def study(model, name, options, photos, kinds, work):
    """Yields a row for each engine and precision."""
    started = time.monotonic()
    fovea = Fovea(options, photos, work)
    pixels = fovea.pixels(model)
    truth = by_torch(model, pixels, torch.float32, "eager", options.device)

    def row(engine, precision, found, calibration="", bf16_layers=0):
        told = {"model": name, "engine": engine, "precision": precision, "calibration": calibration}
        worst = ", ".join(f"{kind} {cosine:.5f}" for kind, cosine in list(found["kinds"].items())[:3])
        calibration += f", {bf16_layers} layers bf16" if bf16_layers else ""
        print(
            f"{name:28} {engine:12} {precision:5} {calibration:32} mean {found['cosine_mean']:.5f} 1st percentile "
            f"{found['cosine_percentile_1']:.5f} minimum {found['cosine_min']:.5f} recall@10 {found['recall_at_10']:.4f}"
            f"  worst: {worst}  ({time.monotonic() - started:.0f} s)",
            flush=True,
        )
        return told | {"bf16_layers": bf16_layers} | found

    for attention in ("eager", "sdpa"):
        found = by_torch(model, pixels, torch.bfloat16, attention, options.device)
        yield row(f"torch, {attention}", "bf16", figures(*compare(truth, found), kinds))
    for precision in options.precision.split(","):
        try:
            if precision in EIGHT_BITS:
                for calibration, layers, found in calibrated_figures(fovea, model, precision, truth, kinds):
                    yield row("fovea", precision, found, calibration, layers)
            else:
                yield row("fovea", precision, figures(*compare(truth, fovea.embed(model, precision)), kinds))
        except RuntimeError as failure:
            print(f"{name}: {precision} was not measured: {failure}", file=sys.stderr)
            options.failed = True


def resolved(options, model, work):
    """The model's folder, made when it is PRESET@SEED, and its name for people."""
    preset, seed_mark, seed = model.partition("@")
    if not seed_mark:
        return pathlib.Path(model), pathlib.Path(model).name
    answer(options.fovea, "init", *words(preset=preset, seed=seed, o=work / preset))
    return work / preset, f"{preset}, seed {seed}"


def filed(options, corpus):
    """The rows that the JSON has already for this corpus, of the same program: those of another are of another run."""
    result = runs.filed(options.json)
    found, measured = result.get("accuracy", {}), result.get("machine", {}).get("commit")
    return found["rows"] if found.get("corpus") == corpus and measured == machine.commit(options.fovea) else []


def main():
    parser = measuring.parser(__doc__, device="cuda")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--write", type=pathlib.Path, metavar="FOLDER", help="write the photos, and do nothing else")
    parser.add_argument("--photos", type=pathlib.Path, metavar="FOLDER", help="use these instead of making them")
    parser.add_argument("--seed", type=int, default=1, help="of the photos that are made")
    parser.add_argument("--each", type=int, default=hard_photos.EACH, help="photos of a kind that are made")
    parser.add_argument("--precision", help="default: all that the device may have")
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
        corpus = {"photos": len(photos), "kinds": len(set(kinds))} | hard_photos.described(source)
        rows = filed(options, corpus)
        for given in options.models:
            with tempfile.TemporaryDirectory(dir=folder) as place:
                work = pathlib.Path(place)
                model, name = resolved(options, given, work)
                rows = [row for row in rows if row["model"] != name]
                for row in study(model, name, options, photos, kinds, work):
                    rows.append(row)
                    if options.json:  # after each: a run that is ended keeps what it has
                        where = machine.describe(options.fovea, "cuda")
                        result = {"machine": where, "accuracy": {"corpus": corpus, "rows": rows}}
                        machine.hand_over(result, options.json)
    return int(options.failed)


if __name__ == "__main__":
    sys.exit(main())
