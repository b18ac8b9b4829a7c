"""Photos that are hard for an encoder of few bits: hundreds of many kinds, the same for the same seed.

Drawn (graphics), made of noise and light (scenes), and photographs as they go wrong (edits of examples/photos and of
the sample images that scikit-image's wheel holds, which are also in it as they are). Each lies in a folder named after
its kind."""

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
WHOLE = ("photograph", "sample")  # examples/photos and scikit-image's, as they are
KINDS = (*DRAWN, *edits.KINDS, *WHOLE)
EACH = 6  # photos of a kind
SIDES = range(256, 513, 32)  # of the longer side, pixels
SHAPES = (1, 1, 4 / 3, 3 / 4, 3 / 2, 2 / 3, 16 / 9)  # width to height
# Samples of scikit-image that are left out: those that examples/photos has too, and those that are no images by themselves.
TAKEN = {
    "astronaut", "brick", "camera", "chelsea", "chessboard_RGB", "clock_motion", "coffee", "grass", "gravel",
    "hubble_deep_field", "retina", "rocket", "multipage", "multipage_rgb", "no_time_for_that_tiny", "motorcycle_disp",
}  # fmt: skip
LARGEST_PNG = 60_000  # bytes; what takes more is stored as JPEG


def samples():
    """The sample images of scikit-image, which lie in its package."""
    found = importlib.util.find_spec("skimage")
    if found is None:
        raise SystemExit(
            "scikit-image, whose sample images belong to the corpus, is not installed: write the corpus "
            "where it is (bench/gpu_accuracy.py --write FOLDER), and pass the folder with --photos"
        )
    folder = pathlib.Path(found.origin).parent / "data"
    files = [path for path in sorted(folder.iterdir()) if path.suffix in (".png", ".jpg") and path.stem not in TAKEN]
    faces = numpy.load(folder / "lfw_subset.npy")[:64]
    sheet = numpy.block([list(row) for row in faces.reshape(8, 8, *faces.shape[1:])])
    return [Image.open(path).convert("RGB") for path in files] + [graphics.gray(255 * sheet).convert("RGB")]


def make(seed, each=EACH, kinds=KINDS):
    """(kind, number, image): every kind in turn; of WHOLE all there are."""
    examples = [Image.open(path).convert("RGB") for path in sorted(EXAMPLES.glob("*.jpg"))]
    whole = dict(zip(WHOLE, (examples, samples()), strict=True))
    photographs = examples + whole["sample"]
    for number in range(each):
        for kind in kinds:
            # Seeding by kind keeps all others as they are when a kind is added or removed.
            random = numpy.random.default_rng([seed, zlib.crc32(kind.encode()), number])
            side, shape = int(random.choice(SIDES)), float(random.choice(SHAPES))
            size = (side, round(side / shape)) if shape >= 1 else (round(side * shape), side)
            if kind in DRAWN:
                yield kind, number, DRAWN[kind](random, size)
            elif kind in edits.KINDS:
                chosen = random.choice(len(photographs), 2, replace=False)
                pair = (ImageOps.fit(photographs[index], size) for index in chosen)
                yield kind, number, edits.KINDS[kind](random, *pair)
    for kind in (kind for kind in WHOLE if kind in kinds):
        for number, photo in enumerate(whole[kind]):
            photo.thumbnail((SIDES[-1], SIDES[-1]))
            yield kind, number, photo


def save(image, path):
    """Writes a PNG where that is small, else a JPEG of the quality that the image asks for."""
    quality, encoded = image.info.get("quality"), io.BytesIO()
    image.save(encoded, "PNG")
    if quality is None and len(encoded.getvalue()) <= LARGEST_PNG:
        path.with_suffix(".png").write_bytes(encoded.getvalue())
    else:
        image.save(path.with_suffix(".jpg"), quality=quality or 90)


def write(folder, seed, each=EACH, kinds=KINDS):
    """Writes the corpus into a folder that is new or empty."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty; a corpus is written into a folder of its own")
    for kind, number, image in make(seed, each, kinds):
        (folder / kind).mkdir(exist_ok=True)
        save(image, folder / kind / f"{number:02}")
    (folder / "corpus.json").write_text(json.dumps({"seed": seed, "each": each}) + "\n")


def read(folder):
    """Paths of the photos below `folder`, sorted by number first, and the kind of each: its folder's name."""
    photos = [path for path in folder.resolve().rglob("*") if path.suffix in (".jpg", ".png", ".webp")]
    photos.sort(key=lambda path: (path.stem, path.parent.name))
    return photos, [path.parent.name for path in photos]


def described(folder):
    """Seed and photos of a kind of a corpus that `write` left; of another folder nothing."""
    description = folder / "corpus.json"
    return json.loads(description.read_text()) if description.exists() else {}
