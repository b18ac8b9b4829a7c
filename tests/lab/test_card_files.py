"""Card files: kernels that are not in the program go through the laboratory's commands, and mistakes in files are
named."""

import json
import pathlib
import re
import shutil
import sys

import pytest

pytestmark = pytest.mark.usefixtures("with_kernels", "with_numpy")

CARDS = pathlib.Path(__file__).parents[2] / "examples/cards"
ON_EMULATOR = ("--device", "emu", "--schedules", "4")


@pytest.fixture
def with_numpy(monkeypatch):
    """Has the references computed by the Python of the tests."""
    monkeypatch.setenv("FOVEA_PYTHON", sys.executable)


@pytest.fixture
def card(tmp_path):
    """card(name, change, **fields): a copy of an example whose source `change` changes, with other fields in the file;
    None leaves one out. Returns its path."""

    def copy(name, change=lambda text: text, **fields):
        shutil.copytree(CARDS, tmp_path, dirs_exist_ok=True)
        path = tmp_path / f"{name}.json"
        document = json.loads(path.read_text())
        code = tmp_path / document["source"]
        code.write_text(change(code.read_text()))
        for field, value in fields.items():
            if value is None:
                del document[field]
            else:
                document[field] = value
        path.write_text(json.dumps(document))
        return path

    return copy


def without(line):
    def change(text):
        assert line in text
        return text.replace(line, "", 1)

    return change


def test_examples_are_right_on_the_emulator(run_fovea):
    told = run_fovea("kernel", "check", CARDS / "gemm_gelu.json", CARDS / "softmax.json", *ON_EMULATOR).stdout
    lines = told.splitlines()
    assert sum(line.startswith("pass") for line in lines) == len([line for line in lines if ".json " in line]) == 14
    assert len(re.findall("mutant: .*: rejected: ", told)) == 8
    assert len(re.findall(r"NaN in row \d+", told)) == 2
    assert all(case in told for case in ("k160_m128_n64", "k32_m64_n192", "n1000_rows5", "n17_rows3"))


def test_a_missing_barrier_is_a_race_in_the_source(run_fovea, card):
    path = card("gemm_gelu", without("    __syncthreads();  // the stage is filled, and the one before it is read\n"))
    told = run_fovea("kernel", "check", path, *ON_EMULATOR, code=1).stdout
    assert re.search(r"FAIL .*race: .*gemm_gelu\.cu:\d+.*earlier access: ", told)
    again = re.search(r"again: fovea (kernel emulate .*)", told)[1].replace("'", "").split()
    assert "race" in run_fovea(*again, code=1).stdout


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("gemm_gelu", lambda text: text.replace("+ bias[to_column])", ")")),
        ("gemm_gelu", lambda text: text.replace("0.70710678F", "0.6F")),
        ("softmax", lambda text: text.replace("/ sum;", "/ (sum + 0.001F);")),
    ],
)
def test_a_wrong_kernel_is_found(run_fovea, card, name, wrong):
    assert wrong((CARDS / f"{name}.cu").read_text()) != (CARDS / f"{name}.cu").read_text()
    assert "FAIL" in run_fovea("kernel", "check", card(name, wrong), *ON_EMULATOR, code=1).stdout


def test_a_mutant_that_is_no_mistake_is_told(run_fovea, card):
    path = card("softmax", mutants={"none": "exp(x) / sum(exp(x), axis=-1, keepdims=True)"})
    told = run_fovea("kernel", "check", path, *ON_EMULATOR, code=1).stdout
    assert "mutant: none" in told and "the check did not detect the mutant" in told


def test_rows_that_are_not_independent_are_told(run_fovea, card):
    path = card(
        "softmax",
        lambda text: text.replace("/ sum;", "/ sum + 0.0F * x[static_cast<size_t>(gridDim.x / 2) * n + n - 1];"),
    )
    told = run_fovea("kernel", "check", path, *ON_EMULATOR, code=1).stdout
    assert re.search("FAIL .*NaN in row 2", told)


def test_other_problems(run_fovea):
    told = run_fovea(
        "kernel", "check", CARDS / "softmax.json", "--device", "emu:sm_80", "--problem", "rows=2,n=300"
    ).stdout
    assert "pass" in told and "rows=2,n=300" in told
    wrong = run_fovea("kernel", "check", CARDS / "softmax.json", "--device", "emu", "--problem", "columns=3", code=2)
    assert "have no field 'columns'; there are: n, rows" in wrong.stderr
    assert (
        "no case"
        in run_fovea("kernel", "check", CARDS / "softmax.json", "--case", "n5", "--device", "emu", code=2).stderr
    )


def test_list(run_fovea):
    told = run_fovea("kernel", "list", "-v", CARDS / "gemm_gelu.json").stdout
    assert "sm_80, sm_90" in told and "gelu(x w^T + bias)" in told and "k1024_m4096_n4096" in told
    (listed,) = json.loads(run_fovea("kernel", "list", CARDS / "gemm_gelu.json", "--json").stdout)["cards"]
    timed = listed["cases"][-1]
    assert timed["flops"] == 2 * 4096 * 4096 * 1024 and timed["bytes"] == 2 * (2 * 4096 * 1024 + 4096**2) + 4 * 4096
    assert [kernel["name"] for kernel in listed["kernels"]] == ["gemm_gelu"]


