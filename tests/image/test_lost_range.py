"""Images whose values are clipped, as Pillow clips them, are told from those that lose nothing."""

from __future__ import annotations

import io

import numpy as np
import pytest
import tifffile
from image_cases import encode, exif, photo
from PIL import Image
from test_pixels import Tool

RAMP = np.arange(12).reshape(3, 4)


def tiff(values: np.ndarray, photometric: str = "minisblack") -> bytes:
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, values, photometric=photometric)
    return buffer.getvalue()


def png(values: np.ndarray) -> bytes:
    return encode(Image.fromarray(values.astype(np.uint16)), "PNG")


LOST = {
    "png gray16": png(RAMP * 5000),
    "png gray16 one value": png(np.where(RAMP == 7, 256, 0)),
    "tiff u16": tiff((RAMP * 5000).astype(np.uint16)),
    "tiff u16 in its last row": tiff((RAMP + 245).astype(np.uint16)),
    "tiff i16 negative": tiff((RAMP - 1).astype(np.int16)),
    "tiff i32": tiff((RAMP * 100).astype(np.int32)),
    "tiff float": tiff((RAMP * 25.0).astype(np.float32)),
    "tiff float of 0 to 1": tiff((RAMP / 11).astype(np.float32)),
    "tiff float not a number": tiff(np.where(RAMP == 3, np.nan, 5).astype(np.float32)),
    "tiff u16 turned": encode(Image.fromarray((RAMP * 5000).astype(np.uint16)), "TIFF", exif=exif(6)),
}
KEPT = {
    "png gray16 small": png(RAMP * 20),
    "tiff u16 small": tiff((RAMP * 23).astype(np.uint16)),
    "tiff i16 small": tiff((RAMP * 23).astype(np.int16)),
    "tiff float whole": tiff(RAMP.astype(np.float32)),
    "tiff float with fractions": tiff((RAMP * 2.5).astype(np.float32)),
    "tiff rgb16": tiff((np.stack([RAMP] * 3, 2) * 5000).astype(np.uint16), "rgb"),
    "png": encode(photo((4, 3)), "PNG"),
    "jpeg": encode(photo((4, 3)), "JPEG"),
    "gray": encode(photo((4, 3)).convert("L"), "TIFF"),
}


@pytest.mark.parametrize("name, lost", [(name, True) for name in LOST] + [(name, False) for name in KEPT])
def test_lost_range_is_told(tmp_path, name, lost):
    tool = Tool(tmp_path)
    tool.file.write_bytes(LOST[name] if lost else KEPT[name])
    for height, width in ((0, 0), (2, 2)):
        got = tool.ask(height, width, 2)
        assert not isinstance(got, str), got
        assert tool.lost_range == lost
    tool.close()
