"""scripts/check_includes.py on small trees: what the tables of docs/architecture.md do not allow fails."""

import pathlib
import subprocess
import sys

import pytest

CHECKER = pathlib.Path(__file__).resolve().parents[2] / "scripts/check_includes.py"

ARCHITECTURE = """\
| folder | what is in it | may include |
| --- | --- | --- |
| `include/fovea/` | the public API | - |
| `src/core/` | errors | - |
| `src/ops/` | operators | `src/core` |
| `src/launch/` | launchers | `src/core`, `kernels/*/params.hpp`, `kernels/list.hpp` |
| `src/backends.*` | all of them | `src/ops` |
| `kernels/ptx/` | instructions | - |
| `kernels/*/` | a folder per operator | `kernels/ptx` |
| `bench/` | figures | `src/backends.hpp` |
| `tests/` | tests | `tests/*`, `src/*` |

| headers that begin with | only in |
| --- | --- |
| `curl/` | `src/ops` |
"""

FILES = {
    "docs/architecture.md": ARCHITECTURE,
    "include/fovea/error.hpp": "#include <string>\n",
    "src/core/buffer.hpp": '#include "fovea/error.hpp"\n',
    "src/ops/problem.hpp": '#include "core/buffer.hpp"\n#include <curl/curl.h>\n',
    "src/ops/reference/gelu.hpp": '#include "core/buffer.hpp"\n#include "ops/problem.hpp"\n',
    "src/launch/gemm.cpp": '#include "kernels/gemm/params.hpp"\n  # include "kernels/list.hpp"\n',
    "src/backends.hpp": "",
    "src/backends.cpp": '#include "backends.hpp"\n#include "ops/problem.hpp"\n',
    "kernels/variants.py": 'write("include/kernels/list.hpp")\n',
    "kernels/ptx/mma.cuh": "",
    "kernels/gemm/params.hpp": "",
    "kernels/gemm/gemm.cuh": '#include "kernels/ptx/mma.cuh"\n#include "kernels/gemm/params.hpp"\n',
    "kernels/norm/params.hpp": "",
    "bench/rate.cpp": '#include "backends.hpp"\n',
    "tests/ops/support.hpp": "",
    "tests/ops/problem_test.cpp": '#include "support.hpp"\n#include "ops/reference/gelu.hpp"\n',
}


def check(root: pathlib.Path, files: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of the checker on a tree of these files; an empty path is left out."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run([sys.executable, CHECKER, root], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_allowed_arrows_pass(tmp_path):
    assert check(tmp_path, FILES) == (0, "include graph and lengths: 15 files pass\n")


def including(header: str) -> str:
    return f'#include "{header}"\n'


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        (
            "src/core/buffer.hpp",
            including("ops/problem.hpp"),
            ':1: src/core may not include "ops/problem.hpp" of src/ops',
        ),
        ("src/core/buffer.hpp", "#include <curl/curl.h>\n", ":1: <curl/curl.h> may be included only in src/ops"),
        ("src/launch/gemm.cpp", including("kernels/gemm/gemm.cuh"), "of kernels/gemm"),
        ("kernels/norm/norm.cu", including("kernels/gemm/params.hpp"), "kernels/norm may not include"),
        ("kernels/ptx/mma.cuh", including("kernels/gemm/params.hpp"), "kernels/ptx may not include"),
        ("bench/rate.cpp", including("ops/problem.hpp"), "bench may not include"),
        ("tests/ops/problem_test.cpp", including("kernels/ptx/mma.cuh"), "tests may not include"),
        ("src/ops/problem.hpp", including("kernels/list.hpp"), "src/ops may not include"),
        ("src/ops/problem.hpp", including("kernels/other.hpp"), 'cannot find "kernels/other.hpp"'),
        ("src/ops/problem.hpp", including("src/core/buffer.hpp").replace("src/", ""), None),
        ("include/fovea/error.hpp", "#if 1\n", ":1: public headers must not contain #if"),
        ("kernels/norm/norm.cu", "ptx::mbarrier_wait_parity(&full, 0);\n", ":1: direct use of `mbarrier_wait_parity`"),
        ("kernels/norm/norm.cu", "ptx::setmaxnreg_dec<24>();\n", ":1: direct use of `setmaxnreg_dec`"),
        ("kernels/norm/norm.cu", "ptx::bar_sync(1 + group, 128);\n", ":1: direct use of `bar_sync`"),
        ("kernels/norm/norm.cu", "phase ^= 1;\n", ":1: direct use of `phase ^=`"),
        ("kernels/norm/norm.cu", "x ^= 1;  // phase ^= 1 elsewhere\n", None),
        ("kernels/ptx/mma.cuh", "void bar_sync();\n", None),
        ("src/new/file.cpp", "", ": its folder has no row in docs/architecture.md"),
        ("src/file.cpp", "", ": its folder has no row in docs/architecture.md"),
        ("src/core/long.cpp", "\n" * 551, ": has 551 lines, but at most 550 are allowed; split it"),
        ("bench/long.py", "\n" * 551, ": has 551 lines, but at most 550 are allowed; split it"),
        ("src/core/short.cpp", "\n" * 550, None),
    ],
)
def test_sources(tmp_path, path, text, problem):
    code, output = check(tmp_path, FILES | {path: text})
    assert code == (0 if problem is None else 1)
    assert problem is None or (output.startswith(path) and problem in output and output.count("\n") == 1)


