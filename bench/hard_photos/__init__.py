"""Photos that are hard for an encoder of few bits: hundreds of many kinds, the same for the same seed.

Drawn (graphics), made of noise and light (scenes), and photographs as they go wrong (edits of examples/photos and of the
sample images that scikit-image's wheel holds, which are also in it as they are). Each lies in a folder named after its kind."""

import importlib.util
import json
import pathlib
import zlib

import numpy
from PIL import Image, ImageOps

from . import edits, graphics, scenes

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "photos"
DRAWN = graphics.KINDS | scenes.KINDS
EACH = 6  # photos of a kind
SIDES = range(256, 513, 32)  # of the longer side, pixels
SHAPES = (1, 1, 4 / 3, 3 / 4, 3 / 2, 2 / 3, 16 / 9)  # width to height
# Of scikit-image's samples: what examples/photos has too, and what is no image by itself.
TAKEN = {"astronaut", "brick", "camera", "chelsea", "clock_motion", "coffee", "grass", "gravel", "hubble_deep_field",
         "retina", "rocket", "multipage", "multipage_rgb", "no_time_for_that_tiny", "motorcycle_disp"}
LARGEST_PNG = 60_000  # bytes; what takes more is stored as JPEG


def samples():
    """The sample images of scikit-image, which lie in its package."""
    found = importlib.util.find_spec("skimage")
    if found is None:
        raise SystemExit("scikit-image, whose sample images belong to the corpus, is not installed: write the corpus "
                         "where it is (bench/gpu_accuracy.py --write FOLDER), and pass the folder with --photos")
    folder = pathlib.Path(found.origin).parent / "data"
    files = [path for path in sorted(folder.iterdir()) if path.suffix in (".png", ".jpg") and path.stem not in TAKEN]
    photos = {path.stem: Image.open(path).convert("RGB") for path in files}
    faces = numpy.load(folder / "lfw_subset.npy")
    rows = faces[:64].reshape(8, 8, *faces.shape[1:])
    photos["faces"] = graphics.gray(255 * numpy.block([list(row) for row in rows])).convert("RGB")
    return photos


def make(seed, each=EACH):
    """(kind, number, image): every kind in turn, so that the first photos are of many kinds."""
    examples = {path.stem: Image.open(path).convert("RGB") for path in sorted(EXAMPLES.glob("*.jpg"))}
    whole = {"photograph": list(examples.values()), "sample": list(samples().values())}
    photographs = whole["photograph"] + whole["sample"]
    for number in range(each):
        for kind in (*DRAWN, *edits.KINDS):
            # Of the kind's own, so that one kind more or less leaves the others as they are.
            random = numpy.random.default_rng([seed, zlib.crc32(kind.encode()), number])
            side, shape = int(random.choice(SIDES)), float(random.choice(SHAPES))
            size = (side, round(side / shape)) if shape >= 1 else (round(side * shape), side)
            if kind in DRAWN:
                yield kind, number, DRAWN[kind](random, size)
            else:
                chosen = random.choice(len(photographs), 2, replace=False)
                yield kind, number, edits.KINDS[kind](random, *(ImageOps.fit(photographs[at], size) for at in chosen))
    for kind, photos in whole.items():
        for number, photo in enumerate(photos):
            photo.thumbnail((SIDES[-1], SIDES[-1]))
            yield kind, number, photo


def save(image, path):
    """As PNG where that is small, else as JPEG, of the quality that the image asks for."""
    quality = image.info.get("quality")
    if quality is None:
        image.save(path.with_suffix(".png"), optimize=True)
        if path.with_suffix(".png").stat().st_size <= LARGEST_PNG:
            return
        path.with_suffix(".png").unlink()
    image.save(path.with_suffix(".jpg"), quality=quality or 90)


def write(folder, seed, each=EACH):
    """Writes the corpus into a folder that is new or empty."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty; a corpus is written into a folder of its own")
    for kind, number, image in make(seed, each):
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
