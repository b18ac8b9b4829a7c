"""Generates seed inputs for the fuzz targets: FOLDER/<target>/*.

python3 fuzz/make_corpus.py build/fuzz/seeds
"""

import itertools
import json
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_SEED_BYTES = 4000  # small seeds are mutated faster


def image_seeds():
    """Yields (target, name, bytes): images of every kind from the pixel tests."""
    sys.path.insert(0, str(ROOT / "tests" / "image"))
    import image_cases

    for kind, cases in image_cases.all_cases().items():
        if kind in ("large", "real"):
            continue
        for name, data in cases():
            if len(data) <= MAX_SEED_BYTES:
                yield "image", name, data
                if kind == "bmp":
                    yield "bmp", name, data[2:]


def limit_seeds():
    """Yields (target, name, bytes): small variants of the decompression bombs in the tests."""
    import bombs

    compressed = bombs.zeros(5000)
    for name, data in {
        "zTXt": b"k\0\0" + compressed,
        "iTXt": b"XML:com.adobe.xmp\0\1\0\0\0" + compressed,
        "iCCP": b"k\0\0" + compressed,
        "tEXt": b"Raw profile type exif\0\nexif\n 4\n49492a00\n",
        "acTL": bytes(3) + b"\2" + bytes(4),
        "fcTL": bytes(7) + b"\2" + bytes(3) + b"\3" + bytes(14),
    }.items():
        chunk = bombs.chunk(name.encode(), data)
        yield "image", f"{name}-before.png", bombs.png(before=chunk)
        yield "image", f"{name}-after.png", bombs.png(after=chunk + bombs.chunk(b"IEND"))
    yield "image", "interlaced-gray16.png", bombs.png(9, 9, 16, 0, interlaced=True)
    yield "image", "scans.jpg", bombs.scans(16, 16, 3)
    yield "image", "runs.gif", bombs.gif(40, 30)
    yield "image", "chunks.webp", bombs.webp_chunks(5)
    yield "image", "tags.tif", bombs.directory_bomb(20, 8)
    planes = bombs.layout(20, 20, 8, 4, 5, planar=[2])
    yield "image", "planes.tif", bombs.tiff(planes, [bombs.zeros(400)] * 4)
    tiles = bombs.layout(40, 20, 8, 3, 6) | {322: (4, [16]), 323: (4, [16]), 530: (3, [2, 2])}
    yield "image", "ycbcr-tiles.tif", bombs.tiff(tiles, [bombs.zeros(384)] * 6)


def other_seeds():
    """Yields (target, name, bytes): HEIF images, whose structure is parsed before libheif sees them, and raw files of
    cameras."""
    import camera_files
    import heif_files
    import image_cases

    photo = image_cases.photo((16, 16))
    jpeg = image_cases.encode(photo, "JPEG")
    yield "image", "plain.heic", heif_files.heic(photo)
    tile = image_cases.photo((64, 64))
    yield "image", "grid.heic", heif_files.grid(tile, 2, 1)
    hvcc, _ = heif_files.coded(tile)
    yield "image", "tile-alpha.heic", heif_files.grid(tile, 1, 1, alpha=hvcc)
    long = heif_files.hvcc_with(hvcc, heif_files.parameter_set(1 << 31, 1 << 31))
    yield "image", "large-numbers.heic", heif_files.grid(tile, 4, 1, hvcc=long)
    yield "image", "alpha.avif", heif_files.avif(photo.convert("LA"))
    yield "image", "canon.cr2", camera_files.cr2(jpeg, (16, 16), jpeg)
    tiff = camera_files.tiff(
        [
            camera_files.Directory(
                camera_files.jpeg_preview(jpeg, 16, 16) | {274: (3, 6), 50706: (1, bytes([1, 4, 0, 0]))}
            )
        ]
    )
    yield "image", "adobe.dng", tiff
    yield "image", "olympus.orf", b"IIRO" + tiff[4:]
    yield "image", "fuji.raf", b"FUJIFILMCCD-RAW " + jpeg + tiff
    # JPEGs nested in another JPEG, two of which lead to the same markers.
    nested = b"\xff\xd8\xff\xe2" + struct.pack(">H", len(jpeg) + 2) + jpeg + jpeg[2:]
    yield "image", "nested.orf", b"IIRO" + bytes(4) + b"\xff\xd8\xff\xfe\0\x0c" * 2 + b"\xff\xff" * 8 + nested


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def vocabulary_seeds():
    """Yields (target, name, bytes): a small vocabulary of each kind, as JSON and as SentencePiece's protobuf."""
    pieces = ["<pad>", "<eos>", "<unk>", *BYTES, "a", "b", "▁", "ab", "▁a", "▁ab", "<tag>"]
    special = {"<pad>": 3, "<eos>": 3, "</s>": 3, "<unk>": 2, "<tag>": 4} | dict.fromkeys(BYTES, 6)
    merges = [["a", "b"], ["▁", "a"], ["▁a", "b"], ["▁", "ab"]]
    document = {
        "added_tokens": [
            {"id": index, "content": piece, "special": special[piece] != 4}
            for index, piece in enumerate(pieces)
            if special.get(piece) in (2, 3, 4)
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}},
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "byte_fallback": True,
            "vocab": {piece: index for index, piece in enumerate(pieces)},
            "merges": merges,
        },
    }
    yield "tokenizer_json", "pairs.json", json.dumps(document, ensure_ascii=False).encode()
    document["model"]["merges"] = [" ".join(pair) for pair in merges]
    yield "tokenizer_json", "strings.json", json.dumps(document).encode()

    def field(number, value):
        if isinstance(value, float):
            return bytes([number << 3 | 5]) + struct.pack("<f", value)
        if isinstance(value, int):
            return varint(number << 3) + varint(value)
        return varint(number << 3 | 2) + varint(len(value)) + value

    def varint(value):
        return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])

    def model(texts, trainer, normalizer):
        all_pieces = b"".join(
            field(1, field(1, text.encode()) + field(2, -float(index)) + field(3, special.get(text, 1)))
            for index, text in enumerate(texts)
        )
        return all_pieces + field(2, trainer) + field(3, normalizer)

    yield "spiece", "bpe", model(pieces, field(3, 2) + field(35, 1), field(3, 0) + field(4, 0))
    # A trie with a single rule: "a" becomes "b".
    units = [0] * 1024
    units[0], units[256 ^ 97], units[256 ^ 97 ^ 512] = 256 << 10, 512 << 10 | 1 << 8 | 97, 1 << 31
    for other in (256, 512, 768):
        units[other] = 1  # a label that does not match this position
    charsmap = struct.pack("<I1024I", 4096, *units) + b"b\0"
    unigram = ["<pad>", "</s>", "<unk>", "a", "b", "▁", "▁b", "<tag>"]
    yield "spiece", "unigram", model(unigram, field(3, 1), b"")
    yield "spiece", "replaces", model(unigram, field(3, 1), field(2, charsmap))


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for target, name, data in itertools.chain(image_seeds(), limit_seeds(), other_seeds(), vocabulary_seeds()):
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / target / name).write_bytes(data)


if __name__ == "__main__":
    main()
