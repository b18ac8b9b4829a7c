"""Makes hundreds of images of many kinds that are hard for low-precision encoders. The same seed gives the same images.

Images are drawn (graphics), synthesised from noise and light (scenes), or photographs with defects (edits). The
photographs are examples/photos and the sample images of scikit-image's wheel, which are also included unedited. Each
image lies in a folder named after its kind."""

import importlib.util
import io
import json
import pathlib
import zlib

import numpy
from PIL import Image, ImageOps

from . import edits, graphics, scenes

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "photos"
DRAWN = graphics.KINDS | scenes.KINDS
UNEDITED = ("photograph", "sample")  # examples/photos, and the samples of scikit-image
KINDS = (*DRAWN, *edits.KINDS, *UNEDITED)
EACH = 6  # photos per kind
SIDES = range(256, 513, 32)  # the longer side, in pixels
SHAPES = (1, 1, 4 / 3, 3 / 4, 3 / 2, 2 / 3, 16 / 9)  # ratios of width to height
# Samples of scikit-image that are left out, because examples/photos has them or because they are not single images.
EXCLUDED_SAMPLES = {
    "astronaut", "brick", "camera", "chelsea", "chessboard_RGB", "clock_motion", "coffee", "grass", "gravel",
    "hubble_deep_field", "retina", "rocket", "multipage", "multipage_rgb", "no_time_for_that_tiny", "motorcycle_disp",
}  # fmt: skip
MAX_PNG_BYTES = 60_000  # larger images are stored as JPEG


def samples():
    """Returns the sample images in scikit-image's package."""
    package = importlib.util.find_spec("skimage")
    if package is None:
        raise SystemExit(
            "scikit-image, whose sample images are part of the corpus, is not installed: write the corpus on a machine "
            "that has it (bench/gpu_accuracy.py --write FOLDER), and pass the folder with --photos"
        )
    folder = pathlib.Path(package.origin).parent / "data"
    files = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix in (".png", ".jpg") and path.stem not in EXCLUDED_SAMPLES
    ]
    faces = numpy.load(folder / "lfw_subset.npy")[:64]
    sheet = numpy.block([list(row) for row in faces.reshape(8, 8, *faces.shape[1:])])
    return [Image.open(path).convert("RGB") for path in files] + [graphics.gray(255 * sheet).convert("RGB")]


def make(seed, each=EACH, kinds=KINDS):
    """Yields (kind, number, image): `each` images of every kind, and then all unedited photographs."""
    examples = [Image.open(path).convert("RGB") for path in sorted(EXAMPLES.glob("*.jpg"))]
    unedited = dict(zip(UNEDITED, (examples, samples()), strict=True))
    photographs = examples + unedited["sample"]
    for number in range(each):
        for kind in kinds:
            # Each kind has its own seed, so that adding or removing a kind leaves the others unchanged.
            random = numpy.random.default_rng([seed, zlib.crc32(kind.encode()), number])
            side, shape = int(random.choice(SIDES)), float(random.choice(SHAPES))
            size = (side, round(side / shape)) if shape >= 1 else (round(side * shape), side)
            if kind in DRAWN:
                yield kind, number, DRAWN[kind](random, size)
            elif kind in edits.KINDS:
                chosen = random.choice(len(photographs), 2, replace=False)
                pair = (ImageOps.fit(photographs[index], size) for index in chosen)
                yield kind, number, edits.KINDS[kind](random, *pair)
    for kind in (kind for kind in UNEDITED if kind in kinds):
        for number, photo in enumerate(unedited[kind]):
            photo.thumbnail((SIDES[-1], SIDES[-1]))
            yield kind, number, photo


def save(image, path):
    """Writes a PNG where that is small, and otherwise a JPEG of the quality in the image's info."""
    quality, encoded = image.info.get("quality"), io.BytesIO()
    image.save(encoded, "PNG")
    if quality is None and len(encoded.getvalue()) <= MAX_PNG_BYTES:
        path.with_suffix(".png").write_bytes(encoded.getvalue())
    else:
        image.save(path.with_suffix(".jpg"), quality=quality or 90)


def write(folder, seed, each=EACH, kinds=KINDS):
    """Writes the corpus into a new or empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty: the corpus needs a new or empty folder")
    for kind, number, image in make(seed, each, kinds):
        (folder / kind).mkdir(exist_ok=True)
        save(image, folder / kind / f"{number:02}")
    (folder / "corpus.json").write_text(json.dumps({"seed": seed, "each": each}) + "\n")


def read(folder):
    """Returns the paths of the photos below `folder`, sorted by number first, and the kind of each, which is its
    folder's name."""
    photos = [path for path in folder.resolve().rglob("*") if path.suffix in (".jpg", ".png", ".webp")]
    photos.sort(key=lambda path: (path.stem, path.parent.name))
    return photos, [path.parent.name for path in photos]


def corpus_description(folder):
    """Returns the seed and the number of photos per kind of a corpus made by `write`, or {} for any other folder."""
    description = folder / "corpus.json"
    return json.loads(description.read_text()) if description.exists() else {}
