"""Inputs that hang, explode or end early: each is a failed input, and the photos beside it are embedded."""

import bz2
import gzip
import io
import json
import lzma
import os
import pathlib
import resource
import signal
import struct
import subprocess
import tarfile
import time
import zlib

import numpy as np
import PIL.Image
import pytest
from PIL import Image
from pipeline_support import jpeg, read_lines, read_output, write_photos

PIXELS = (64, 64, 3)  # of the tiny model
SIGNAL_SECONDS = 2  # within which every job ends; ours take a tenth


def lines(*names):
    return "".join(f"{os.fspath(name)}\n" for name in names)


def run_within(embed, *inputs, out, seconds=60, **options):
    """As embed(), but a job that hangs fails the test soon."""
    return embed(*inputs, out=out, timeout=seconds, **options)


def start(embed, *inputs, out, flags=(), **popen):
    return subprocess.Popen(
        [embed.fovea_bin, *embed.arguments(*inputs, out=out, flags=flags)],
        stderr=subprocess.PIPE,
        text=True,
        **popen,
    )


def wait_until_opened(process, path):
    """Until the job reads this input, so that it hears signals."""
    folder = pathlib.Path(f"/proc/{process.pid}/fd")
    while not any(os.path.realpath(fd) == os.path.realpath(path) for fd in folder.iterdir()):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


def end_by_signal(process, which=signal.SIGTERM):
    """Seconds that the process takes to end after the signal."""
    sent = time.monotonic()
    process.send_signal(which)
    try:
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    return time.monotonic() - sent


@pytest.mark.parametrize("listed", [False, True], ids=["named", "listed"])
@pytest.mark.parametrize("name", ["x.npy", "x.jsonl", "x.tar", "x.jpg"])
def test_a_pipe_without_a_writer_is_a_failed_input(embed, photos, tmp_path, name, listed):
    pipe = tmp_path / name
    os.mkfifo(pipe)
    out = tmp_path / "out"
    if listed:
        (tmp_path / "list").write_text(lines(pipe, photos))
        inputs = [f"@{tmp_path / 'list'}"]
    else:
        inputs = [pipe, photos]
    run_within(embed, *inputs, out=out, code=3)
    sources, _, _, errors = read_output(out)
    assert len(sources) == 40
    assert list(errors) == [os.fspath(pipe)]
    assert errors[os.fspath(pipe)].endswith("not a regular file")


def test_a_pipe_as_the_index_of_pixels_is_a_failed_input(embed, photos, tmp_path):
    pixels = tmp_path / "p.npy"
    np.save(pixels, np.zeros((2, *PIXELS), np.uint8))
    os.mkfifo(tmp_path / "p.index.jsonl")
    run_within(embed, f"@{write_list(tmp_path, pixels, photos)}", out=tmp_path / "out", code=3)
    sources, _, _, errors = read_output(tmp_path / "out")
    assert len(sources) == 40
    assert "p.index.jsonl: not a regular file" in errors[os.fspath(pixels)]


def write_list(folder, *names):
    path = folder / "list.txt"
    path.write_text(lines(*names))
    return path


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_job_that_waits_for_the_writer_of_its_list(embed, tmp_path, which):
    os.mkfifo(tmp_path / "pipe")
    process = start(embed, f"@{tmp_path / 'pipe'}", out=tmp_path / "out")
    wait_until_opened(process, tmp_path / "pipe")
    time.sleep(0.2)
    assert end_by_signal(process, which) < SIGNAL_SECONDS


