"""`fovea similar`: queries of every kind, tables, JSON and pages."""

import hashlib
import html.parser
import io
import json
import pathlib
import tarfile

import numpy as np
import pytest
from PIL import Image

DIMENSION = 48


def write_output(folder, sources, vectors, shard_rows=4, dtype=np.float32, model=None):
    """What `fovea embed` leaves, made by hand."""
    folder.mkdir()
    for shard, first in enumerate(range(0, len(sources), shard_rows)):
        part = slice(first, first + shard_rows)
        np.save(folder / f"embeddings-{shard:05}.npy", vectors[part].astype(dtype))
        lines = [
            json.dumps({"row": row, "source": source, "width": 8, "height": 8}, ensure_ascii=False)
            for row, source in enumerate(sources[part])
        ]
        (folder / f"index-{shard:05}.jsonl").write_text("".join(line + "\n" for line in lines))
    manifest = {"finished": True, "model": {"name": model or "", "sha256": ""}}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def cosines(query, vectors):
    query = np.asarray(query, np.float64)
    vectors = np.asarray(vectors, np.float64)
    return vectors @ query / np.linalg.norm(query) / np.linalg.norm(vectors, axis=1)


class Pictures(html.parser.HTMLParser):
    """What a browser would show: image labels, placeholders, and anything that should not be."""

    def __init__(self, path):
        super().__init__()
        self.images = []
        self.placeholders = []
        self.tags = set()
        text = path.read_text()
        self.feed(text)
        assert "http://" not in text and "https://" not in text

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.add(tag)
        if tag == "img":
            assert attributes["src"].startswith("data:image/jpeg;base64,")
            self.images.append(attributes["alt"])
        elif "missing" in attributes.get("class", ""):
            self.placeholders.append(attributes["aria-label"])


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Ten photos in tmp_path, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    random = np.random.default_rng(0)
    names = [f"photos/{index}.png" for index in range(10)]
    for name in names:
        Image.fromarray(random.integers(0, 255, (20, 30, 3), np.uint8)).save(name)
    return names


@pytest.fixture
def output(tmp_path, photos):
    vectors = np.random.default_rng(1).normal(size=(len(photos), DIMENSION)).astype(np.float32)
    vectors[7] = vectors[2] * 3  # the same direction
    write_output(tmp_path / "out", photos, vectors)
    return vectors


def test_table_of_neighbours(run_fovea, photos, output):
    result = run_fovea("similar", "photos/2.png", "--in", "out", "-k", "3")
    lines = result.stdout.splitlines()
    assert lines[0] == "photos/2.png"
    scores = cosines(output[2], output)
    scores[2] = -2  # itself
    best = np.argsort(-scores, kind="stable")[:3]
    assert best[0] == 7
    for rank, (line, row) in enumerate(zip(lines[1:], best, strict=True), 1):
        shown_rank, shown_score, pixels, _, unit, _, _, name = line.split()
        assert (shown_rank, pixels, unit, name) == (str(rank), "8x8", "kB", photos[row])
        assert float(shown_score) == pytest.approx(scores[row], abs=1e-6)


def test_json_of_several_queries(run_fovea, photos, output):
    result = run_fovea("similar", "./photos/4.png", "photos/../photos/5.png", "--in", "out", "--json")
    data = json.loads(result.stdout)
    assert [q["row"] for q in data["queries"]] == [4, 5]
    for query in data["queries"]:
        assert len(query["matches"]) == 9  # everything but itself
        for match in query["matches"]:
            expected = cosines(output[query["row"]], output)[match["row"]]
            assert match["score"] == pytest.approx(expected, abs=1e-12)
            assert match["source"] == photos[match["row"]]


def test_a_photo_in_the_output_is_found_by_any_path(run_fovea, tmp_path, photos, output):
    (tmp_path / "same").symlink_to("photos")
    (tmp_path / "link.png").symlink_to("photos/2.png")
    (tmp_path / "elsewhere").mkdir()

    queries = [tmp_path / "photos/2.png", "same/2.png", "link.png", f"../{tmp_path.name}/photos/2.png"]
    found = json.loads(run_fovea("similar", *queries, "--in", "out", "--json").stdout)["queries"]
    assert [query["row"] for query in found] == [2, 2, 2, 2]
    assert all(match["row"] != 2 for query in found for match in query["matches"])
    # Names in the index that are absolute, or links themselves.
    write_output(tmp_path / "linked", [f"{tmp_path}/same/{i}.png" for i in range(9)] + ["link.png"], output)
    result = run_fovea("similar", "photos/3.png", "link.png", "--in", "linked", "--json")
    assert [query["row"] for query in json.loads(result.stdout)["queries"]] == [3, 9]
    # Relative ones start at --root.
    arguments = ["similar", tmp_path / "photos/4.png", "--in", "../out", "--json"]
    result = run_fovea(*arguments, "--root", "..", cwd=tmp_path / "elsewhere")
    assert json.loads(result.stdout)["queries"][0]["row"] == 4
    # Without it they start in the folder of OUT when the working directory holds none of them.
    assert json.loads(run_fovea(*arguments, cwd=tmp_path / "elsewhere").stdout)["queries"][0]["row"] == 4
    # Another file of the same name is another photo, of which no model is known here.
    (tmp_path / "elsewhere/2.png").write_bytes((tmp_path / "photos/2.png").read_bytes())
    assert "not a photo of out" in run_fovea("similar", "elsewhere/2.png", "--in", "out", code=1).stderr


