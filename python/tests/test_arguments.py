"""What callers may pass, and what they are told when it is something else."""

import io
import pickle
from typing import get_args

import fovea
import numpy as np
import pytest
from fovea._arguments import Precision

PIXELS = np.arange(50 * 40 * 3, dtype=np.uint8).reshape(50, 40, 3)


@pytest.mark.parametrize("given", [3, np.int64(3), np.uint8(3)])
def test_integers_of_any_kind(encoder, given):
    rows = encoder.embed([PIXELS] * 4, batch_size=given)
    assert len(list(encoder.stream([PIXELS] * 4, batch_size=given))) == len(rows)


def test_a_folder_of_calibrations_may_be_named(program, model, photos, tmp_path):
    program("calibrate", model, *photos[:2], "--calibration", tmp_path)
    assert fovea.load(model, "cpu", "int8", calibration=tmp_path).embed(photos[:1]).shape[0] == 1
    with pytest.raises(
        fovea.Error, match="int8 needs a calibrated model .there is no .*/none/calibration-int8.safetensors"
    ):
        fovea.load(model, "cpu", "int8", calibration=str(tmp_path / "none"))
    with pytest.raises(TypeError, match="calibration"):
        fovea.load(model, "cpu", "int8", calibration=3)


def test_precisions_are_those_of_the_library(model):
    """The annotation names them once more, for type checkers."""
    with pytest.raises(fovea.Error) as refused:
        fovea.load(model, "cpu", "none")
    names = str(refused.value).removeprefix("unknown precision 'none'; use ")
    assert names.replace(" or ", ", ").split(", ") == list(get_args(Precision))


def test_other_numbers_are_told(model, encoder):
    """ctypes would truncate them: 2**32 + 3 threads to 3."""
    for threads in (-1, -(1 << 32) + 2):
        with pytest.raises(ValueError, match=rf"threads must be 0 \(one per CPU\) or more, not {threads}"):
            fovea.load(model, threads=threads)
    with pytest.raises(ValueError, match="threads must be at most 2147483647, not 4294967299"):
        fovea.load(model, threads=(1 << 32) + 3)
    with pytest.raises(TypeError, match="threads must be an integer, not float"):
        fovea.load(model, threads=2.5)
    with pytest.raises(ValueError, match=r"decode_threads must be 0 \(one per CPU\) or more"):
        fovea.load(model, decode_threads=-1)
    for call in (encoder.embed, encoder.stream):
        with pytest.raises(TypeError, match="batch_size must be an integer, not str"):
            call([PIXELS], batch_size="8")
        with pytest.raises(ValueError, match="batch_size must be 1 or more, not 0"):
            call([PIXELS], batch_size=0)
        with pytest.raises(ValueError, match="batch_size must be at most 2147483647"):
            call([PIXELS], batch_size=(1 << 32) + 1)
        with pytest.raises(ValueError, match="on_error must be"):
            call([PIXELS], on_error="ignore")


def test_other_types_are_told(model):
    with pytest.raises(TypeError, match="model must be a string or a path, not int"):
        fovea.load(5)
    with pytest.raises(TypeError, match="device must be a string or a torch.device, not int"):
        fovea.load(model, device=0)
    with pytest.raises(TypeError, match="precision must be a string or a torch.dtype, not type"):
        fovea.load(model, precision=float)
    with pytest.raises(ValueError, match="model must not contain a NUL character"):
        fovea.load("mod\0el")


def test_devices_and_types_of_torch(model):
    torch = pytest.importorskip("torch")
    with fovea.load(model, device=torch.device("cpu"), precision=torch.float32) as encoder:
        assert (encoder.device[:3], encoder.precision) == ("cpu", "fp32")
    with pytest.raises(fovea.Error, match="driver|GPU"):
        fovea.load(model, device=torch.device("cuda", 99), precision=torch.bfloat16)
    with pytest.raises(ValueError, match='not supported; use torch.float32, torch.bfloat16, "int8", .* or "auto"$'):
        fovea.load(model, precision=torch.float16)


def test_decode_threads_and_memory(model, device, photos):
    with fovea.load(model, device=device, decode_threads=np.int32(1), decode_memory=100_000) as encoder:
        failures = []
        encoder.embed(photos, on_error=failures.append)
        assert failures
        assert "decode_memory" in failures[0].reason and "--" not in failures[0].reason
    with fovea.load(model, device=device, max_pixels=10) as encoder:
        failures = []
        encoder.embed(photos, on_error=failures.append)
        assert len(failures) == len(photos)
        assert "more than the limit of 10; max_pixels raises it" in failures[0].reason
        with pytest.raises(fovea.ImageError, match="max_pixels raises it"):
            encoder.features(photos[:1])
    with pytest.raises(ValueError, match="max_pixels must be 0"):
        fovea.load(model, max_pixels=-1)
    with fovea.load(model, device=device, decode_threads=1) as encoder:
        assert np.isfinite(encoder.embed(photos)).all()


def test_open_files(encoder, photos, tmp_path):
    want = encoder.embed(photos[:1])
    memory = io.BytesIO()
    memory.write(photos[0].read_bytes())  # its position is at its end
    with photos[0].open("rb") as file, photos[0].open("rb") as closed:
        closed.close()
        failures = []
        rows = encoder.embed([file, memory, closed], on_error=failures.append)
    np.testing.assert_array_equal(rows[:2], np.repeat(want, 2, 0))
    assert [(failure.index, failure.source) for failure in failures] == [(2, str(photos[0]))]
    assert "closed file" in failures[0].reason
    (tmp_path / "text").write_text("text")
    with (tmp_path / "text").open() as text:
        with pytest.raises(TypeError, match="image 0: read.. of this TextIOWrapper returned str, not bytes"):
            encoder.embed([text])
        with pytest.raises(TypeError, match="pass a list of images, not one TextIOWrapper"):
            encoder.embed(text)


def test_pickling_says_what_to_do(encoder, model):
    with pytest.raises(TypeError, match=f"load it in the process that uses it, with fovea.load.'{model}'"):
        pickle.dumps(encoder)
