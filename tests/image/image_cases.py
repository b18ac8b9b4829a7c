"""Encoded images of every supported kind, made with Pillow, tifffile and by hand."""

from __future__ import annotations

import ctypes
import ctypes.util
import io
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import skimage
import tifffile
from PIL import Image, PngImagePlugin

Case = tuple[str, bytes]

SMALL = [(1, 1), (2, 1), (1, 3), (7, 5), (8, 8), (16, 16), (17, 33), (31, 2), (64, 48), (227, 149)]
DATA = Path(skimage.__file__).parent / "data"
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf tiff:Orientation="%d"/></x:xmpmeta>'


def photo(size: tuple[int, int], name: str = "astronaut.png") -> Image.Image:
    """A photograph stretched to `size`, so that every sample matters."""
    return Image.open(DATA / name).convert("RGB").resize(size, Image.Resampling.BICUBIC)


def encode(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def exif(orientation: int, endian: str = "<") -> Image.Exif:
    tags = Image.Exif()
    tags.endian = endian
    tags[0x0112] = orientation
    return tags


# JPEG


def jpeg_cases() -> Iterator[Case]:
    for width, height in SMALL:
        for sampling in ("4:4:4", "4:2:2", "4:2:0"):
            for progressive in (False, True):
                yield (
                    f"{width}x{height}-{sampling.replace(':', '')}-{progressive}.jpg",
                    encode(photo((width, height)), "JPEG", quality=88, subsampling=sampling, progressive=progressive),
                )
    for quality in (1, 10, 50, 100):
        yield f"q{quality}.jpg", encode(photo((203, 151), "coffee.png"), "JPEG", quality=quality)
    image = photo((203, 151), "chelsea.png")
    for name, options in {
        "restart": {"restart_marker_blocks": 3},
        "optimised": {"optimize": True},
        "rgb": {"keep_rgb": True},
        "comment": {"comment": b"x" * 60000},
        "icc": {"icc_profile": b"not a profile" * 9000},
    }.items():
        yield f"{name}.jpg", encode(image, "JPEG", **options)
    for size in ((1, 1), (203, 151)):
        for progressive in (False, True):
            yield (
                f"gray-{size[0]}-{progressive}.jpg",
                encode(photo(size).convert("L"), "JPEG", progressive=progressive),
            )
            cmyk = encode(photo(size).convert("CMYK"), "JPEG", quality=90, progressive=progressive)
            yield f"cmyk-{size[0]}-{progressive}.jpg", cmyk
            adobe = cmyk.index(b"Adobe")
            ycck = bytearray(cmyk)
            ycck[adobe + 11] = 2
            yield f"ycck-{size[0]}-{progressive}.jpg", bytes(ycck)
            plain = cmyk[: adobe - 4] + cmyk[adobe + 12 :]
            yield f"cmyk-plain-{size[0]}-{progressive}.jpg", plain
    whole = encode(image, "JPEG")
    yield "trailing-garbage.jpg", whole + b"garbage" * 100
    yield "no-end-marker.jpg", whole[:-2]
    yield "junk-between-markers.jpg", whole[:2] + b"\xff\xff\xff" + whole[3:]
    yield from orientation_cases("jpg", lambda im, **options: encode(im, "JPEG", **options))
    yield from turbo_cases(image)


def turbo_cases(image: Image.Image) -> Iterator[Case]:
    """Samplings and codings that Pillow cannot write, where libturbojpeg is installed."""
    library = ctypes.util.find_library("turbojpeg")
    if library is None:
        return
    turbo = ctypes.CDLL(library)
    turbo.tjInitCompress.restype = ctypes.c_void_p
    turbo.tjCompress2.argtypes = [
        ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int,
        ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_ulong), ctypes.c_int, ctypes.c_int,
        ctypes.c_int,
    ]  # fmt: skip
    turbo.tjDestroy.argtypes = turbo.tjFree.argtypes = [ctypes.c_void_p]
    samplings = {"444": 0, "422": 1, "420": 2, "gray": 3, "440": 4, "411": 5}
    for arithmetic in (False, True):
        if arithmetic:
            os.environ["TJ_ARITHMETIC"] = "1"
        for name, sampling in samplings.items():
            for progressive in (0, 16384):
                for width, height in ((203, 151), (33, 17), (1, 1), (3, 40)):
                    pixels = image.resize((width, height)).tobytes()
                    handle = turbo.tjInitCompress()
                    data, size = ctypes.c_void_p(), ctypes.c_ulong()
                    assert turbo.tjCompress2(
                        handle, pixels, width, 0, height, 0, ctypes.byref(data),
                        ctypes.byref(size), sampling, 85, progressive,
                    ) == 0  # fmt: skip
                    kind = "arithmetic" if arithmetic else "huffman"
                    yield (
                        f"turbo-{kind}-{name}-{progressive}-{width}x{height}.jpg",
                        ctypes.string_at(data.value, size.value),
                    )
                    turbo.tjFree(data)
                    turbo.tjDestroy(handle)
    os.environ.pop("TJ_ARITHMETIC", None)