def test_a_list_in_a_pipe_is_read_as_it_comes(embed, photos, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    process = start(embed, f"@{tmp_path / 'pipe'}", out=tmp_path / "out")
    with open(tmp_path / "pipe", "w") as pipe:
        for photo in sorted(photos.iterdir()):
            pipe.write(lines(photo))
            pipe.flush()
    assert process.wait(timeout=30) == 0, process.stderr.read()
    process.stderr.close()
    assert len(read_output(tmp_path / "out")[0]) == 40


def index_line(row):
    return f'{{"row": {row}, "source": "{row}.jpg", "width": 9, "height": 9}}\n'


BROKEN_INDEXES = {
    "short": (index_line(0), 1, "ends after 1 lines, but the array has 3 rows"),
    "long": ("".join(map(index_line, range(4))), 3, "has more lines than the 3 rows"),
    "misnumbered": (index_line(0) + index_line(2), 1, "line 2: the row number is 2, expected 1"),
    "no JSON": (index_line(0) + "no JSON\n", 1, "line 2: not a JSON object"),
    "endless line": (index_line(0) + "x" * (2 << 20), 1, "line 2 is too long (more than 1048576 bytes)"),
}


@pytest.mark.parametrize("kind", BROKEN_INDEXES)
def test_a_broken_index_of_pixels_ends_its_file_alone(embed, photos, tmp_path, kind):
    text, rows, reason = BROKEN_INDEXES[kind]
    pixels = tmp_path / "p.npy"
    np.save(pixels, np.zeros((3, *PIXELS), np.uint8))
    (tmp_path / "p.index.jsonl").write_text(text)
    out = tmp_path / "out"
    run_within(embed, f"@{write_list(tmp_path, pixels, photos)}", out=out, code=3)
    sources, _, _, errors = read_output(out)
    assert sources[:rows] == [f"{row}.jpg" for row in range(rows)]
    assert len(sources) == rows + 40
    assert list(errors) == [os.fspath(pixels)]
    assert reason in errors[os.fspath(pixels)]


def test_a_jsonl_with_an_endless_line_ends_alone(embed, photos, tmp_path):
    jsonl = tmp_path / "x.jsonl"
    first = sorted(photos.iterdir())[0]
    jsonl.write_text(f'{{"path": "{first}"}}\n' + "x" * (2 << 20) + f'\n{{"path": "{first}"}}\n')
    run_within(embed, f"@{write_list(tmp_path, jsonl, photos)}", out=tmp_path / "out", code=3)
    sources, _, _, errors = read_output(tmp_path / "out")
    assert len(sources) == 41
    assert errors == {os.fspath(jsonl): "line 2 is too long (more than 1048576 bytes)"}


def test_links_in_archives_are_failed_inputs(embed, tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT) as archive:

        def add(name, kind=tarfile.REGTYPE, target="", content=b""):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, len(content)
            archive.addfile(member, io.BytesIO(content))

        add("a.jpg", content=jpeg(1))
        add("b.jpg", tarfile.LNKTYPE, "a.jpg")
        add("c.jpg", tarfile.SYMTYPE, "/etc/passwd")
        add("d.txt", tarfile.LNKTYPE, "a.jpg")  # not asked for
        add("e.jpg", tarfile.FIFOTYPE)
        add("f.jpg", tarfile.DIRTYPE)  # a folder is not left out: its members come
        add("g.jpg", content=jpeg(2))
    archive = os.fspath(tmp_path / "a.tar")
    run_within(embed, archive, out=tmp_path / "out", code=3)
    sources, _, _, errors = read_output(tmp_path / "out")
    assert sources == [f"{archive}#a.jpg", f"{archive}#g.jpg"]
    assert list(errors) == [f"{archive}#{name}.jpg" for name in "bce"]
    assert 'is a hard link to "a.jpg"' in errors[f"{archive}#b.jpg"]
    assert 'is a symbolic link to "/etc/passwd"' in errors[f"{archive}#c.jpg"]


def test_folders_that_link_to_each_other_come_once_by_links(embed, tmp_path):
    names = [f"f{i}" for i in range(8)]
    for i, name in enumerate(names):
        write_photos(tmp_path / "p" / name, 1, first=i)
        for other in names:
            if other != name:
                (tmp_path / "p" / name / other).symlink_to(f"../{other}")
    result = run_within(embed, tmp_path / "p", out=tmp_path / "out")
    sources, _, _, errors = read_output(tmp_path / "out")
    assert sources == [os.fspath(tmp_path / "p" / name / f"{i:05}.jpg") for i, name in enumerate(names)]
    assert not errors and "56 files left out (56 linked folders)" in result.stderr


def test_a_folder_is_read_once_whatever_leads_to_it(embed, tmp_path):
    """By its name without links; where it has none among the inputs, by the first link."""
    inside, outside = tmp_path / "p", tmp_path / "outside"
    write_photos(inside / "z", 2)
    write_photos(inside / ".hidden/x", 1, first=4)
    write_photos(outside / "deep", 2, first=10)
    for name, target in (
        ("a", "z"),
        ("zz", "z"),
        ("b", outside),
        ("c", outside),
        ("d", outside / "deep"),
        ("h", ".hidden/x"),
    ):
        (inside / name).symlink_to(target)
    result = run_within(embed, "p", out=tmp_path / "out", cwd=tmp_path)
    sources, _, _, errors = read_output(tmp_path / "out")
    assert sources == ["p/b/deep/00010.jpg", "p/b/deep/00011.jpg", "p/h/00004.jpg", "p/z/00000.jpg", "p/z/00001.jpg"]
    assert not errors
    assert "p/a/, p/c/, p/d/ and 1 more lead to folders that are read by other names" in result.stderr
    assert json.loads((tmp_path / "out/manifest.json").read_text())["left_out"] == {"hidden": 1, "linked folders": 4}


def write_tar_of_zeros(path, gibibytes, filler=0, after=b""):
    """A .tar.gz of a member of zeros that nobody wants, made of one packed piece again and again."""
    piece_bytes = 64 << 20
    piece = gzip.compress(bytes(piece_bytes), 9)
    member = tarfile.TarInfo("zeros.bin")
    member.size = gibibytes << 30
    noise = tarfile.TarInfo("noise.bin")
    noise.size = filler
    with open(path, "wb") as file:
        if filler:  # does not pack, so that the archive may hold more
            file.write(gzip.compress(noise.tobuf(tarfile.GNU_FORMAT), 1))
            file.write(gzip.compress(os.urandom(filler), 1))
        file.write(gzip.compress(member.tobuf(tarfile.GNU_FORMAT)))
        for _ in range((gibibytes << 30) // piece_bytes):
            file.write(piece)
        file.write(gzip.compress(after))
    return path


def test_an_archive_that_unpacks_to_a_thousand_times_its_size_is_refused(embed, photos, tmp_path):
    bomb = write_tar_of_zeros(tmp_path / "bomb.tar.gz", gibibytes=64)
    out = tmp_path / "out"
    run_within(embed, bomb, photos, out=out, code=3)
    sources, _, _, errors = read_output(out)
    assert len(sources) == 40
    assert 'up to "zeros.bin"' in errors[os.fspath(bomb)]


def test_an_ordinary_archive_with_a_large_member_is_read_to_its_end(embed, tmp_path):
    photo = tarfile.TarInfo("a.jpg")
    photo.size = len(jpeg(1))
    after = photo.tobuf(tarfile.GNU_FORMAT) + jpeg(1).ljust(-(-photo.size // 512) * 512, b"\0")
    archive = write_tar_of_zeros(tmp_path / "a.tar.gz", gibibytes=1, filler=1 << 20, after=after + bytes(1024))
    run_within(embed, archive, out=tmp_path / "out", code=0)
    assert read_output(tmp_path / "out")[0] == [f"{archive}#a.jpg"]


def test_a_signal_is_heard_while_a_large_member_is_passed_over(embed, tmp_path):
    archive = write_tar_of_zeros(tmp_path / "a.tar.gz", gibibytes=8, filler=96 << 20)
    process = start(embed, archive, out=tmp_path / "out")
    wait_until_opened(process, archive)
    time.sleep(0.5)
    assert process.poll() is None, "the member was too small to be interrupted in"
    assert end_by_signal(process) < SIGNAL_SECONDS


def test_a_signal_is_heard_while_a_large_batch_is_computed(embed, tmp_path):
    # Some 20 seconds of computing, in one batch.
    flags = ["--synthetic", "60000", "--batch-size", "60000", "--threads", "1"]
    process = start(embed, out=tmp_path / "out", flags=flags)
    while not (tmp_path / "out/manifest.json").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    time.sleep(2)
    assert process.poll() is None, "the batch was too small to be interrupted in"
    assert end_by_signal(process) < SIGNAL_SECONDS


def test_want_of_descriptors_ends_the_job_and_blames_no_photo(embed, tmp_path):
    many = write_photos(tmp_path / "many", 300)
    out = tmp_path / "out"
    flags = ["--decode-threads", "8", "--batch-size", "4"]
    lacked = 0
    for limit in range(7, 13):  # from too few for the output's files to enough for the photos

        def few_descriptors(limit=limit):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

        result = embed(many, out=out, flags=[*flags, "--overwrite"], code=None, preexec_fn=few_descriptors)
        assert result.returncode in (0, 1), result.stderr
        lacked += "Too many open files" in result.stderr
    assert lacked > 0
    embed(many, out=out, flags=flags)
    assert len(read_output(out)[0]) == 300


def test_decode_threads_that_find_no_room_are_done_without(embed, photos, tmp_path):
    def little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    # The stacks of 1024 threads are 8 GiB of address space.
    out = tmp_path / "out"
    embed(photos, out=out, flags=["--decode-threads", "1024"], env={"MALLOC_ARENA_MAX": "2"}, preexec_fn=little_memory)
    assert len(read_output(out)[0]) == 40


def png(width, height):
    """A PNG of one colour, packed without ever holding its pixels."""
    packer = zlib.compressobj(6)
    row = b"\0" + b"\x40\x80\xc0" * width
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()

    def chunk(kind, content):
        return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_an_image_that_needs_more_than_the_memory_for_decoding_fails(embed, photos, tmp_path):
    folder = tmp_path / "p"
    write_photos(folder, 3)
    (folder / "large.png").write_bytes(png(2000, 1500))
    assert Image.open(folder / "large.png").size == (2000, 1500)
    out = tmp_path / "out"
    embed(folder, out=out, flags=["--decode-memory", "8M"], code=3)
    sources, _, _, errors = read_output(out)
    assert len(sources) == 3
    assert "--decode-memory" in errors[os.fspath(folder / "large.png")]
    embed(folder, out=out, flags=["--decode-memory", "64M", "--retry-failed"])
    assert len(read_output(out)[0]) == 4


def test_a_file_larger_than_its_share_of_the_memory_for_decoding_fails(embed, tmp_path):
    folder = tmp_path / "p"
    write_photos(folder, 1)
    (folder / "large.bmp").write_bytes(b"BM" + bytes(3 << 20))
    embed(folder, out=tmp_path / "out", flags=["--decode-memory", "8M"], code=3)
    error = read_output(tmp_path / "out")[3][os.fspath(folder / "large.bmp")]
    assert "files of up to 2097152 fit into the memory for decoding" in error


def peak_until_end(process):
    """Kilobytes that it had resident at most; what wait4() tells begins with the memory of this very process."""
    peak = 0
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        peak = max(peak, int(fields.get("VmHWM", "0 kB").split()[0]))
        time.sleep(0.001)
    return peak


def test_sparse_members_take_no_more_memory_than_there_is(embed, tmp_path):
    """A few kilobytes that say they are an image of half a gigabyte of zeros, many times over."""
    archive = tmp_path / "sparse.tar"
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for i in range(8):
            member = tarfile.TarInfo(f"{i}.jpg")
            member.type = tarfile.GNUTYPE_SPARSE
            header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
            header[386:398] = b"%011o\0" % (512 << 20)  # sparse map: one empty piece at the end
            header[398:410] = b"%011o\0" % 0
            header[483:495] = b"%011o\0" % (512 << 20)  # real size
            header[148:156] = b" " * 8
            header[148:156] = b"%06o\0 " % sum(header[:512])
            tar.fileobj.write(header)
            tar.offset += 512
    out = tmp_path / "out"
    process = start(embed, archive, out=out, flags=["--decode-threads", "8"])
    peak = peak_until_end(process)
    process.stderr.close()
    assert process.returncode == 3
    errors = read_lines(out / "errors.jsonl")
    assert len(errors) == 8
    assert all("fit into the memory for decoding" in line["error"] for line in errors)
    assert 0 < peak < 1_000_000


@pytest.mark.parametrize("count", [12, pytest.param(24, marks=pytest.mark.nightly)])
def test_workers_do_not_keep_the_memory_of_large_files(embed, tmp_path, count):
    """Each of eight workers reads some of them, one at a time."""
    width, height = 5000, 4000
    with open(tmp_path / "large.bmp", "wb") as file:
        header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
        file.write(struct.pack("<2sIHHI", b"BM", 54 + 3 * width * height, 0, 0, 54) + header)
        file.truncate(54 + 3 * width * height)
    names = [tmp_path / f"{i}.bmp" for i in range(count)]
    for name in names:
        os.link(tmp_path / "large.bmp", name)
    flags = ["--decode-threads", "8", "--decode-memory", "256M"]
    process = start(embed, *names, out=tmp_path / "out", flags=flags)
    peak = peak_until_end(process)
    process.stderr.close()
    assert process.returncode == 0
    # A file of 60 MB, and what 192 MiB hold of decoded images, beside the program.
    assert 0 < peak < 400_000


def zstd(content):
    return subprocess.run(["zstd", "-q", "-c"], input=content, capture_output=True, check=True).stdout


PACKERS = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": zstd}


def tar_of(count):
    """A tar of small photos, and where each member ends in it."""
    buffer, ends = io.BytesIO(), []
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for seed in range(count):
            content = jpeg(seed, 16, 16)
            member = tarfile.TarInfo(f"{seed:03}.jpg")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
            ends.append(tar.offset)
    return buffer.getvalue(), ends


@pytest.mark.parametrize("ending", PACKERS)
def test_a_compressed_tar_that_is_cut_keeps_every_whole_member(embed, tmp_path, ending):
    content, _ = tar_of(200)
    archive = tmp_path / f"cut.tar.{ending}"
    archive.write_bytes(PACKERS[ending](content)[:-4])
    run_within(embed, archive, out=tmp_path / "out", code=3)
    sources, _, _, errors = read_output(tmp_path / "out")
    assert len(sources) == 200
    assert list(errors) == [os.fspath(archive)] and "is cut short" in errors[os.fspath(archive)]


@pytest.mark.parametrize("ending", ["gz", "xz"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.93])
def test_a_compressed_tar_keeps_what_comes_before_the_cut(embed, tmp_path, ending, share):
    content, ends = tar_of(150)
    packed = PACKERS[ending](content)
    packed = packed[: int(len(packed) * share)]
    archive = tmp_path / f"cut.tar.{ending}"
    archive.write_bytes(packed)
    # The other implementation of the format says what can be unpacked.
    unpacked = subprocess.run(
        [{"gz": "gzip", "xz": "xz"}[ending], "-dc", archive], capture_output=True, check=False
    ).stdout
    assert content.startswith(unpacked)
    whole = sum(end <= len(unpacked) for end in ends)
    run_within(embed, archive, out=tmp_path / "out", code=3)
    sources, _, _, errors = read_output(tmp_path / "out")
    assert len(sources) == whole > 0
    assert set(errors) <= {os.fspath(archive), f"{archive}#{whole:03}.jpg"} and os.fspath(archive) in errors


@pytest.mark.parametrize("ending", PACKERS)
def test_streams_that_follow_each_other_are_one_archive(embed, tmp_path, ending):
    content, _ = tar_of(20)
    pack = PACKERS[ending]
    pieces = [content[at : at + 4001] for at in range(0, len(content), 4001)]
    archive = tmp_path / f"x.tar.{ending}"
    archive.write_bytes(b"".join(pack(piece) for piece in pieces) + bytes(4096))
    run_within(embed, archive, out=tmp_path / "out")
    assert len(read_output(tmp_path / "out")[0]) == 20
    archive.write_bytes(pack(pack(content)))
    run_within(embed, archive, out=tmp_path / "twice", code=3)
    assert "compressed more than once" in read_output(tmp_path / "twice")[3][os.fspath(archive)]


def test_damage_that_only_a_checksum_shows(embed, tmp_path):
    content, _ = tar_of(5)
    packed = bytearray(gzip.compress(content, 0))  # stored
    packed[packed.index(b"\xff\xd9\0")] ^= 1
    archive = tmp_path / "x.tar.gz"
    archive.write_bytes(packed)
    run_within(embed, archive, out=tmp_path / "out", code=3)
    assert "incorrect data check" in read_output(tmp_path / "out")[3][os.fspath(archive)]


def test_lists_as_windows_writes_them(embed, photos, tmp_path):
    names = [os.fspath(photos / f"{i:05}.jpg") for i in range(3)]
    text = "".join(name + "\r\n" for name in names)
    jsonl = "".join(json.dumps({"path": name}) + "\r\n" for name in names)
    lists = {"plain.txt": text.encode(), "bom.txt": text.encode("utf-8-sig"), "json.jsonl": jsonl.encode("utf-8-sig")}
    for name, content in lists.items():
        (tmp_path / name).write_bytes(content)
        inputs = str(tmp_path / name) if name.endswith("jsonl") else f"@{tmp_path / name}"
        run_within(embed, inputs, out=tmp_path / f"out {name}"[:-4])
        assert read_output(tmp_path / f"out {name}"[:-4])[0] == names
    run_within(embed, "-", out=tmp_path / "out", input=text.encode("utf-8-sig").decode())
    assert read_output(tmp_path / "out")[0] == names
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        (tmp_path / "wide.txt").write_bytes(text.encode(encoding))
        for _ in range(2):  # also where an output is there already
            run_within(embed, f"@{tmp_path / 'wide.txt'}", out=tmp_path / encoding, code=3)
        sources, _, _, errors = read_output(tmp_path / encoding)
        name = encoding[:6].upper()
        assert sources == [] and list(errors) == [os.fspath(tmp_path / "wide.txt")]
        assert f"is in {name}; expected UTF-8" in errors[os.fspath(tmp_path / "wide.txt")]


@pytest.mark.parametrize(
    "ending", ["mpo", "insp", "apng", "jps", "jfi", "jif", "pjpeg", "jpe", "jfif", "pjp", "pns", "dib"]
)
def test_other_endings_of_the_same_formats(embed, tmp_path, ending):
    kind = {"apng": "PNG", "pns": "PNG", "dib": "BMP", "mpo": "MPO"}.get(ending, "JPEG")
    (tmp_path / "p").mkdir()
    PIL.Image.new("RGB", (20, 20), (200, 0, 0)).save(tmp_path / f"p/x.{ending.upper()}", kind)
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.add(tmp_path / f"p/x.{ending.upper()}", f"a/y.{ending}")
    run_within(embed, "p", "x.tar", out=tmp_path / "out", cwd=tmp_path)
    assert read_output(tmp_path / "out")[0] == [f"p/x.{ending.upper()}", f"x.tar#a/y.{ending}"]