ROOMS = ARCHITECTURE.replace(
    "| `bench/` |", "| `lab/*/` | rooms | `lab/*` |\n| `lab/*/gpu.cpp` | parts | `src/launch` |\n| `bench/` |"
).replace("`kernels/list.hpp` |", "`kernels/list.hpp`, `lab/*` |")


@pytest.mark.parametrize(
    ("files", "circle"),
    [
        (
            {
                "lab/cards/card.hpp": including("lab/check/judge.hpp"),
                "lab/check/judge.hpp": including("lab/measure/timer.hpp"),
                "lab/measure/timer.hpp": "// none of its own room\n" + including("lab/cards/card.hpp"),
            },
            (
                "lab/cards/card.hpp:1: lab/cards includes lab/check",
                "lab/check/judge.hpp:1: lab/check includes lab/measure",
                "lab/measure/timer.hpp:2: lab/measure includes lab/cards",
            ),
        ),
        (
            {
                "lab/cards/card.hpp": including("lab/check/judge.hpp"),
                "lab/check/judge.hpp": including("lab/cards/draw.hpp"),
                "lab/cards/draw.hpp": "",
            },
            (
                "lab/cards/card.hpp:1: lab/cards includes lab/check",
                "lab/check/judge.hpp:1: lab/check includes lab/cards",
            ),
        ),
        (
            {"src/ops/problem.hpp": including("ops/reference/gelu.hpp")},
            ("src/ops/problem.hpp:1:", "src/ops/reference/gelu.hpp:2:"),
        ),
        ({"lab/cards/card.hpp": including("lab/check/judge.hpp"), "lab/check/judge.hpp": ""}, ()),
        # A row of files stands apart from the folder that they lie in.
        (
            {
                "src/launch/gemm.cpp": including("lab/cards/card.hpp"),
                "lab/cards/gpu.cpp": including("src/launch/gemm.hpp"),
                "src/launch/gemm.hpp": "",
            },
            (),
        ),
        (
            {
                "src/launch/gemm.cpp": including("lab/cards/card.hpp"),
                "lab/cards/other.cpp": including("lab/cards/gpu.cpp"),
                "lab/cards/gpu.cpp": including("src/launch/gemm.hpp"),
                "src/launch/gemm.hpp": "",
            },
            (
                "src/launch/gemm.cpp:1: src/launch includes lab/cards",
                "lab/cards/gpu.cpp:1: lab/*/gpu.cpp includes src/launch",
                "lab/cards/other.cpp:1: lab/cards includes lab/*/gpu.cpp",
            ),
        ),
        (
            {
                "tests/ops/support.hpp": including("tests/io/file.hpp"),
                "tests/io/file.hpp": including("tests/ops/support.hpp"),
            },
            (),
        ),
    ],
)
def test_circles_of_folders(tmp_path, files, circle):
    room = {"lab/cards/card.hpp": "", "lab/cards/gpu.cpp": ""} | files
    code, output = check(tmp_path, FILES | {"docs/architecture.md": ROOMS} | room)
    assert code == (1 if circle else 0)
    assert output.count("in the cycle") == len(circle)
    assert all(problem in output for problem in circle)


@pytest.mark.parametrize(
    ("row", "changed", "problem"),
    [
        ("| `src/core/` | errors | - |\n", "", "src/core/buffer.hpp: its folder has no row"),
        ("| `src/core/` | errors | - |\n", "| `src/core/` | errors | all |\n", "architecture.md:4: expected `name`"),
        ("| `src/core/` | errors | - |\n", "| src/core | errors | - |\n", "architecture.md:4: expected `name`"),
        ("| `tests/` |", "| `gone/` | left behind | - |\n| `tests/` |", "`gone` of the row `gone` does not exist"),
        ("| `src/core` |\n", "| `src/gone` |\n", "`src/gone` of the row `src/ops` does not exist"),
        ("| may include |", "| includes |", 'there is no table with a column "may include"'),
        ("| only in |", "| in |", 'there is no table with a column "only in"'),
    ],
)
def test_tables(tmp_path, row, changed, problem):
    assert row in ARCHITECTURE
    code, output = check(tmp_path, FILES | {"docs/architecture.md": ARCHITECTURE.replace(row, changed, 1)})
    assert code == 1
    assert problem in output