def test_npy_queries(run_fovea, tmp_path, output):
    np.save("q.npy", output[[3, 6]].astype(np.float16))
    data = json.loads(run_fovea("similar", "q.npy", "--in", "out", "-k", "1", "--json").stdout)
    assert [q["matches"][0]["row"] for q in data["queries"]] == [3, 6]
    result = run_fovea("similar", "q.npy", "--in", "out", "-k", "1", "--html", "page.html")
    assert "could not be read" not in result.stderr
    page = Pictures(tmp_path / "page.html")
    assert page.placeholders == [f"q.npy[{row}]: no picture, a vector has no picture" for row in (0, 1)]
    np.save("q.npy", np.ones(5, np.float32))
    error = run_fovea("similar", "q.npy", "--in", "out", code=1).stderr
    assert "the vectors have 5 dimensions, but those in out have 48" in error


def test_devices(run_fovea, output):
    expected = run_fovea("similar", "--in", "out", "--json").stdout
    for device in ("cpu", "auto"):
        assert run_fovea("similar", "--in", "out", "--device", device, "--json").stdout == expected
    error = run_fovea("similar", "--in", "out", "--device", "cuda:77", code=1).stderr
    assert "GPU" in error or "NVIDIA" in error or "cuda" in error
    run_fovea("similar", "--in", "out", "--duplicates", env={"FOVEA_DEVICE": "cuda:77"})


def test_every_row_is_a_query_without_one(run_fovea, photos, output):
    result = run_fovea("similar", "--in", "out", "-k", "1", "--json", "--limit", "6")
    assert [q["query"] for q in json.loads(result.stdout)["queries"]] == photos[:6]
    assert "--limit" in result.stderr
    assert "--limit" not in run_fovea("similar", "--in", "out").stderr


def test_page(run_fovea, tmp_path, photos, output):
    result = run_fovea("similar", "photos/0.png", "photos/1.png", "--in", "out", "-k", "2", "--html", "page.html")
    assert result.stdout == ""
    page = Pictures(tmp_path / "page.html")
    assert len(page.images) == 2 * 3 and page.placeholders == []
    assert page.images[0] == "photos/0.png" and page.images[3] == "photos/1.png"
    # From elsewhere the relative names lead nowhere, until --root says where they start.
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").rename(tmp_path / "elsewhere/out")
    arguments = ["similar", "photos/0.png", "--in", "out", "--html", "page.html"]
    lost = run_fovea(*arguments, cwd=tmp_path / "elsewhere")
    assert "10 pictures could not be read" in lost.stderr and "--root" in lost.stderr
    assert len(Pictures(tmp_path / "elsewhere/page.html").placeholders) == 10
    alone = run_fovea(*arguments, "--root", "../elsewhere", "-k", "1", cwd=tmp_path / "elsewhere")
    assert "2 pictures could not be read and were replaced by placeholders" in alone.stderr
    run_fovea(*arguments, "--root", "..", cwd=tmp_path / "elsewhere")
    assert len(Pictures(tmp_path / "elsewhere/page.html").images) == 10


def test_names_that_try_to_be_markup(run_fovea, tmp_path, photos):
    evil = ["<script>alert(1)<", '" onerror="x', "a\nb\tc", "\\xff\\\\", "'><img src=x>", "café 🐈"]
    vectors = np.eye(len(evil), DIMENSION, dtype=np.float32)
    write_output(tmp_path / "evil", evil, vectors)
    run_fovea("similar", "--in", "evil", "--html", "page.html")
    page = Pictures(tmp_path / "page.html")
    assert "script" not in page.tags and page.images == []
    assert any(label.startswith("<script>alert(1)<: no picture") for label in page.placeholders)
    assert any(label.startswith("a\\x0ab\\x09c: ") for label in page.placeholders)
    table = run_fovea("similar", "--in", "evil", "-k", "5").stdout
    assert len(table.splitlines()) == len(evil) * 6  # no name broke a line


