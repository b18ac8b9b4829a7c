"""`fovea embed` and `fovea preprocess` end to end: right rows, right names, right errors."""

import ctypes
import gzip
import io
import json
import os
import socket
import struct
import tarfile

import numpy as np
from PIL import Image
from pipeline_support import contents, jpeg, name_of, read_lines, read_output, write_photos


def same_direction(a, b):
    """Cosines of rows, which have length 1."""
    return np.sum(a.astype(np.float64) * b, axis=-1).min() > 1 - 1e-6


def test_every_photo_has_its_own_row(embed, photos, tmp_path):
    embed(photos, out=tmp_path / "out", flags=["--batch-size", "7"])
    sources, sizes, rows, errors = read_output(tmp_path / "out")
    assert errors == {}
    assert sources == [str(photos / f"{seed:05}.jpg") for seed in range(40)]
    assert sizes == [(20 + seed % 60, 15 + seed % 45) for seed in range(40)]
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    # Each row is the embedding that its photo gets alone, and nobody else's.
    alone = []
    for seed in range(0, 40, 3):
        embed(photos / f"{seed:05}.jpg", out=tmp_path / f"{seed}.npy")
        alone.append(np.load(tmp_path / f"{seed}.npy")[0])
    cosines = np.array(alone) @ rows.T
    assert (cosines.argmax(axis=1) == np.arange(0, 40, 3)).all()
    assert same_direction(np.array(alone), rows[::3])


BAD = {
    "empty.jpg": b"",
    "truncated.jpg": jpeg(1, 300, 300)[:700],
    "zeros.jpg": bytes(5000),
    "text.png": b"this is text, not a PNG\n" * 10,
    # A PNG header that claims 10^5 x 10^5 pixels.
    "bomb.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 100000, 100000)
    + b"\x08\x02\0\0\0" + b"\0\0\0\0" + b"\0\0\0\x10IDAT" + bytes(20),
    # A JPEG whose first segment claims more bytes than there are.
    "lying.jpg": b"\xff\xd8\xff\xe0\xff\xff" + jpeg(2)[20:200],
    # A BMP that claims more rows than it has.
    "lying.bmp": b"BM" + struct.pack("<IHHIIiiHHIIiiII", 10**6, 0, 0, 54, 40, 500, 500, 1, 24, 0,
                                      0, 0, 0, 0, 0) + bytes(100),
}  # fmt: skip


def test_bad_images_are_listed_once_and_lose_nothing(embed, tmp_path):
    folder = write_photos(tmp_path / "in", 12)
    for name, data in BAD.items():
        (folder / name).write_bytes(data)
    # Contents decide, not names.
    png = io.BytesIO()
    Image.new("RGB", (9, 8), (10, 200, 30)).save(png, "PNG")
    (folder / "really-a-png.jpg").write_bytes(png.getvalue())
    (folder / "x.jpg").mkdir()
    (folder / "x.jpg" / "inside.jpg").write_bytes(jpeg(77))
    os.mkfifo(folder / "pipe.jpg")
    (folder / "dangling.jpg").symlink_to("nowhere.jpg")
    (folder / "memory.jpg").symlink_to("/proc/self/mem")
    (folder / "loop.jpg").symlink_to("loop.jpg")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(os.path.relpath(folder / "socket.jpg"))
        result = embed(folder, out=tmp_path / "out", code=3, flags=["--batch-size", "5"])
    sources, _, rows, errors = read_output(tmp_path / "out")
    bad = [*BAD, "pipe.jpg", "dangling.jpg", "memory.jpg", "loop.jpg", "socket.jpg"]
    assert set(errors) == {str(folder / name) for name in bad}
    assert all(errors.values())
    assert "errors.jsonl" in result.stderr
    good = [f"{seed:05}.jpg" for seed in range(12)] + ["really-a-png.jpg", "x.jpg/inside.jpg"]
    assert sources == [str(folder / name) for name in good]
    embed(*(folder / name for name in good), out=tmp_path / "good")
    assert same_direction(read_output(tmp_path / "good")[2], rows)