def orientation_cases(extension: str, save: Callable[..., bytes]) -> Iterator[Case]:
    """Orientations 1..8, values that mean nothing, and sizes that exercise each pass order."""
    image = photo((61, 47))
    for value in range(10):
        yield f"orientation{value}.{extension}", save(image, exif=exif(value))
    for value in (3, 6):
        yield f"orientation{value}-be.{extension}", save(image, exif=exif(value, ">"))
        tall = image.resize((40, 500))
        yield f"orientation{value}-tall.{extension}", save(tall, exif=exif(value))
        wide = image.resize((500, 40))
        yield f"orientation{value}-wide.{extension}", save(wide, exif=exif(value))
    for value in (2, 5, 8):
        same = image.resize((224, 224))
        yield f"orientation{value}-224.{extension}", save(same, exif=exif(value))
    broken = b"Exif\0\0II*\0\xff\xff\xff\x7f"
    if extension != "tif":
        yield f"exif-points-nowhere.{extension}", save(image, exif=broken)


def xmp_cases() -> Iterator[Case]:
    image = photo((61, 47))
    yield "xmp6.jpg", encode(image, "JPEG", xmp=XMP % 6)
    yield "xmp8.webp", encode(image, "WEBP", xmp=XMP % 8, lossless=True)
    yield "xmp-and-exif.jpg", encode(image, "JPEG", xmp=XMP % 6, exif=exif(3))
    text = PngImagePlugin.PngInfo()
    text.add_itxt("XML:com.adobe.xmp", (XMP % 5).decode())
    yield "xmp5.png", encode(image, "PNG", pnginfo=text)
    text = PngImagePlugin.PngInfo()
    raw = exif(6).tobytes()
    text.add_text("Raw profile type exif", f"\nexif\n{len(raw):8}\n{raw.hex()}\n", zip=True)
    yield "raw-profile6.png", encode(image, "PNG", pnginfo=text)


# PNG


def png_cases() -> Iterator[Case]:
    random = np.random.default_rng(1)
    for width, height in SMALL:
        image = photo((width, height))
        for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
            converted = image.convert(mode)
            if mode in ("LA", "RGBA"):
                alpha = random.integers(0, 256, (height, width)).astype(np.uint8)
                converted.putalpha(Image.fromarray(alpha))
            yield f"{width}x{height}-{mode}.png", encode(converted, "PNG")
        deep = random.integers(0, 700, (height, width)).astype(np.uint16)
        yield f"{width}x{height}-gray16.png", encode(Image.fromarray(deep), "PNG")
    for depth in (1, 2, 4, 8):
        palette = photo((203, 151), "coffee.png").quantize(2**depth)
        yield f"palette{depth}.png", encode(palette, "PNG", bits=depth)
        yield f"palette{depth}-trns.png", encode(palette, "PNG", bits=depth, transparency=0)
        alphas = bytes(range(0, 2**depth * 7, 7)[: 2**depth]) if depth < 6 else bytes(range(256))
        yield f"palette{depth}-alphas.png", encode(palette, "PNG", bits=depth, transparency=alphas)
    yield "rgb-trns.png", encode(photo((64, 48)), "PNG", transparency=(1, 2, 3))
    yield "gray-trns.png", encode(photo((64, 48)).convert("L"), "PNG", transparency=9)
    for width, height in ((1, 1), (5, 7), (37, 23), (64, 64)):
        for color, channels in ((0, 1), (2, 3), (3, 1), (4, 2), (6, 4)):
            for depth in (1, 2, 4, 8, 16):
                if (depth < 8 and color not in (0, 3)) or (depth == 16 and color == 3):
                    continue
                for interlaced in (False, True):
                    samples = random.integers(0, min(2**depth, 1 << 16), (height, width, channels), np.uint16)
                    yield (
                        f"raw-{color}-{depth}-{width}x{height}-{interlaced}.png",
                        raw_png(samples, color, depth, interlaced),
                    )
    yield from orientation_cases("png", lambda im, **options: encode(im, "PNG", **options))
    frames = [photo((40, 30)), photo((40, 30), "coffee.png")]
    yield "animated.png", encode(frames[0], "PNG", save_all=True, append_images=frames[1:])
    yield (
        "animated-default.png",
        encode(frames[0], "PNG", save_all=True, append_images=frames, default_image=True),
    )
    yield "trailing-garbage.png", encode(frames[0], "PNG") + b"garbage"
    yield "no-end.png", encode(frames[0], "PNG")[:-12]


