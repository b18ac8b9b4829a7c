"""Writes seed inputs of the fuzz targets that are better made than kept: FOLDER/<target>/*.

    python3 fuzz/make_corpus.py build/fuzz/seeds
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LARGEST = 4000  # bytes of a seed: small ones are mutated faster


def image_seeds():
    """(target, name, bytes): images of every kind from the pixel tests."""
    sys.path.insert(0, str(ROOT / "tests" / "image"))
    import image_cases

    for kind, cases in image_cases.all_cases().items():
        if kind in ("large", "real"):
            continue
        for name, data in cases():
            if len(data) <= LARGEST:
                yield "image", name, data
                if kind == "bmp":
                    yield "bmp", name, data[2:]


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for target, name, data in image_seeds():
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / target / name).write_bytes(data)


if __name__ == "__main__":
    main()
