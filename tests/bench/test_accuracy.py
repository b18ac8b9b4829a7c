"""bench/gpu_accuracy.py on the CPU: a small table whose gate embeddings of the wrong photos do not pass."""

import json
import pathlib
import sys

import numpy
import pytest
from safetensors.torch import load_file

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import gpu_accuracy
import hard_photos

KINDS = hard_photos.KINDS[1:-2:3]
MARGIN = 1.5  # of a precision's distance to fp32 over that of torch's bf16


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos") / "hard"
    hard_photos.write(folder, seed=1, each=1, kinds=KINDS)
    return folder


@pytest.fixture
def table(fovea_bin, photos, tmp_path, monkeypatch, capsys):
    """table(): the rows for the tiny model by "engine precision"; those that were refused are not there."""

    def measured():
        file = tmp_path / "table.json"
        file.touch()  # as a run of all sections makes it before anything is measured
        monkeypatch.setattr(
            sys,
            "argv",
            [
                "gpu_accuracy.py",
                "tiny@3",
                "--photos",
                str(photos),
                "--device",
                "cpu",
                "--fovea",
                str(fovea_bin),
                "--json",
                str(file),
            ],
        )
        failed, refusal = gpu_accuracy.main(), capsys.readouterr().err
        assert bool(failed) == ("bf16 needs a CPU" in refusal), refusal
        result = json.loads(file.read_text())["accuracy"]
        assert result["corpus"] == {"photos": len(KINDS), "kinds": len(KINDS), "seed": 1, "each": 1}
        return {f"{row['engine']} {row['precision']}": row for row in result["rows"]}

    return measured


def near(row, peer):
    """At most MARGIN times as far from fp32 as the peer, in the mean and in the tail, with its neighbours."""
    return (
        all(1 - row[key] <= MARGIN * (1 - peer[key]) + 1e-6 for key in ("cosine_mean", "cosine_percentile_1"))
        and row["recall_at_10"] >= peer["recall_at_10"] - 0.02
    )


def test_precisions_are_as_near_to_fp32_as_torch_is_in_bf16(table):
    rows = table()
    torch = rows["torch, eager bf16"]
    assert 0.99 < torch["cosine_min"] <= torch["cosine_percentile_1"] <= torch["cosine_mean"] < 1
    assert set(torch["kinds"]) == set(KINDS)
    ours = [row for name, row in rows.items() if name.startswith("fovea")]
    assert ours and all(near(row, torch) for row in ours), rows
    assert rows["fovea fp32"]["cosine_min"] > 0.999999 and rows["fovea fp32"]["recall_at_10"] == 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda rows: numpy.roll(rows, 1, axis=0), marks=pytest.mark.nightly, id="next"),
        pytest.param(lambda rows: numpy.roll(rows, 1, axis=1), marks=pytest.mark.nightly, id="shifted"),
        pytest.param(lambda rows: rows + 0.05 * numpy.abs(rows), id="biased"),
    ],
)
def test_wrong_embeddings_do_not_pass(table, monkeypatch, change):
    embed = gpu_accuracy.Fovea.embed
    monkeypatch.setattr(gpu_accuracy.Fovea, "embed", lambda *arguments: change(embed(*arguments)))
    rows = table()
    assert not any(near(row, rows["torch, eager bf16"]) for name, row in rows.items() if name.startswith("fovea"))


@pytest.mark.nightly
def test_layers_in_bf16_are_rows_of_their_own(fovea_bin, tmp_path, monkeypatch):
    """The CPU has no 8 bits, so that embeddings are those of fp32 here; noted is what each folder was calibrated
    with."""
    embed, seen = gpu_accuracy.Fovea.embed, []

    def instead(fovea, model, precision):
        stored = load_file(model / f"calibration-{precision}.safetensors")
        seen.append(3 - sum(name.endswith("fc2.weight") for name in stored))
        return embed(fovea, model, "fp32")

    monkeypatch.setattr(gpu_accuracy.Fovea, "embed", instead)
    photos, file = tmp_path / "photos", tmp_path / "table.json"
    hard_photos.write(photos, seed=1, each=2, kinds=KINDS[:2])  # two of a kind: one for each half
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "gpu_accuracy.py",
            "tiny@3",
            "--photos",
            str(photos),
            "--device",
            "cpu",
            "--precision",
            "int8,fp8",
            "--bf16-layers",
            "1,3",
            "--fovea",
            str(fovea_bin),
            "--json",
            str(file),
        ],
    )
    assert gpu_accuracy.main() == 0
    rows = [row for row in json.loads(file.read_text())["accuracy"]["rows"] if row["engine"] == "fovea"]
    assert [(row["precision"], row["calibration"], row["bf16_layers"]) for row in rows] == [
        (precision, *told)
        for precision in ("int8", "fp8")
        for told in (("examples/photos", 0), ("examples/photos", 1), ("examples/photos", 3), ("the other half", 0))
    ]
    assert seen == 2 * [0, 1, 3, 0, 0]


def test_embeddings_that_are_not_finite_are_refused():
    truth = numpy.eye(4)
    with pytest.raises(RuntimeError, match="finite"):
        gpu_accuracy.compare(truth, numpy.where(truth == 1, numpy.nan, truth))


def test_recall_counts_the_neighbours_that_were_found():
    """20 photos on an arc: the ten nearest of the first are the ten after it. The last of these changes places."""
    angles = numpy.arange(20) * 0.1
    truth = numpy.stack([numpy.cos(angles), numpy.sin(angles)], axis=1)
    found = truth[[*range(10), 11, 10, *range(12, 20)]]
    cosines, recalls = gpu_accuracy.compare(truth, found)
    assert recalls[0] == 0.9 and recalls[19] == 1
    assert cosines[0] == pytest.approx(1) and cosines[10] == pytest.approx(numpy.cos(0.1))
    told = gpu_accuracy.figures(cosines, recalls, ["a"] * 10 + ["b"] * 10)
    assert told["cosine_min"] == cosines.min() and list(told["kinds"]) == ["b", "a"]


def test_halves_have_photos_of_every_kind():
    kinds = ["a", "b", "a", "b", "a"]
    assert [(kind, half) for kind, half in zip(kinds, gpu_accuracy.half_numbers(kinds), strict=True)] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("b", 1),
        ("a", 0),
    ]


def test_photos_depend_on_the_seed_and_on_nothing_else():
    def made(seed, kinds):
        return {kind: image.tobytes() for kind, _, image in hard_photos.make(seed, 1, kinds)}

    kinds = ("text-page", "blobs", "fog", "cropped")
    first = made(1, kinds)
    assert made(1, kinds[::-1]) == first
    other = made(2, kinds)
    assert all(other[kind] != first[kind] for kind in kinds)