def without_root_rights():
    """Runs in the child: root stays the owner of its files but no longer reads what it may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    drop_from_bounding_set, override_permissions, read_everything = 24, 1, 2  # linux/prctl.h, capability.h
    for capability in (override_permissions, read_everything):
        if libc.prctl(drop_from_bounding_set, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def test_unreadable_file(embed, photos, tmp_path):
    folder = write_photos(tmp_path / "in", 2)
    (folder / "00000.jpg").chmod(0)
    as_user = {"preexec_fn": without_root_rights} if os.geteuid() == 0 else {}
    embed(folder, out=tmp_path / "out", code=3, **as_user)
    assert list(read_output(tmp_path / "out")[3]) == [str(folder / "00000.jpg")]


def test_one_percent_corrupt(embed, tmp_path):
    folder = write_photos(tmp_path / "in", 300)
    for seed in (17, 123, 299):
        file = folder / f"{seed:05}.jpg"
        file.write_bytes(file.read_bytes()[:40])
    embed(folder, out=tmp_path / "out", code=3)
    sources, _, rows, errors = read_output(tmp_path / "out")
    assert list(errors) == [str(folder / f"{seed:05}.jpg") for seed in (17, 123, 299)]
    assert len(sources) == 297
    embed(*sources, out=tmp_path / "again")
    assert same_direction(read_output(tmp_path / "again")[2], rows)


ODD_NAMES = [b"new\nline.jpg", b"caf\xe9.jpg", "café.jpg".encode(), b"back\\slash.jpg",
             b"\\x41.jpg", b"quote\"'.jpg", b"{1,2}.jpg", b" .jpg", b"\xf0\x9f\x98.jpg"]  # fmt: skip


def test_names_are_bytes(embed, tmp_path):
    folder = os.fsencode(tmp_path / "in")
    os.mkdir(folder)
    for seed, name in enumerate(ODD_NAMES):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(jpeg(seed))
    embed(folder, out=tmp_path / "out")
    sources, sizes, _, _ = read_output(tmp_path / "out")
    assert [name_of(source) for source in sources] == sorted(os.path.join(folder, name) for name in ODD_NAMES)
    # Each name still goes with its image.
    for source, size in zip(sources, sizes, strict=True):
        seed = ODD_NAMES.index(os.path.basename(name_of(source)))
        assert size == (20 + seed, 15 + seed)
    # The index is an input too, and NUL-separated lists carry any name.
    embed(tmp_path / "out/index-00000.jsonl", out=tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "out")
    listed = tmp_path / "list"
    listed.write_bytes(b"\0".join(sorted(os.path.join(folder, name) for name in ODD_NAMES)))
    embed(f"@{listed}", out=tmp_path / "listed", flags=["-0"])
    assert contents(tmp_path / "listed") == contents(tmp_path / "out")


def test_lists_from_stdin(embed, photos, tmp_path):
    names = [str(photos / f"{seed:05}.jpg") for seed in (5, 3, 9)]
    embed("-", out=tmp_path / "out", input="\n".join(names))
    assert read_output(tmp_path / "out")[0] == names
    (tmp_path / "list.txt").write_text("\r\n".join([*names, "missing.jpg"]))
    embed(f"@{tmp_path / 'list.txt'}", out=tmp_path / "out2", code=3)
    sources, _, _, errors = read_output(tmp_path / "out2")
    assert sources == names and list(errors) == ["missing.jpg"]


def add(tar, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def test_archives(embed, tmp_path):
    for shard in range(3):
        with tarfile.open(tmp_path / f"x-{shard:02}.tar", "w", format=tarfile.PAX_FORMAT) as tar:
            for key in range(4):
                add(tar, f"{shard}/{key:04}.json", b"{}")
                add(tar, f"{shard}/{key:04}.jpg", jpeg(shard * 4 + key))
            add(tar, f"{shard}/caf\udce9-{'long' * 40}.jpg", jpeg(100 + shard))
    (tmp_path / "z.tar.gz").write_bytes(gzip.compress((tmp_path / "x-00.tar").read_bytes()))
    embed(tmp_path / "x-{00..02}.tar", tmp_path / "z.tar.gz", out=tmp_path / "out")
    sources, sizes, rows, _ = read_output(tmp_path / "out")
    assert len(sources) == 20
    assert sources[5] == f"{tmp_path}/x-01.tar#1/0000.jpg"
    assert sources[4] == f"{tmp_path}/x-00.tar#0/caf\\xe9-{'long' * 40}.jpg"
    assert sizes[5] == (24, 19)
    assert same_direction(rows[:5], rows[15:])
    embed(tmp_path / "x-00.tar", out=tmp_path / "png.npy", code=1, flags=["--image-key", "png"])


def test_truncated_archive_keeps_its_whole_members(embed, tmp_path):
    with tarfile.open(tmp_path / "whole.tar", "w") as tar:
        for key in range(6):
            add(tar, f"{key}.jpg", jpeg(key, 200, 200))
    with tarfile.open(tmp_path / "whole.tar") as tar:
        offset = tar.getmembers()[3].offset_data
    cut = tmp_path / "cut.tar"
    cut.write_bytes((tmp_path / "whole.tar").read_bytes()[: offset + 900])
    embed(cut, write_photos(tmp_path / "after", 2), out=tmp_path / "out", code=3)
    sources, _, rows, errors = read_output(tmp_path / "out")
    assert sources == [f"{cut}#{key}.jpg" for key in range(3)] + [
        f"{tmp_path}/after/0000{seed}.jpg" for seed in range(2)
    ]
    assert list(errors) == [f"{cut}#3.jpg", str(cut)]
    assert "3.jpg" in errors[str(cut)]
    embed(tmp_path / "whole.tar", out=tmp_path / "whole")
    assert same_direction(read_output(tmp_path / "whole")[2][:3], rows[:3])


def test_shards_of_the_inputs_part_them(embed, photos, tmp_path):
    for shard in range(3):
        embed(photos, out=tmp_path / str(shard), flags=["--shard", f"{shard}/3"])
    parts = [read_output(tmp_path / str(shard))[0] for shard in range(3)]
    whole = [str(photos / f"{seed:05}.jpg") for seed in range(40)]
    assert parts == [whole[0::3], whole[1::3], whole[2::3]]


def test_small_files_of_embeddings(embed, photos, tmp_path):
    embed(photos, out=tmp_path / "one")
    embed(photos, out=tmp_path / "many", flags=["--shard-rows", "15"])
    assert [len(np.load(f)) for f in sorted((tmp_path / "many").glob("*.npy"))] == [15, 15, 10]
    one, many = read_output(tmp_path / "one"), read_output(tmp_path / "many")
    assert one[0] == many[0] and (one[2] == many[2]).all()


def test_dtype_format_and_lengths(embed, photos, tmp_path):
    embed(photos, out=tmp_path / "f32")
    rows = read_output(tmp_path / "f32")[2]
    embed(photos, out=tmp_path / "f16", flags=["--dtype", "f16"])
    half = read_output(tmp_path / "f16")[2]
    assert half.dtype == np.float16 and (half == rows.astype(np.float16)).all()
    embed(photos, out=tmp_path / "raw", flags=["--no-normalize"])
    raw = read_output(tmp_path / "raw")[2]
    lengths = np.linalg.norm(raw.astype(np.float64), axis=1, keepdims=True)
    assert abs(lengths - 1).min() > 1e-3
    np.testing.assert_allclose(raw / lengths, rows, atol=1e-7)
    embed(photos, out=tmp_path / "json", flags=["--format", "jsonl"])
    lines = read_lines(tmp_path / "json/embeddings-00000.jsonl")
    assert (np.array([line.pop("embedding") for line in lines], np.float32) == rows).all()
    assert lines == read_lines(tmp_path / "f32/index-00000.jsonl")
    assert not list((tmp_path / "json").glob("index-*"))
    embed(photos, out=tmp_path / "one.npy")
    assert (np.load(tmp_path / "one.npy") == rows).all()
    assert read_lines(tmp_path / "one.index.jsonl") == lines


def test_index_lines_are_exact(embed, photos, tmp_path):
    embed(photos / "00003.jpg", out=tmp_path / "out")
    source = json.dumps(str(photos / "00003.jpg"))
    file = (photos / "00003.jpg").stat()
    assert (tmp_path / "out/index-00000.jsonl").read_text() == (
        f'{{"row": 0, "source": {source}, "width": 23, "height": 18, '
        f'"bytes": {file.st_size}, "modified_ns": {file.st_mtime_ns}}}\n'
    )


def test_pixels_make_the_same_embeddings(embed, run_fovea, model, photos, tmp_path):
    pixels = tmp_path / "pixels.npy"
    result = run_fovea("preprocess", photos, "-m", model, "-o", pixels)
    assert result.stdout == ""
    array = np.load(pixels)
    assert array.dtype == np.uint8
    size = json.loads((model / "preprocessor_config.json").read_text())["size"]
    assert array.shape == (40, size["height"], size["width"], 3)
    with Image.open(photos / "00007.jpg") as image:
        expected = np.asarray(image.resize((size["width"], size["height"]), Image.BILINEAR))
    assert (array[7] == expected).all()
    embed(photos, out=tmp_path / "photos")
    embed(pixels, out=tmp_path / "pixels")
    assert contents(tmp_path / "pixels") == contents(tmp_path / "photos")
    (tmp_path / "pixels.index.jsonl").unlink()
    embed(pixels, out=tmp_path / "bare")
    assert read_output(tmp_path / "bare")[0][7] == f"{pixels}#7"
    assert (read_output(tmp_path / "bare")[2] == read_output(tmp_path / "photos")[2]).all()


def test_preprocess_lists_what_failed(run_fovea, model, tmp_path):
    folder = write_photos(tmp_path / "in", 3)
    (folder / "00001.jpg").write_bytes(b"no")
    pixels = tmp_path / "p.npy"
    result = run_fovea("preprocess", folder, "-m", model, "-o", pixels, code=3)
    assert "00001.jpg" in result.stderr
    assert len(np.load(pixels)) == 2
    assert [line["source"][-9:] for line in read_lines(tmp_path / "p.index.jsonl")] == [
        "00000.jpg",
        "00002.jpg",
    ]
    assert [line["source"][-9:] for line in read_lines(tmp_path / "p.errors.jsonl")] == ["00001.jpg"]
    run_fovea("preprocess", folder, "-m", model, "-o", tmp_path / "s.npy", "--strict", code=1)
    assert not list(tmp_path.glob("s.*"))


def test_pixels_of_another_size_and_broken_arrays(embed, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 32, 32, 3), np.uint8))
    assert "[2, 32, 32, 3]" in embed(tmp_path / "a.npy", out=tmp_path / "o", code=1).stderr
    np.save(tmp_path / "b.npy", np.zeros((2, 64, 64, 3), np.float32))
    assert "f32" in embed(tmp_path / "b.npy", out=tmp_path / "o", code=1).stderr
    (tmp_path / "c.npy").write_bytes(b"\x93NUMPY\x01\0")
    embed(tmp_path / "c.npy", out=tmp_path / "o", code=1)
    assert not (tmp_path / "o").exists()


def test_strict_and_max_errors(embed, tmp_path):
    folder = write_photos(tmp_path / "in", 20)
    for seed in (6, 11, 15):
        (folder / f"{seed:05}.jpg").write_bytes(b"bad")
    flags = ["--batch-size", "4"]
    result = embed(folder, out=tmp_path / "out", flags=[*flags, "--strict"], code=1)
    assert "00006.jpg" in result.stderr
    result = embed(folder, out=tmp_path / "out", flags=[*flags, "--max-errors", "2"], code=1)
    assert "00015.jpg" in result.stderr and "more than 2" in result.stderr
    embed(folder, out=tmp_path / "out", flags=[*flags, "--max-errors", "3"], code=3)
    embed(folder, out=tmp_path / "straight", flags=flags, code=3)
    assert contents(tmp_path / "out") == contents(tmp_path / "straight")


def test_retry_failed(embed, tmp_path):
    folder = write_photos(tmp_path / "in", 10)
    for seed in (2, 5, 7, 8):
        (folder / f"{seed:05}.jpg").write_bytes(b"bad")
    embed(folder, out=tmp_path / "out", code=3)
    before = contents(tmp_path / "out")
    (folder / "00005.jpg").write_bytes(jpeg(5))
    (folder / "00008.jpg").write_bytes(jpeg(8))
    (folder / "00007.jpg").unlink()
    embed(folder, out=tmp_path / "out", flags=["--retry-failed"], code=3)
    sources, _, rows, errors = read_output(tmp_path / "out")
    assert [source[-9:-4] for source in sources[6:]] == ["00005", "00008"]
    assert [source[-9:-4] for source in errors] == ["00002", "00007"]
    assert "no longer among the inputs" in errors[str(folder / "00007.jpg")]
    after = contents(tmp_path / "out")
    assert after["embeddings-00000.npy"] == before["embeddings-00000.npy"]
    assert not list((tmp_path / "out").glob("*.partial"))
    embed(folder / "00008.jpg", out=tmp_path / "8.npy")
    assert same_direction(np.load(tmp_path / "8.npy"), rows[7:8])
    (folder / "00002.jpg").write_bytes(jpeg(2))
    (folder / "00007.jpg").write_bytes(jpeg(7))
    embed(folder, out=tmp_path / "out", flags=["--retry-failed"])
    assert len(read_output(tmp_path / "out")[0]) == 10
    embed(folder, out=tmp_path / "out", flags=["--retry-failed"])  # nothing left to do
    assert len(read_output(tmp_path / "out")[0]) == 10


def test_done_twice_and_changed_inputs(embed, tmp_path):
    folder = write_photos(tmp_path / "in", 5)
    embed(folder, out=tmp_path / "out")
    before = contents(tmp_path / "out")
    assert "already done" in embed(folder, out=tmp_path / "out").stderr
    (folder / "new.jpg").write_bytes(jpeg(9))
    result = embed(folder, out=tmp_path / "out", code=1)
    assert "1 more" in result.stderr and "--overwrite" in result.stderr
    (folder / "00000.jpg").unlink()
    assert "have changed" in embed(folder, out=tmp_path / "out", code=1).stderr
    assert contents(tmp_path / "out") == before
    embed(folder, out=tmp_path / "out", flags=["--overwrite"])
    assert len(read_output(tmp_path / "out")[0]) == 5


def test_output_of_another_job(embed, run_fovea, model, photos, tmp_path):
    embed(photos, out=tmp_path / "out")
    before = contents(tmp_path / "out")
    other = tmp_path / "other"
    run_fovea("init", "--preset", "tiny", "--seed", "1", "-o", other)
    result = run_fovea("embed", photos, "-m", other, "-o", tmp_path / "out", code=1)
    assert str(other) in result.stderr and str(model) in result.stderr
    assert "--overwrite" in result.stderr
    for flags, named in [
        (["--dtype", "f16"], "dtype"),
        (["--no-normalize"], "normalisation"),
        (["--format", "jsonl"], "format"),
        (["--shard-rows", "3"], "rows per file"),
        (["--shard", "0/2"], "shard"),
    ]:
        assert named in embed(photos, out=tmp_path / "out", flags=flags, code=1).stderr
    assert contents(tmp_path / "out") == before
    (tmp_path / "out/manifest.json").unlink()
    assert "no manifest.json" in embed(photos, out=tmp_path / "out", code=1).stderr


def test_foreign_files_survive_overwrite(embed, photos, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/notes.txt").write_text("mine")
    (tmp_path / "out/embeddings-mine.npy").write_text("mine")
    embed(photos, out=tmp_path / "out")
    embed(photos, out=tmp_path / "out", flags=["--overwrite"])
    assert (tmp_path / "out/notes.txt").read_text() == "mine"
    assert (tmp_path / "out/embeddings-mine.npy").read_text() == "mine"


def test_usage_errors(embed, run_fovea, model, photos, tmp_path):
    out = tmp_path / "out"
    embed(out=out, code=2)
    embed(photos, out=out, flags=["--shard", "2/2"], code=2)
    embed(photos, out=out, flags=["--dtype", "f64"], code=2)
    embed(photos, out=out, flags=["--batch-size", "-1"], code=2)
    embed(photos, out=out, flags=["--overwrite", "--retry-failed"], code=2)
    run_fovea("embed", photos, "-o", out, code=2)
    assert "typo" in embed(tmp_path / "typo.jpg", out=out, code=1).stderr
    embed(photos, out=out, flags=["--synthetic", "3"], code=1)
    (tmp_path / "none").mkdir()
    assert "no images" in embed(tmp_path / "none", out=out, code=1).stderr
    embed(photos, out=out)  # none of that stands in the way


def test_progress(embed, photos, tmp_path):
    result = embed(photos, out=tmp_path / "json", flags=["--progress", "json"])
    events = [json.loads(line) for line in result.stderr.splitlines()]
    assert [event["event"] for event in events][0] == "device"
    done = events[-1]
    assert done["event"] == "done" and done["rows"] == 40 and not done["resumed"]
    assert 0 <= done["compute_share"] <= 1
    assert embed(photos, out=tmp_path / "quiet", flags=["--quiet"]).stderr == ""
    plain = embed(photos, out=tmp_path / "plain").stderr
    assert "\r" not in plain and "40 images" in plain


def peak_memory(embed, *flags, out):
    """Bytes resident at most in a run on made-up images."""
    process = os.fork()
    if process == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        arguments = embed.arguments(out=out, flags=[*flags, "--threads", "2"])
        os.execv(embed.fovea_bin, [os.fspath(a) for a in [embed.fovea_bin, *arguments]])
    _, status, usage = os.wait4(process, 0)
    assert status == 0
    return usage.ru_maxrss * 1024


def test_memory_does_not_grow_with_the_job(embed, tmp_path):
    few = peak_memory(embed, "--synthetic", "500", out=tmp_path / "few")
    many = peak_memory(embed, "--synthetic", "10000", out=tmp_path / "many")
    assert many < few + 8e6
    sources, _, rows, _ = read_output(tmp_path / "many")
    assert sources[-1] == "synthetic#9999"
    assert (rows[:500] == read_output(tmp_path / "few")[2]).all()


def test_vanished_rows_are_not_called_done(embed, photos, tmp_path):
    out = tmp_path / "out"
    embed(photos, out=out)
    (out / "embeddings-00000.npy").unlink()
    result = embed(photos, out=out, code=1)
    assert "embeddings-00000.npy" in result.stderr and "missing" in result.stderr


def test_precision_is_what_was_asked_or_refused(run_fovea, model, photos, tmp_path):
    portable = {"FOVEA_CPU_ISA": "avx2"}
    arguments = ["embed", photos / "00000.jpg", "-m", model, "-o"]
    result = run_fovea(*arguments, tmp_path / "a", "--precision", "bf16", code=1, env=portable)
    assert "bf16 needs" in result.stderr
    result = run_fovea(*arguments, tmp_path / "b", env=portable)
    assert "fp32" in result.stderr  # auto says what it chose
    assert json.loads((tmp_path / "b/manifest.json").read_text())["precision"] == "fp32"
    run_fovea(*arguments, tmp_path / "c", "--device", "tpu", code=2)
    assert not (tmp_path / "c").exists()