def test_members_of_archives(run_fovea, tmp_path, photos):
    sources = []
    for archive, mode in (("a#1.tar", "w"), ("b.tar.gz", "w:gz")):
        with tarfile.open(archive, mode) as tar:
            for name, content in [
                ("x/1.jpg", (tmp_path / photos[0]).read_bytes()),
                ("x/2.left.jpg", (tmp_path / photos[1]).read_bytes()),
                ("x/3.jpg", b"no picture"),
            ]:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        sources += [f"{archive}#x/1.jpg", f"{archive}#x/2.left.jpg", f"{archive}#x/3.jpg"]
        sources += [f"{archive}#x/absent.jpg"]
    write_output(tmp_path / "tars", sources, np.eye(8, DIMENSION, dtype=np.float32))
    result = run_fovea("similar", sources[0], "--in", "tars", "--html", "page.html")
    page = Pictures(tmp_path / "page.html")
    assert sorted(page.images) == sorted(sources[0:2] + sources[4:6])
    assert len(page.placeholders) == 4 and "4 pictures" in result.stderr


def test_photo_that_is_not_in_the_output(run_fovea, tmp_path, photos):
    """Embedded with the model that the manifest names, then found among the others."""
    run_fovea("init", "--preset", "tiny", "--seed", "0", "-o", "model")
    run_fovea("embed", "photos", "-m", "model", "-o", "embedded", "--precision", "fp32")
    (tmp_path / "copy.png").write_bytes((tmp_path / photos[3]).read_bytes())
    result = run_fovea("similar", "copy.png", "--in", "embedded", "-k", "2", "--json")
    query = json.loads(result.stdout)["queries"][0]
    assert query["query"] == "copy.png" and "row" not in query
    assert query["matches"][0]["source"] == photos[3]
    assert query["matches"][0]["score"] == pytest.approx(1, abs=1e-6)
    run_fovea("similar", "copy.png", "--in", "embedded", "--html", "page.html")
    assert "copy.png" in Pictures(tmp_path / "page.html").images
    # A model given by -m goes before the manifest's; without either there is none.
    run_fovea("init", "--preset", "tiny", "--seed", "1", "-o", "other")
    result = run_fovea("similar", "copy.png", "--in", "embedded", "-m", "other", "--json")
    assert json.loads(result.stdout)["queries"][0]["matches"][0]["score"] < 0.999
    (tmp_path / "embedded" / "manifest.json").unlink()
    assert "-m" in run_fovea("similar", "copy.png", "--in", "embedded", code=1).stderr


def test_wrong_inputs(run_fovea, tmp_path, output):
    assert "neither the name of a photo" in run_fovea("similar", "x", "--in", "out", code=1).stderr
    assert "no such folder" in run_fovea("similar", "--in", "absent", code=1).stderr
    (tmp_path / "empty").mkdir()
    assert "embeddings-*.npy" in run_fovea("similar", "--in", "empty", code=1).stderr
    (tmp_path / "out" / "manifest.json").write_text('{"finished": false, "model": {"name": "m"}}')
    assert "has not finished" in run_fovea("similar", "--in", "out").stderr


def test_the_place_of_the_page_is_tried_before_anything_else(run_fovea, tmp_path, output):
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "out/embeddings-00000.npy", np.full((4, DIMENSION), np.nan, np.float32))
    for page in ("absent/page.html", "folder"):
        result = run_fovea("similar", "--in", "out", "--duplicates", "--html", page, code=2)
        assert page in result.stderr and "NaN" not in result.stderr and result.stdout == ""
    older = '<meta name="generator" content="Fovea">an older page'
    (tmp_path / "page.html").write_text(older)
    run_fovea("similar", "--in", "out", "--duplicates", "--html", "page.html", code=1)
    assert (tmp_path / "page.html").read_text() == older
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--limit", "-1"], "at least 0"),
        (["--threshold", "0.9"], "--threshold applies only to --duplicates"),
        (["--only", "similar"], "--only applies only to --duplicates"),
        (["--print0"], "--print0 applies only to --duplicates"),
        (["photos/1.png", "--limit", "3"], "--limit does not apply to given queries"),
        (["--model", "m"], "there is no query"),
        (["--duplicates", "-k", "3"], "--neighbours does not apply to --duplicates"),
        (["--duplicates", "--limit", "3"], "--limit does not apply to --duplicates"),
        (["--duplicates", "--device", "cpu"], "--device does not apply to --duplicates"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--duplicates", "-m", "m"], "--model does not apply to --duplicates"),
        (["--duplicates", "photos/1.png"], "QUERY does not apply to --duplicates"),
        (["--duplicates", "--print0", "--json"], "--json and --print0"),
        (["--duplicates", "--only", "same"], "identical-files"),
        (["--duplicates", "--only", "identical-files", "--threshold", "0.9"], "--threshold does not apply"),
        (["--duplicates", "--threshold", "1.5"], "1.5"),
    ],
)
def test_options_that_do_not_apply_are_refused(run_fovea, output, arguments, message):
    result = run_fovea("similar", "--in", "out", *arguments, code=2)
    assert message in result.stderr and len(result.stderr) < 400
    assert result.stdout == ""


