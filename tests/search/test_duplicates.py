"""`fovea similar --duplicates`: groups, classes of duplicates, and lists of what may go."""

import json
import os
import pathlib
import resource
import struct
import tarfile
import zlib

import numpy as np
import pillow_heif
import pytest
from duplicates import classes, find, names, near, print0, save, write_rows
from PIL import Image
from test_similar import DIMENSION, Pictures, cosines


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Copies of every kind, in one group; and photos of other groups."""
    monkeypatch.chdir(tmp_path)
    save("p/large.png", (80, 60), 1)
    save("p/copy.png", (80, 60), 1)
    save("p/repacked.png", (80, 60), 1, compress_level=0)  # the largest file: kept
    save("p/small.png", (40, 30), 2)
    save("p/small copy.png", (40, 30), 2)
    save("q/new.png", (40, 30), 3, modified=1_600_000_000)
    save("q/old.png", (40, 30), 4, modified=1_400_000_000)
    save("q/alone.png", (40, 30), 5)
    os.utime("p/copy.png", (1_700_000_000, 1_700_000_000))
    same = near(0, 1)
    write_rows(tmp_path, [
        ("p/large.png", same, (80, 60)),
        ("p/copy.png", same, (80, 60)),
        ("p/repacked.png", same, (80, 60)),
        ("p/small.png", near(0, 0.99), (40, 30)),
        ("p/small copy.png", near(0, 0.99), (40, 30)),
        ("q/new.png", near(10, 1), (40, 30)),
        ("q/old.png", near(10, 0.995), (40, 30)),
        ("q/alone.png", near(20, 1), (40, 30)),
    ])  # fmt: skip
    for name in ("q/new.png", "q/old.png"):  # so that only their age tells them apart
        modified = os.path.getmtime(name)
        with open(name, "ab") as file:
            file.write(b"\0" * (10_000 - os.path.getsize(name)))
        os.utime(name, (modified, modified))
    for rows in (tmp_path / "out").glob("*.npy"):
        os.utime(rows)  # the photos were changed before they were embedded
    return tmp_path


def test_the_best_photo_is_kept_and_classes_are_told_apart(run_fovea, library):
    groups = find(run_fovea)
    assert names(groups)[0][0] == "p/repacked.png"
    assert names(groups)[1] == ["q/old.png", "q/new.png"]
    assert classes(groups) == {
        "p/large.png": "identical-pixels",
        "p/copy.png": "identical-files",
        "p/small.png": "similar",
        "p/small copy.png": "identical-files",
        "q/new.png": "similar",
    }
    rows = {m["source"]: m for group in groups for m in group["members"]}
    assert rows["p/copy.png"]["same_as"] == 0 and rows["p/small copy.png"]["same_as"] == 3
    assert rows["p/large.png"]["same_as"] == 2 and rows["q/new.png"]["same_as"] is None
    assert groups[0]["lowest_score"] == pytest.approx(0.99, abs=1e-6)
    photo = rows["p/small copy.png"]
    assert (photo["width"], photo["height"]) == (40, 30)
    assert photo["bytes"] == os.path.getsize("p/small copy.png")
    assert photo["modified"] == "2017-07-14T02:40:00Z"
    assert photo["url"] == f"file://{library}/p/small%20copy.png"
    table = run_fovea("similar", "--duplicates", "--in", "out").stdout
    assert "group 1: 5 photos, lowest score of a pair 0.990000" in table
    assert "(copy of p/small.png)" in table


def test_classes_alone(run_fovea, library):
    """Each class by itself; together they are all."""
    files = find(run_fovea, "--only", "identical-files")
    assert sorted(map(sorted, names(files))) == [["p/copy.png", "p/large.png"], ["p/small copy.png", "p/small.png"]]
    pixels = find(run_fovea, "--only", "identical-pixels")
    assert names(pixels) == [["p/repacked.png", "p/large.png"]]
    similar = find(run_fovea, "--only", "similar")
    assert names(similar) == [["p/repacked.png", "p/small.png"], ["q/old.png", "q/new.png"]]
    both = find(run_fovea, "--only", "identical-files,identical-pixels")
    assert len(both) == 2 and len(names(both)[0]) == 3
    alone = classes(files) | classes(pixels) | classes(similar)
    assert alone == classes(find(run_fovea))
    assert len(alone) == len(classes(files)) + len(classes(pixels)) + len(classes(similar))
    assert alone == classes(find(run_fovea, "--threshold", "0.989"))


def test_print0_lists_what_may_go(run_fovea, library):
    gone = ["p/copy.png", "p/large.png", "p/small copy.png", "p/small.png", "q/new.png"]
    assert sorted(print0(run_fovea)) == gone
    assert sorted(print0(run_fovea, "--only", "identical-files")) == ["p/copy.png", "p/small copy.png"]
    # From elsewhere the names lead to the same files.
    (library / "elsewhere").mkdir()
    listed = run_fovea("similar", "--duplicates", "--in", "../out", "--print0", cwd=library / "elsewhere")
    for name in listed.stdout.split("\0")[:-1]:
        os.remove(library / "elsewhere" / name)
    assert sorted(p.name for p in library.glob("?/*.png")) == ["alone.png", "old.png", "repacked.png"]
    # What is left has no duplicates, and nothing of what is gone is kept.
    assert print0(run_fovea) == []


def test_names_are_printed_byte_for_byte(run_fovea, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    odd = [b"-rf.png", b"new\nline.png", b"back\\slash.png", b"\xff.png", b"a b.png"]
    for name in odd:
        save(name.decode("utf-8", "surrogateescape"), format="PNG")
    run_fovea("init", "--preset", "tiny", "--seed", "0", "-o", "model")
    run_fovea("embed", *[b"./" + name for name in odd], "-m", "model", "-o", "out")
    listed = print0(run_fovea)
    assert len(listed) == 4
    for name in listed:
        os.remove(name)
    assert len(list(tmp_path.glob("*.png"))) == 1
    write_rows(tmp_path, [("-x.png", near(0, 1), (40, 30)), ("z.png", near(0, 1), (40, 30))], "dashes")
    save("-x.png")
    save("z.png", modified=1_400_000_000)
    listed = run_fovea("similar", "--duplicates", "--in", "dashes", "--print0").stdout
    assert listed == "./-x.png\0"


def test_nothing_is_listed_that_would_lose_a_photo(run_fovea, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("real.png", (40, 30), 1)
    save("other/real.png", (40, 30), 2)
    os.symlink("real.png", "link.png")
    os.symlink("other", "way")
    os.link("real.png", "hard.png")
    same = near(0, 1)
    write_rows(tmp_path, [
        ("link.png", same, (40, 30)),
        ("real.png", same, (40, 30)),
        ("hard.png", same, (40, 30)),
        ("./real.png", same, (40, 30)),
        ("other/real.png", near(10, 1), (40, 30)),
        ("way/real.png", near(10, 1), (40, 30)),
        ("gone.png", near(20, 1), (400, 300)),
        ("large-and-gone.png", near(20, 1), (4000, 3000)),
        ("here.png", near(20, 1), (4, 3)),
    ])  # fmt: skip
    save("here.png", (4, 3))
    result = run_fovea("similar", "--duplicates", "--in", "out", "--print0")
    assert result.stdout == ""
    assert "4 rows left out, because another row has the same file" in result.stderr
    assert "2 duplicates not to be deleted: its file cannot be read" in result.stderr
    assert names(find(run_fovea)) == [["here.png", "large-and-gone.png", "gone.png"]]
    # A photo that took another's place since is not what was embedded.
    save("first.png", seed=1)
    save("second.png", seed=2)
    write_rows(tmp_path, [(f"{n}.png", near(0, 1), (40, 30)) for n in ("first", "second")], "pair")
    pair = ["similar", "--duplicates", "--in", "pair", "--print0"]
    assert run_fovea(*pair).stdout == "second.png\0"
    for changed in ("first.png", "second.png"):
        os.utime(changed, (4_000_000_000, 4_000_000_000))
        result = run_fovea(*pair)
        assert result.stdout == "" and "changed since it was embedded" in result.stderr
        os.utime(changed, (1_500_000_000, 1_500_000_000))
    # Nor is one that has an old date, which programs that copy files give it.
    write_rows(tmp_path, [(f"{n}.png", near(0, 1), (40, 30)) for n in ("first", "second")], "late")
    late = ["similar", "--duplicates", "--in", "late", "--print0"]
    assert run_fovea(*late).stdout == "second.png\0"
    save("second.png", seed=3)
    os.utime("second.png", (1_500_000_000, 1_500_000_000))
    result = run_fovea(*late)
    assert result.stdout == "" and "changed since it was embedded" in result.stderr


@pytest.fixture
def embedded(run_fovea, tmp_path, monkeypatch):
    """An output of `fovea embed` whose shard was written long after its photos were read."""
    monkeypatch.chdir(tmp_path)
    save("kept.png", (40, 30), 1)
    save("other.png", (39, 29), 1)
    save("member.png", (60, 50), 1)
    os.mkdir("archive")
    with tarfile.open("archive/x.tar", "w") as tar:
        tar.add("member.png")
    run_fovea("init", "--preset", "tiny", "--seed", "0", "-o", "model")
    run_fovea("embed", "kept.png", "other.png", "-m", "model", "-o", "out")
    run_fovea("embed", "archive/x.tar", "other.png", "-m", "model", "-o", "tar")
    for rows in tmp_path.glob("*/*.npy"):
        os.utime(rows, (4_000_000_000, 4_000_000_000))
    return ["similar", "--duplicates", "--threshold", "0.1", "--print0", "--in"]


def make_longer(name):
    modified = os.stat(name).st_mtime_ns
    with open(name, "ab") as file:
        file.write(b"more")
    os.utime(name, ns=(modified, modified))


def make_younger(name):
    os.utime(name, ns=(os.stat(name).st_mtime_ns + 1,) * 2)


@pytest.mark.parametrize("change", [make_longer, make_younger])
def test_what_changed_before_its_shard_was_written_stays(run_fovea, embedded, change):
    """A photo is known by its size and its date when it was read, whenever its row was written."""
    assert run_fovea(*embedded, "out").stdout == "other.png\0"
    assert run_fovea(*embedded, "tar").stdout == "other.png\0"
    change("archive/x.tar")
    result = run_fovea(*embedded, "tar")
    assert result.stdout == "" and "the file of the kept photo has changed" in result.stderr
    change("kept.png")
    result = run_fovea(*embedded, "out")
    assert result.stdout == "" and "the file of the kept photo has changed" in result.stderr
    run_fovea("embed", "kept.png", "other.png", "-m", "model", "-o", "out", "--overwrite")
    os.utime("out/embeddings-00000.npy", (4_000_000_000, 4_000_000_000))
    assert run_fovea(*embedded, "out").stdout == "other.png\0"
    change("other.png")
    result = run_fovea(*embedded, "out")
    assert result.stdout == "" and "its file has changed" in result.stderr


def test_a_photo_of_the_same_size_and_date_has_changed(run_fovea, embedded):
    """Programs that copy files set their dates, but cannot set the time at which they did."""
    run_fovea("embed", "kept.png", "other.png", "-m", "model", "-o", "again")
    assert run_fovea(*embedded, "again").stdout == "other.png\0"
    before = os.stat("other.png")
    os.utime("other.png", ns=(before.st_atime_ns, before.st_mtime_ns))
    result = run_fovea(*embedded, "again")
    assert result.stdout == "" and "its file has changed" in result.stderr


def test_members_of_archives_are_compared_but_stay(run_fovea, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("a.png", seed=1)
    save("b.png", seed=2)
    with tarfile.open("x.tar", "w") as tar:
        for name, file in [("1.png", "a.png"), ("2.png", "a.png"), ("3.png", "b.png")]:
            tar.add(file, name)
    same = near(0, 1)
    write_rows(tmp_path, [
        ("x.tar#1.png", same, (40, 30)),
        ("x.tar#2.png", same, (40, 30)),
        ("a.png", same, (40, 30)),
        ("x.tar#3.png", near(10, 1), (40, 30)),
    ])  # fmt: skip
    result = run_fovea("similar", "--duplicates", "--in", "out", "--print0")
    assert result.stdout == ""
    assert "2 duplicates not to be deleted: it is in an archive" in result.stderr
    groups = find(run_fovea)
    assert names(groups) == [["a.png", "x.tar#1.png", "x.tar#2.png"]]
    assert set(classes(groups).values()) == {"identical-files"}
    run_fovea("similar", "--duplicates", "--in", "out", "--html", "page.html")
    assert len(Pictures(tmp_path / "page.html").images) == 3


def test_members_are_found_by_their_whole_names(run_fovea, tmp_path, monkeypatch):
    """Whatever is in them: dots, "#", and names that are left out when an archive is embedded."""
    monkeypatch.chdir(tmp_path)
    members = ["foo.a#b.jpg", "2024.05.01 12.30.png", ".hidden/x.png", "day.1/#/y", "a;b.c;d.png"]
    save("a.png", seed=1)
    with tarfile.open("x.tar", "w") as tar:
        for name in [*members, "other.png"]:
            tar.add("a.png", name)
    write_rows(tmp_path, [(f"x.tar#{name}", near(0, 1), (40, 30)) for name in members])
    result = run_fovea("similar", "--duplicates", "--in", "out", "--json")
    assert "could not be read" not in result.stderr
    assert classes(json.loads(result.stdout)["groups"]) == dict.fromkeys(
        [f"x.tar#{name}" for name in members[1:]], "identical-files"
    )


def test_memory_for_decoding_is_shared(run_fovea, tmp_path, monkeypatch):
    """24 threads with a photo of 36 MB each, in 1 GiB of address space."""
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (4000, 3000)).save("0.png", compress_level=1)
    png = open("0.png", "rb").read()
    for number in range(1, 24):
        chunk = b"tEXtnumber\0" + b"%02d" % number
        chunk = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
        (tmp_path / f"{number}.png").write_bytes(png[:33] + chunk + png[33:])
    write_rows(tmp_path, [(f"{n}.png", near(0, 1), (4000, 3000)) for n in range(24)])
    command = ["similar", "--duplicates", "--in", "out", "--threads", "24", "--html", "page.html"]
    result = run_fovea(
        *command, "--json",
        env={"MALLOC_ARENA_MAX": "1"},  # arenas take address space
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
    )  # fmt: skip
    found = classes(json.loads(result.stdout)["groups"])
    assert list(found.values()) == ["identical-pixels"] * 23
    assert len(Pictures(tmp_path / "page.html").images) == 24


@pytest.mark.parametrize("place", [".", "..", "../out/", "sub/.."])
def test_the_folder_around_the_output_is_found_from_within(run_fovea, library, place):
    """A tree that was moved: the output says nothing of where it is."""
    (library / "out" / "sub").mkdir()
    folder = library / "out" / ("sub" if place == ".." else "")
    result = run_fovea("similar", "--duplicates", "--in", place, "--print0", cwd=folder)
    listed = result.stdout.split("\0")[:-1]
    assert len(listed) == 5 and all(os.path.exists(folder / name) for name in listed)


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_what_they_are_said_to_be(run_fovea, tmp_path, monkeypatch, seed):
    """On random vectors with many pairs around the threshold, against numpy."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(300, DIMENSION)) * 0.3
    vectors[:, :4] += random.normal(size=(300, 4)) * 3
    sizes = [(int(width), 10) for width in random.integers(1, 6, 300)]
    write_rows(tmp_path, [(f"{i}.jpg", vectors[i], sizes[i]) for i in range(300)])
    vectors = vectors.astype(np.float32)
    scores = np.array([cosines(vector, vectors) for vector in vectors])
    threshold = 0.9
    groups = find(run_fovea, "--threshold", str(threshold))
    assert len(groups) > 10
    gone = set()
    for group in groups:
        rows = [member["row"] for member in group["members"]]
        kept = rows[0]
        assert group["members"][0]["keep"] and len(rows) > 1
        for row, member in zip(rows[1:], group["members"][1:]):
            assert member["score"] == pytest.approx(scores[kept, row], abs=1e-12)
            assert member["score"] >= threshold
            assert (sizes[kept], -kept) > (sizes[row], -row)
            assert row not in gone
            gone.add(row)
        assert group["lowest_score"] == pytest.approx(scores[np.ix_(rows, rows)].min(), abs=1e-12)
    assert not gone & {group["members"][0]["row"] for group in groups}
    for a, b in np.argwhere(np.triu(scores >= threshold, 1)):
        assert a in gone or b in gone