def raw_png(samples: np.ndarray, color: int, depth: int, interlaced: bool) -> bytes:
    """A PNG of any colour type, depth and interlacing, with every filter that bytes allow."""
    import zlib

    height, width, _ = samples.shape

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    def rows(part: np.ndarray) -> bytes:
        out = b""
        for row in part.reshape(part.shape[0], -1):
            if depth == 16:
                packed = row.astype(">u2").tobytes()
            elif depth == 8:
                packed = row.astype(np.uint8).tobytes()
            else:
                bits = np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - depth :]
                packed = np.packbits(bits.reshape(-1)).tobytes()
            out += b"\0" + packed
        return out

    if interlaced:
        data = b""
        for x, y, dx, dy in (
            (0, 0, 8, 8),
            (4, 0, 8, 8),
            (0, 4, 4, 8),
            (2, 0, 4, 4),
            (0, 2, 2, 4),
            (1, 0, 2, 2),
            (0, 1, 1, 2),
        ):
            part = samples[y::dy, x::dx]
            if part.size:
                data += rows(part)
    else:
        data = rows(samples)
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    palette = chunk(b"PLTE", bytes((7 * i) % 256 for i in range(3 * 2**depth))) if color == 3 else b""
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + palette
        + chunk(b"IDAT", zlib.compress(data))
        + chunk(b"IEND", b"")
    )


# WebP, GIF


def webp_cases() -> Iterator[Case]:
    for width, height in SMALL:
        image = photo((width, height))
        yield f"{width}x{height}-lossy.webp", encode(image, "WEBP", quality=70)
        yield f"{width}x{height}-lossless.webp", encode(image, "WEBP", lossless=True)
        alpha = image.convert("RGBA")
        alpha.putalpha(image.convert("L"))
        yield f"{width}x{height}-alpha.webp", encode(alpha, "WEBP", quality=60)
        yield f"{width}x{height}-alpha-lossless.webp", encode(alpha, "WEBP", lossless=True, exact=True)
    for method in (0, 6):
        yield f"method{method}.webp", encode(photo((203, 151), "coffee.png"), "WEBP", method=method)
    frames = [photo((60, 44)).convert("RGBA"), photo((60, 44), "coffee.png").convert("RGBA")]
    frames[0].putalpha(frames[0].convert("L"))
    for lossless in (False, True):
        yield (
            f"animated-{lossless}.webp",
            encode(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=lossless),
        )
    yield from orientation_cases("webp", lambda im, **options: encode(im, "WEBP", **options))


def gif_cases() -> Iterator[Case]:
    for width, height in SMALL:
        for colors in (2, 13, 256):
            image = photo((width, height)).quantize(colors)
            yield f"{width}x{height}-{colors}.gif", encode(image, "GIF", interlace=0)
        yield f"{width}x{height}-interlaced.gif", encode(photo((width, height)).quantize(99), "GIF", interlace=1)
        yield f"{width}x{height}-gray.gif", encode(photo((width, height)).convert("L"), "GIF")
    image = photo((64, 48)).quantize(60)
    yield "transparent.gif", encode(image, "GIF", transparency=5)
    frames = [photo((64, 48)), photo((64, 48), "coffee.png")]
    yield "animated.gif", encode(frames[0], "GIF", save_all=True, append_images=frames[1:])
    for transparent in (None, 0, 3):
        for local in (False, True):
            for x, y in ((0, 0), (5, 9), (50, 40)):
                yield (
                    f"small-frame-{transparent}-{local}-{x}-{y}.gif",
                    small_frame_gif(image, transparent, local, x, y),
                )