def test_variables_that_do_not_apply_are_ignored(run_fovea, output):
    env = {
        "FOVEA_NEIGHBOURS": "3",
        "FOVEA_MODEL": "m",
        "FOVEA_THRESHOLD": "0.9",
        "FOVEA_LIMIT": "4",
        "FOVEA_ONLY": "Similar,identical-FILES",
    }
    run_fovea("similar", "--in", "out", "--duplicates", env=env)
    assert len(run_fovea("similar", "--in", "out", env=env).stdout.splitlines()) == 4 * (1 + 3)
    run_fovea("similar", "--in", "out", "--duplicates", "-k", "4", env=env, code=2)
    run_fovea("similar", "--in", "out", "--duplicates", "-k", "3", env=env, code=2)
    names = ["similar", "--in", "out", "--duplicates", "--print0"]
    assert run_fovea(*names, env={"FOVEA_JSON": "1"}).stdout == run_fovea(*names).stdout
    run_fovea(*names, "--json=found.json")
    assert json.loads(pathlib.Path("found.json").read_text())["rows"] == 10


def test_several_outputs(run_fovea, tmp_path, photos):
    """The outputs of shards, each in a folder of its own, are searched as one."""
    run_fovea("init", "--preset", "tiny", "--seed", "0", "-o", "model")
    for shard in range(3):
        run_fovea("embed", "photos", "-m", "model", "-o", f"s{shard}", "--shard", f"{shard}/3")
    run_fovea("embed", "photos", "-m", "model", "-o", "all")
    whole = json.loads(run_fovea("similar", "photos/5.png", "--in", "all", "--json").stdout)
    several = ["--in", "s0", "--in", "s1", "--in", "s2"]
    parts = json.loads(run_fovea("similar", "photos/5.png", *several, "--json").stdout)
    assert parts["rows"] == 10

    def matches(result):
        return [(m["source"], m["score"]) for m in result["queries"][0]["matches"]]

    assert matches(whole) == matches(parts)
    for match in parts["queries"][0]["matches"]:
        assert match["in"] == f"s{photos.index(match['source']) % 3}"
    assert "(in s1)" in run_fovea("similar", "photos/5.png", *several).stdout
    assert "given twice" in run_fovea("similar", "--in", "s0", "--in", "./s0", code=1).stderr
    run_fovea("init", "--preset", "tiny", "--seed", "1", "-o", "other")
    run_fovea("embed", "photos", "-m", "other", "-o", "foreign")
    error = run_fovea("similar", "--in", "s0", "--in", "foreign", code=1).stderr
    assert "s0 was made with the model model (" in error and "foreign with other (" in error


def test_names_start_where_the_job_ran(run_fovea, tmp_path, photos):
    """From another folder, photos are found, and the model by its relative path."""
    run_fovea("init", "--preset", "tiny", "--seed", "0", "-o", "models/tiny")
    run_fovea("embed", "photos", "-m", "models/tiny", "-o", "out", "--precision", "fp32")
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["working_folder"] == str(tmp_path)
    # The same job from elsewhere, by the same names, is the same job.
    above = tmp_path.parent
    inside = tmp_path.name
    found = run_fovea("similar", f"{inside}/photos/3.png", "--in", f"{inside}/out", "--json", cwd=above)
    assert json.loads(found.stdout)["queries"][0]["row"] == 3
    (tmp_path / "new.png").write_bytes((tmp_path / photos[6]).read_bytes())
    found = run_fovea("similar", f"{inside}/new.png", "--in", f"{inside}/out", "--json", cwd=above)
    assert json.loads(found.stdout)["queries"][0]["matches"][0]["source"] == photos[6]
    # The folder as a whole was moved: relative names lead from it, but the model is not found.
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("photos", "out", "new.png"):
        (tmp_path / name).rename(moved / name)
    found = run_fovea("similar", "moved/photos/3.png", "--in", "moved/out", "--json", cwd=tmp_path)
    assert json.loads(found.stdout)["queries"][0]["row"] == 3
    (tmp_path / "models").rename(tmp_path / "renamed")
    error = run_fovea("similar", "moved/new.png", "--in", "moved/out", cwd=tmp_path, code=1).stderr
    assert "models/tiny that made moved/out" in error and "-m" in error and "--root" in error