def test_page_of_duplicates(run_fovea, library):
    result = run_fovea("similar", "--duplicates", "--in", "out", "--html", "page.html")
    assert result.stdout == "" and "2 groups of duplicates in 8 photos" in result.stderr
    page = Pictures(library / "page.html")
    assert len(page.images) == 7 and "script" not in page.tags
    text = (library / "page.html").read_text()
    assert text.count(">keep</span>") == 2
    assert '<a href="./p/small%20copy.png">' in text
    assert "40 \u00d7 30" in text and "lowest score of a pair 0.990000" in text
    assert "default-src 'none'" in text


def test_capture_dates(run_fovea, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pillow_heif.register_heif_opener()
    # Encoders write EXIF data first or last, so a large file of each kind comes, too.
    dated = ["a.jpg", "b.png", "c.heic", "d.avif", "large.heic", "large.avif", "large.webp", "large.jpg"]
    files = [*dated, "none.heic", "undated.jpg"]
    for name in files:
        exif = Image.Exif()
        date = "2019:07:04 12:03:00" if name != "undated.jpg" else "0000:00:00 00:00:00"
        exif[0x0110] = "camera"
        exif.get_ifd(0x8769)[0x9003] = date
        large = name.startswith("large")
        save(name, (300, 300) if large else (40, 30), quality=90, **({} if name == "none.heic" else {"exif": exif}))
        assert (os.path.getsize(name) > 1 << 16) == large
    write_rows(tmp_path, [(name, near(0, 1), (40, 30)) for name in files])
    found = {m["source"]: m["captured"] for m in find(run_fovea)[0]["members"]}
    assert found == dict.fromkeys(dated, "2019-07-04 12:03:00") | {"none.heic": None, "undated.jpg": None}


def test_the_folder_that_is_preferred(run_fovea, tmp_path, monkeypatch):
    """Of copies the one in `album` stays, though the other's name, size and age would win; more pixels count more."""
    monkeypatch.chdir(tmp_path)
    save("album/a.png", modified=1_600_000_000)
    save("backup old phone/a.png", modified=1_500_000_000)
    save("album/b.png", seed=1, compress_level=9)
    save("backup old phone/b.png", seed=1, compress_level=0)
    save("album/c.png", (20, 15), seed=2)
    save("backup old phone/c.png", (40, 30), seed=2)
    os.makedirs("other")
    os.link("album/a.png", "other/a.png")
    pathlib.Path("link").symlink_to("album")
    axes = np.eye(DIMENSION)
    write_rows(
        tmp_path,
        [(f"{folder}/{name}.png", axes[axis], (20, 15) if (folder, name) == ("album", "c") else (40, 30))
         for axis, name in enumerate("abc") for folder in ("album", "backup old phone")],
    )  # fmt: skip

    def kept(*arguments):
        groups = find(run_fovea, *arguments)
        assert len(groups) == 3
        return {m["source"] for group in groups for m in group["members"] if m["keep"]}

    phone, album = ({f"{folder}/{name}.png" for name in "ab"} for folder in ("backup old phone", "album"))
    large = {"backup old phone/c.png"}
    assert kept() == phone | large
    for folder in ("album", "./album/", "link", tmp_path / "album", "x/../album"):
        os.makedirs("x", exist_ok=True)
        assert kept("--prefer", folder) == album | large
    assert kept("--prefer", "album", "--prefer", "backup old phone") == album | large
    assert kept("--prefer", "backup old phone", "--prefer", "album") == phone | large
    assert kept("--prefer", "x", "--prefer", "album") == album | large
    os.makedirs("alb")
    assert kept("--prefer", "alb") == phone | large  # the beginning of a name is no folder
    names = print0(run_fovea, "--prefer", "album", "--only", "identical-files")
    assert [os.path.basename(os.path.dirname(name)) for name in names] == ["backup old phone"]
    assert (
        "nowhere: not a folder"
        in run_fovea("similar", "--duplicates", "--in", "out", "--prefer", "nowhere", code=1).stderr
    )
    assert "applies only to --duplicates" in run_fovea("similar", "--in", "out", "--prefer", "album", code=2).stderr
