"""scripts/check_docs.py: a sentence with a figure of speed names the source that has it, or has none."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))
import check_docs


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)
    (tmp_path / "lab/profile").mkdir(parents=True)
    (tmp_path / "lab/profile/rules.cpp").write_text("constexpr double kLeast = 0.15;  // of 1'500 us\n")
    return tmp_path


@pytest.mark.parametrize(
    "sentence",
    [
        "Fovea is 1.4x torch.compile.",
        "It takes 5.2 us by `mma`.",
        "It embeds 12,345 images/s.",
        "`fp8` is 2% slower.",
        "It is 3 times as fast.",
        "Products run at 750 TFLOP/s, copies at 4.3 TB/s.",
        "A cold start takes 90 ms.",
        "The table:\n| a | 1,093 us |",
        "It does 200 photos per second.",
    ],
)
def test_a_figure_without_a_source_is_found(tree, sentence):
    assert "has no source" in "".join(check_docs.figures("docs/gpu.md", f"Before.\n\n{sentence}\n\nAfter.\n"))


@pytest.mark.parametrize(
    "sentence",
    [
        "Tiles are 64x32 to 128x256, K 768.",
        "Heads of 72 columns.",
        "```sh\nsleep 5 s  # 40% of it\n```",
        "It prints `took 5 ms`.",
        "IEEE 754, chapter 9.7.16, sm_90.",
        "At most 15% <!-- in lab/profile/rules.cpp --> of it, and 1.5 ms.",
        "<!-- bench/report writes from here -->\n![1.4x](a.svg)\n<!-- to here -->",
    ],
)
def test_sizes_code_and_what_has_a_source_pass(tree, sentence):
    assert check_docs.figures("docs/gpu.md", f"Before.\n\n{sentence}\n\nAfter.\n") == []


def test_a_source_must_be_there_and_hold_the_number(tree):
    assert "16 in" in check_docs.figures("a.md", "At most 16% <!-- in lab/profile/rules.cpp -->.")[0]
    assert (
        "the source of a figure, lab/none.cpp, does not exist"
        in check_docs.figures("a.md", "At most 15% <!-- in lab/none.cpp -->.")[0]
    )
    # A source in another paragraph does not count for this one.
    assert check_docs.figures(
        "a.md", "About <!-- in lab/profile/rules.cpp -->.\n\nAt most 15%."
    ) and check_docs.figures("a.md", "- One <!-- in lab/profile/rules.cpp -->.\n- At most 15%.")


def test_what_a_test_holds_is_known_to_that_test(tree):
    text = "<!-- held by lab/profile/rules.cpp -->\n| 5 us |\n<!-- to here -->\n"
    assert check_docs.figures("docs/laboratory.md", text) == [
        "docs/laboratory.md: lab/profile/rules.cpp does not mention docs/laboratory.md"
    ]
    (tree / "lab/profile/rules.cpp").write_text("std::ifstream page(FOVEA_LABORATORY_PAGE);")
    assert check_docs.figures("docs/laboratory.md", text) == []


def test_tables_have_every_architecture():
    made_up = check_docs.archs.Arch(130, "Made-up", "M100", 64, (), target="sm_130a")
    assert check_docs.architectures((*check_docs.archs.ARCHS, made_up)) == [
        'docs/gpu.md: the table "What runs where" lacks 13.0 (M100)',
        "docs/emulator.md: the table of devices lacks `emu:sm_130a`",
    ]


def test_the_documents_have_no_figures_of_their_own(capsys):
    assert check_docs.main() == 0, capsys.readouterr().out