def small_frame_gif(image: Image.Image, transparent: int | None, local: bool, x: int, y: int) -> bytes:
    """A frame that is not the screen: inside it, or over its edge."""
    whole = encode(image.resize((20, 16)), "GIF", interlace=0)
    flags = whole[10]
    palette = whole[13 : 13 + 3 * 2 ** ((flags & 7) + 1)]
    start = whole.index(b",\0\0\0\0\x14\0\x10\0", 13 + len(palette))
    data = whole[start + 10 :]
    out = whole[:6] + struct.pack("<HHBBB", 60, 50, flags if not local else flags & 0x7F, 2, 0)
    out += b"" if local else palette
    if transparent is not None:
        out += b"!\xf9\x04" + struct.pack("<BHB", 1, 0, transparent) + b"\0"
    out += b"," + struct.pack("<HHHHB", x, y, 20, 16, 0x80 | flags & 7 if local else 0)
    return out + (palette if local else b"") + data


# BMP


def bmp_cases() -> Iterator[Case]:
    for width, height in SMALL:
        image = photo((width, height))
        for mode in ("1", "L", "P", "RGB", "RGBA"):
            yield f"{width}x{height}-{mode}.bmp", encode(image.convert(mode), "BMP")
    random = np.random.default_rng(2)
    for width, height in ((1, 1), (5, 3), (33, 18), (130, 77)):
        for top_down in (False, True):
            for bits in (1, 4, 8, 16, 24, 32):
                yield (f"raw{bits}-{width}-{top_down}.bmp", raw_bmp(random, width, height, bits, top_down))
            for bits, masks in (
                (16, (0xF800, 0x7E0, 0x1F)), (16, (0x7C00, 0x3E0, 0x1F)),
                (24, (0xFF0000, 0xFF00, 0xFF)), (32, (0xFF0000, 0xFF00, 0xFF)),
                (32, (0xFF000000, 0xFF0000, 0xFF00)), (32, (0xFF000000, 0xFF00, 0xFF)),
                (32, (0xFF000000, 0xFF0000, 0xFF00, 0xFF)),
                (32, (0xFF, 0xFF00, 0xFF0000, 0xFF000000)),
                (32, (0xFF0000, 0xFF00, 0xFF, 0xFF000000)),
                (32, (0xFF000000, 0xFF00, 0xFF, 0xFF0000)), (32, (0, 0, 0, 0)),
            ):  # fmt: skip
                yield (
                    f"fields{bits}-{masks[0]:x}-{masks[2]:x}-{len(masks)}-{width}-{top_down}.bmp",
                    raw_bmp(random, width, height, bits, top_down, masks=masks),
                )
        for bits in (1, 4, 8, 24):
            yield f"os2-{bits}-{width}.bmp", raw_bmp(random, width, height, bits, False, header=12)
        for header in (64, 108, 124):
            yield f"v{header}-{width}.bmp", raw_bmp(random, width, height, 24, False, header=header)
        for bits in (4, 8):
            for gray in (False, True):
                yield (f"rle{bits}-{width}-{gray}.bmp", rle_bmp(random, width, height, bits, gray))
    yield "short-palette.bmp", raw_bmp(random, 33, 18, 8, False, colors=40)
    yield "black-white-8.bmp", raw_bmp(random, 33, 18, 8, False, colors=2, palette=[(0, 0, 0), (255, 255, 255)])


