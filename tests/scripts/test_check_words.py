"""scripts/check_words.py: comments begin with a noun or a verb, and names are nouns."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))
import check_words


@pytest.mark.parametrize(
    "words",
    [
        "Of a GPU without a rate.",
        "Those of two rows.",
        "By what is on record of the device.",
        "To the resized positions, which are there first.",
        "None in text.",
        "Whose first input is the rows.",
        "Its last word.",
        "As Encoder's.",
        "That of its copy.",
        "At the end.",
        "So many take longer than a thread takes to start.",
    ],
)
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.cpp", "int x = 0;\n// {}\nint y = 0;\n"),
        ("a.hpp", "/// {}\n/// More.\nint x;\n"),
        ("a.cu", "/* {} */\n"),
        ("a.h", "/**\n * {}\n */\nint x;\n"),
        ("a.py", "x = 1\n# {}\ny = 2\n"),
        ("b.py", 'def load():\n    """{}"""\n'),
        ("build", "#!/usr/bin/env bash\n# {}\ntrue\n"),
    ],
)
def test_a_comment_that_hangs_in_the_air_is_found(name, source, words):
    (fault,) = check_words.faults(name, source.format(words))
    assert "a comment begins with" in fault and words.split()[0] in fault


@pytest.mark.parametrize(
    "words",
    [
        "Rates of a GPU.",
        "Bytes, at least 256-byte aligned.",
        "At most 3 rows.",
        "Some file systems round times.",
        "That would accept another image.",
        "Toggles it.",
        "to[i] = from[i], rounded.",
        "Whether it is done.",
        "What the rows hold.",
        "Format: none.",
    ],
)
def test_nouns_verbs_and_formulas_pass(words):
    assert check_words.faults("a.cpp", f"// {words}\nint x;\n") == []
    assert check_words.faults("a.py", f"# {words}\nx = 1\n") == []


@pytest.mark.parametrize(
    "source",
    [
        "// Rows\n// of a matrix.\n",
        "int rows = 0;  // of a matrix\n",
        "int rows = 0;  // what is there\n               // of a matrix\n",
        'auto s = "// Of nothing";\n',
        'auto s = R"(\n// Of nothing\n)";\n',
        "int big = 1'000;  // it's\n// Rows.\n",
    ],
)
def test_the_middle_of_a_comment_comments_behind_code_and_literals_pass(source):
    assert check_words.faults("a.cpp", source) == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("const auto of = [&](int x) { return x; };", "of"),
        ("void write(std::size_t at, int b);", "at"),
        ("struct A { std::vector<int> own_; };", "own"),
        ("for (const Row& one : rows) {}", "one"),
        ("Row *many;", "many"),
        ("const auto [some, count] = pair();", "some"),
        ("auto f = [](const std::string& with) {};", "with"),
        ("Result both{};", "both"),
        ("double most(int x);", "most"),
    ],
)
def test_a_name_that_is_a_preposition_or_pronoun_is_found_in_cpp(source, name):
    assert check_words.faults("a.hpp", source + "\n") == [
        f"a.hpp:1: `{name}` is not a descriptive name: use a noun or a verb"
    ]


@pytest.mark.parametrize(
    "source",
    [
        "int offset = rows.at(1);",
        "const Row& at(std::size_t row) const;",
        "return one;",
        'auto s = "int of = 1;";',
        "// int of = 1;",
        "std::span<int> ones, atoms;",
    ],
)
def test_nouns_uses_and_accessors_pass_in_cpp(source):
    assert check_words.cpp_names(source + "\n") == []


@pytest.mark.parametrize(
    "source",
    [
        "own = 1",
        "def f(of): pass",
        "def of(x): pass",
        "for at in range(3): pass",
        "rows = [one for one in items]",
        "f = lambda own: own",
        "self.most = 1",
        "a, (many, b) = pair",
    ],
)
def test_a_name_that_is_a_preposition_or_pronoun_is_found_in_python(source):
    (fault,) = check_words.faults("a.py", source + "\n")
    assert "is not a descriptive name" in fault


def test_nouns_pass_in_python():
    assert check_words.python_names("row = items.at(1)\nprint(one)\nowner = f(most=2)\n") == []


def test_files_that_are_no_sources_are_left_out():
    assert check_words.faults("notes.md", "# Of the rows\n") == []


def test_the_program_names_what_it_finds(tmp_path, monkeypatch, capsys):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.cpp").write_text("// Of rows.\nint one = 1;\n")
    (tmp_path / "src/b.cpp").write_text("// Rows.\nint rows = 1;\n")
    (tmp_path / "src/table.json").write_text("{}")
    (tmp_path / "other.cpp").write_text("// Of rows.\n")
    monkeypatch.setattr(check_words, "ROOT", tmp_path)
    monkeypatch.setattr(check_words, "FOLDERS", ("src",))
    assert check_words.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == ["src/a.cpp:1", "src/a.cpp:2"]
    (tmp_path / "src/a.cpp").unlink()
    assert check_words.main() == 0
    assert "1 sources" in capsys.readouterr().out