def test_resources_and_machine_code(run_fovea, card):
    told = run_fovea("kernel", "resources", CARDS / "gemm_gelu.json").stdout
    assert len(re.findall("^gemm_gelu ", told, re.M)) == 2 and "2/2 within their limits" in told
    assert "gemm_gelu" in run_fovea("kernel", "sass", CARDS / "gemm_gelu.json").stdout
    few = card("gemm_gelu", limits={"registers": 20, "sass_has": ["HMMA"]})
    assert "registers" in run_fovea("kernel", "resources", few, code=1).stdout
    other = card("gemm_gelu", limits={"sass_has": ["QGMMA"]})
    assert "QGMMA" in run_fovea("kernel", "sass", other, code=1).stdout


def test_mutants_of_the_ptx_are_caught(run_fovea):
    told = json.loads(
        run_fovea("kernel", "mutate", CARDS / "gemm_gelu.json", "--most", "12", "--schedules", "10", "--json").stdout
    )
    assert len(told["mutants"]) >= 5 and told["caught"] >= 0.8


def test_ptx_is_a_source(run_fovea, card, fovea_bin, tmp_path):
    path = card("softmax")
    ptx = tmp_path / "own.ptx"
    document = json.loads(path.read_text())
    run_fovea("kernel", "check", path, *ON_EMULATOR)
    saxpy = CARDS.parent / "emulate/saxpy.ptx"
    shutil.copy(saxpy, ptx)
    document = {
        "source": "own.ptx",
        "problem": {"n": 500},
        "buffers": {
            "x": {"type": "f32", "shape": ["n"], "content": {"normal": {}}},
            "y": {"type": "f32", "shape": ["n"], "content": {"normal": {}}},
        },
        "launch": {
            "kernel": "saxpy",
            "grid": "cdiv(n, 256)",
            "block": 256,
            "arguments": [{"s32": "n"}, {"f32": 2}, {"buffer": "x"}, {"buffer": "y"}],
        },
        "reference": {"y": "2 * x + y"},
    }
    path.write_text(json.dumps(document))
    assert "pass" in run_fovea("kernel", "check", path, *ON_EMULATOR).stdout
    path.write_text(json.dumps(document | {"targets": ["sm_80"]}))
    assert "PTX has a target of its own" in run_fovea("kernel", "list", path, code=1).stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"refrence": {"y": "x"}}, 'unknown field "refrence"; did you mean reference?'),
        ({"source": None}, 'the field "source" is missing'),
        ({"source": "none.cu"}, "none.cu: cannot open"),
        ({"reference": {"z": "x"}}, "there is no buffer z"),
        ({"reference": {"y": "x", "x": "y"}}, "expected the expression of one buffer, got 2"),
        ({"cases": [{"columns": 3}]}, "cases[0]: the problem has no field columns"),
        ({"cases": [{"n": 3}, {"n": 3}]}, "cases[1]: the case n3_rows65536 is there twice"),
        ({"targets": ["90a"]}, "90a is no target; sm_80 and sm_90a are some"),
        ({"macros": {"a b": 1}}, 'macros: "a b" is no name of a macro'),
        ({"problem": {"rows": 4}}, 'the expression "n" has the unknown name n'),
    ],
)
def test_mistakes_are_named(run_fovea, card, changes, words):
    message = run_fovea("kernel", "list", "-v", card("softmax", **changes), code=1).stderr
    assert words in message.replace("\n", " ") and "softmax" in message


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("softmax(z)", "NameError: name 'z' is not defined"),
        ("softmax(x)[0]", "the result has the shape [1000], and the output [5, 1000]"),
        ("softmax(x", "SyntaxError"),
    ],
)
def test_mistakes_of_expressions_are_named(run_fovea, card, expression, words):
    path = card("softmax", reference={"y": expression})
    done = run_fovea("kernel", "check", path, *ON_EMULATOR, code=1)
    assert words in done.stdout + done.stderr


def test_a_python_without_numpy_is_told(run_fovea, tmp_path):
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    program.chmod(0o755)
    done = run_fovea(
        "kernel", "check", CARDS / "softmax.json", *ON_EMULATOR, code=1, env={"FOVEA_PYTHON": str(program)}
    )
    assert "No module named 'numpy'" in done.stdout and "FOVEA_PYTHON" in done.stdout


def test_a_source_that_the_compiler_rejects(run_fovea, card):
    done = run_fovea("kernel", "check", card("softmax", lambda text: text + "int x = ;"), *ON_EMULATOR, code=1)
    assert "expected an expression" in done.stderr


def test_kernels_are_found_by_name(run_fovea, card):
    path = card("softmax", lambda text: text.replace("softmax(const", "other(const"))
    assert "has no kernel softmax; its kernels are other" in run_fovea("kernel", "list", path, code=1).stderr