def raw_bmp(
    random: np.random.Generator,
    width: int,
    height: int,
    bits: int,
    top_down: bool,
    header: int = 40,
    masks: tuple[int, ...] | None = None,
    colors: int | None = None,
    palette: list[tuple[int, ...]] | None = None,
) -> bytes:
    stride = (width * bits + 31) // 32 * 4
    pixels = random.integers(0, 256, stride * height).astype(np.uint8).tobytes()
    count = (colors or 2**bits) if bits <= 8 else 0
    entries = palette or [tuple(int(v) for v in random.integers(0, 256, 3)) for _ in range(count)]
    table = b"".join(bytes(entry) + (b"" if header == 12 else b"\0") for entry in entries)
    if masks is not None and len(masks) == 4 and header == 40:
        header = 56
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack(
            "<IiiHHIIiiII",
            header,
            width,
            -height if top_down else height,
            1,
            bits,
            3 if masks else 0,
            len(pixels),
            0,
            0,
            colors or 0,
            0,
        )
        extra = struct.pack(f"<{len(masks)}I", *masks) if masks else b""
        info += extra.ljust(header - 40, b"\0") if header > 40 else extra
    start = 14 + len(info) + len(table)
    return b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + info + table + pixels


def rle_bmp(random: np.random.Generator, width: int, height: int, bits: int, gray: bool) -> bytes:
    """Runs, literal samples, jumps and row ends, in random order."""
    data = bytearray()
    for _ in range(height):
        x = 0
        while x < width:
            left = width - x
            kind = random.integers(0, 4)
            if kind == 0 and left >= 3:
                count = int(random.integers(3, min(left, 250) + 1))
                size = (count + 1) // 2 if bits == 4 else count
                data += bytes([0, count]) + random.integers(0, 256, size).astype(np.uint8).tobytes()
                data += b"\0" * (size % 2)
            elif kind == 1 and left > 1:
                count = int(random.integers(1, left))
                data += bytes([0, 2, count, 0])
            else:
                count = int(random.integers(1, min(left, 250) + 1))
                data += bytes([count + (40 if count == left and count < 200 else 0), int(random.integers(0, 256))])
            x += count
        data += b"\0\0"
    data += b"\0\1"
    count = 2**bits
    table = b"".join(
        bytes((i, i, i, 0) if gray and bits == 8 else (*random.integers(0, 256, 3).tolist(), 0)) for i in range(count)
    )
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, 1 if bits == 8 else 2, len(data), 0, 0, 0, 0)
    start = 14 + len(info) + len(table)
    return b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start) + info + table + bytes(data)


# TIFF