def checked(record, **layout):
    """A record of an output with the checksum that belongs to it."""
    record = {key: value for key, value in record.items() if key != "check"}
    text = json.dumps(record, ensure_ascii=False, **layout)
    record["check"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return json.dumps(record, ensure_ascii=False, **layout) + "\n"


def test_outputs_that_do_not_say_where_their_job_ran(run_fovea, tmp_path, photos):
    """Older ones, and jobs that are resumed elsewhere: the folder decides nothing."""
    run_fovea("init", "--preset", "tiny", "--seed", "0", "-o", "model")
    arguments = ["embed", tmp_path / "photos", "-m", tmp_path / "model", "-o", tmp_path / "out"]
    run_fovea(*arguments)
    assert "already done" in run_fovea(*arguments, cwd=tmp_path / "photos").stderr
    path = tmp_path / "out/manifest.json"
    manifest = json.loads(path.read_text())
    assert path.read_text() == checked(manifest, indent=2)
    lines = (tmp_path / "out/checksums.jsonl").read_text().splitlines()
    job = json.loads(lines[0])
    compact = {"separators": (",", ":")}
    assert lines[0] + "\n" == checked(job, **compact)
    del job["job"]["working_folder"]
    lines[0] = checked(job, **compact)[:-1]
    journal = "".join(line + "\n" for line in lines)
    (tmp_path / "out/checksums.jsonl").write_text(journal)
    del manifest["working_folder"]
    manifest["resume"]["checksums_bytes"] = len(journal)
    manifest["resume"]["checksums_sum"] = hashlib.sha256(journal.encode()).hexdigest()[:16]
    path.write_text(checked(manifest, indent=2))
    assert "already done" in run_fovea(*arguments).stderr
    run_fovea("check", "out")
    assert run_fovea("similar", "--in", "out").stdout


def test_an_unfinished_output_says_how_far_it_is(run_fovea, tmp_path, output):
    out = tmp_path / "out"
    for path in out.glob("embeddings-*"):
        path.rename(f"{path}.partial")
    manifest = {"finished": False, "model": {"name": "m"}, "counts": {"rows": 32}}
    (out / "manifest.json").write_text(json.dumps(manifest))
    error = run_fovea("similar", "--in", "out", code=1).stderr
    assert "not finished: 32 rows so far" in error and "run the embed command again" in error


def test_a_file_is_found_once_whatever_leads_to_it(run_fovea, tmp_path, photos):
    """By links to it and to its folder, hard links, and names that are given twice."""
    (tmp_path / "linked").symlink_to("photos")
    (tmp_path / "soft.png").symlink_to("photos/2.png")
    (tmp_path / "hard.png").hardlink_to("photos/2.png")
    names = [
        "soft.png",
        "photos/0.png",
        "linked/2.png",
        "photos/2.png",
        "hard.png",
        "photos/3.png",
        "photos/2.png",
        "photos/4.png",
    ]
    vectors = np.random.default_rng(1).normal(size=(len(names), DIMENSION)).astype(np.float32)
    same = [row for row, name in enumerate(names) if name[-5] in "2td"]
    vectors[same] = vectors[0]
    vectors[5] = vectors[0]  # the same embedding, but another file
    write_output(tmp_path / "out", names, vectors, shard_rows=3)
    for k in (1, 2, 3, 10):
        found = json.loads(run_fovea("similar", "--in", "out", "--json", "-k", str(k)).stdout)["queries"]
        for query in found:
            matches = [match["source"] for match in query["matches"]]
            is_same = names[query["row"]] not in ("photos/0.png", "photos/3.png", "photos/4.png")
            others = {"photos/0.png", "photos/3.png", "photos/4.png"} - {query["query"]}
            assert set(matches) <= others | (set() if is_same else {"soft.png"}), query
            assert len(matches) == min(k, 3), query
            assert matches[0] == "photos/3.png" or not is_same
    np.save("q.npy", vectors[:1])
    found = json.loads(run_fovea("similar", "q.npy", "--in", "out", "--json").stdout)["queries"][0]["matches"]
    assert [match["source"] for match in found][:2] == ["soft.png", "photos/3.png"] and len(found) == 4