def tiff_cases() -> Iterator[Case]:
    for width, height in ((1, 1), (17, 33), (227, 149)):
        image = photo((width, height))
        for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"):
            converted = (
                Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 3)
                if mode == "I;16"
                else image.convert(mode)
            )
            for compression in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits"):
                yield (
                    f"{width}x{height}-{mode.replace(';', '')}-{compression}.tif",
                    encode(converted, "TIFF", compression=compression),
                )
        for compression in ("group3", "group4"):
            yield f"{width}x{height}-{compression}.tif", encode(image.convert("1"), "TIFF", compression=compression)
        for mode in ("RGB", "L", "YCbCr", "CMYK"):
            yield (
                f"{width}x{height}-jpeg-{mode}.tif",
                encode(image.convert(mode), "TIFF", compression="jpeg", quality=80),
            )
        yield f"{width}x{height}-zstd.tif", encode(image, "TIFF", compression="zstd")
    rgb = np.asarray(photo((203, 151), "coffee.png"))
    gray = rgb[..., 1]
    alpha = np.dstack([rgb, gray])
    deep = (rgb.astype(np.uint16) << 8) | rgb[..., ::-1]
    arrays: dict[str, tuple[np.ndarray, dict]] = {
        "rgb": (rgb, {"photometric": "rgb"}),
        "rgba": (alpha, {"photometric": "rgb", "extrasamples": ["unassalpha"]}),
        "rgb-premultiplied": (alpha, {"photometric": "rgb", "extrasamples": ["assocalpha"]}),
        "rgbx": (alpha, {"photometric": "rgb", "extrasamples": ["unspecified"]}),
        "rgb16": (deep, {"photometric": "rgb"}),
        "rgba16": (np.dstack([deep, deep[..., 0]]), {"photometric": "rgb", "extrasamples": ["unassalpha"]}),
        "rgb16-premultiplied": (
            np.dstack([deep, deep[..., 0]]),
            {"photometric": "rgb", "extrasamples": ["assocalpha"]},
        ),
        "gray": (gray, {"photometric": "minisblack"}),
        "white": (gray, {"photometric": "miniswhite"}),
        "gray16": (gray.astype(np.uint16) * 2, {"photometric": "minisblack"}),
        "gray-i16": (gray.astype(np.int16) * 3 - 100, {"photometric": "minisblack"}),
        "gray-i32": (gray.astype(np.int32) * 3 - 100, {"photometric": "minisblack"}),
        "gray-u32": (gray.astype(np.uint32) * 2, {"photometric": "minisblack"}),
        "gray-float": (gray.astype(np.float32) * 1.7 - 50, {"photometric": "minisblack"}),
        "cmyk": (alpha, {"photometric": "separated"}),
        "cmyk16": (np.dstack([deep, deep[..., 1]]), {"photometric": "separated"}),
    }
    for name, (array, options) in arrays.items():
        for order in "<>":
            for layout, more in {
                "strips": {"rowsperstrip": 13},
                "tiles": {"tile": (64, 48)},
                "deflate-strips": {"compression": "zlib", "rowsperstrip": 9},
                "deflate-predicted": {"compression": "zlib", "predictor": array.dtype.kind == "u"},
                "planes": {"planarconfig": "separate", "compression": "zlib"},
                "planes-tiled": {"planarconfig": "separate", "tile": (32, 64), "compression": "zlib"},
                "planes-raw": {"planarconfig": "separate"},
            }.items():
                if "planes" in layout and array.ndim == 2:
                    continue
                data = np.ascontiguousarray(np.moveaxis(array, -1, 0) if "planes" in layout else array)
                yield f"{name}-{layout}-{'be' if order == '>' else 'le'}.tif", tiff(data, order, **options, **more)
    yield "big.tif", tiff(rgb, "<", photometric="rgb", bigtiff=True)
    for value in range(1, 9):
        yield (
            f"orientation{value}.tif",
            tiff(rgb[:60, :41], "<", photometric="rgb", extratags=[(274, 3, 1, value, True)]),
        )
        yield (
            f"orientation{value}-deflate.tif",
            tiff(rgb[:60, :41], ">", photometric="rgb", compression="zlib", extratags=[(274, 3, 1, value, True)]),
        )


def tiff(array: np.ndarray, order: str, **options) -> bytes:
    import warnings

    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tifffile.imwrite(buffer, array, byteorder=order, metadata=None, **options)
    return buffer.getvalue()


# Sizes and real photographs


def large_cases() -> Iterator[Case]:
    for size in ((6000, 4000), (4000, 3000), (3000, 4000)):
        yield f"{size[0]}x{size[1]}.jpg", encode(photo(size), "JPEG", quality=85)
    yield "turned.jpg", encode(photo((4000, 3000)), "JPEG", exif=exif(6))
    yield "progressive.jpg", encode(photo((2048, 1536)), "JPEG", progressive=True)
    yield "wide.jpg", encode(photo((8000, 3)), "JPEG")
    yield "tall.jpg", encode(photo((3, 8000)), "JPEG")
    yield "tall.png", encode(photo((500, 3000)), "PNG", compress_level=1)
    yield "large.png", encode(photo((2000, 1500)), "PNG", compress_level=1)
    for size in ((224, 224), (224, 500), (500, 224), (384, 300), (223, 225), (512, 384)):
        yield f"{size[0]}x{size[1]}.bmp", encode(photo(size, "coffee.png"), "BMP")


def real_cases() -> Iterator[Case]:
    samples = Path(__file__).parents[2] / "examples" / "photos"
    for folder in (DATA, samples):
        for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
            if path.suffix in (".jpg", ".jpeg", ".png", ".gif", ".tif", ".webp"):
                yield f"real-{path.name}", path.read_bytes()


def all_cases() -> dict[str, Callable[[], Iterator[Case]]]:
    return {
        "jpeg": jpeg_cases,
        "xmp": xmp_cases,
        "png": png_cases,
        "webp": webp_cases,
        "gif": gif_cases,
        "bmp": bmp_cases,
        "tiff": tiff_cases,
        "large": large_cases,
        "real": real_cases,
    }
