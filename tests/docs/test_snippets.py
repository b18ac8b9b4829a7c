"""Every snippet of the documents runs: each document's own, one after another, in a folder that holds what they name.

A snippet that fails here needs the files or models that it names (made in conftest.py), values (PRELUDES), or a reason
why it cannot run (NOT_RUN): then its options are still compared with what the program's help or the script's text
knows."""

import ast
import functools
import json
import re
import subprocess
import sys

import pytest
from snippets import DOCUMENTS, ROOT, fences, inline_commands, name_of, shell_commands, words

# Commands and lines of Python that begin like this, or hold it after "...": why they are not run.
NOT_RUN = {
    "git clone": "needs a network",
    "apt-get install": "installs packages",
    "pip install": "needs a wheel, which the stage `wheel` builds and installs",
    "scripts/": "installs, builds, tests or measures everything",
    "ctest ": "is a stage of its own",
    "ninja ": "builds",
    "nvcc ": "needs CUDA's compiler",
    "fovea emulate sum.cu": "needs CUDA's compiler; tests/emulation runs it",
    "pytest --emu-schedules": "needs the wheel, whose tests run it",
    "... -- ./": "needs a program that CUDA's compiler has made; tests/emulation runs such",
    "fovea kernel try": "is not judged without a GPU: exit code 3",
    "fovea merge part-": "needs the shares of eight machines",
    "... -m pytest": "is a stage of its own",
    "... --device cuda": "needs a GPU",
    "... fovea kernel check": "needs a GPU",
    "... fovea kernel bench": "needs a GPU",
    "... fovea kernel profile": "needs a GPU",
    "... fovea kernel compare": "needs a GPU",
    "... fovea kernel run": "needs a GPU",
    "... fovea kernel capture": "needs a GPU",
    "... fovea kernel mutate": "takes minutes; tests/lab runs it",
    "... fovea kernel evolve": "takes minutes; tests/lab runs it",
    "... fovea kernel resources": "needs kernels; the stage `kernels` runs it",
    "... fovea kernel sanitize": "needs a GPU",
    "build/dev/tests/captures_tool ": "needs a GPU, or what one has written",
    "... fovea kernel sass": "needs kernels; the stage `kernels` runs it",
    "python3 bench/": "measures for minutes",
    "python3 tests/emulator/everyday/": "needs CUDA's compiler or a GPU; tests/emulation compiles and runs the kernels",
    "python -m fovea.lab.accept": "runs for minutes",
    "python -m fovea.lab.bench_attention": "runs for minutes",
    "y = fovea.ops.attention(q, k, v, impl=": "needs a GPU",
}

# What commands are given instead of what they say.
INSTEAD = {
    "find / ": "find photos/ ",
    "GIT_REPOSITORY <this repository> GIT_TAG main": f"SOURCE_DIR {ROOT}",
}

# What documents take for granted in Python: all of them, and single ones.
PRELUDE = """\
images = ["photos/cat.jpg", "photos/grass.jpg"]
index = type("Index", (), {"add": lambda *row: None})()
"""
PRELUDES = {
    "docs/emulator.md": "import pytest",
    "docs/images.md": "from PIL import Image, ImageOps; file = 'cat.jpg'; width = height = 64; resample = Image.Resampling.BILINEAR",
    "docs/operators.md": "import torch; q = k = v = torch.randn(1, 2, 8, 16)",
    "docs/output.md": "line = open('OUT/index-00000.jsonl').readline()",
}

LANGUAGES = {"sh", "python", "cpp", "c", "cmake", "json", "text", ""}


def reason(line: str) -> str | None:
    """The row of NOT_RUN that a command or line belongs to."""
    line = line.strip()
    return next((row for row in NOT_RUN if line.startswith(row) or row.startswith("... ") and row[4:] in line), None)


def instead(text: str) -> str:
    return functools.reduce(lambda text, row: text.replace(*row), INSTEAD.items(), text)


def checked(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def run(*command, **options) -> str:
    return checked(
        subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, check=False, **options)
    )


@pytest.fixture(scope="session")
def help_of(run_fovea):
    return functools.cache(lambda *command: run_fovea(*command, "--help").stdout)


@pytest.fixture(scope="session")
def cards(run_fovea):
    return functools.cache(
        lambda: [card["name"] for card in json.loads(run_fovea("kernel", "list", "--json").stdout)["cards"]]
    )


def unknown(command: str, help_of, cards) -> list[str]:
    """Subcommands, options and cards that `fovea ...` in this command line does not have."""
    found = []
    parts = words(command)
    for index, word in enumerate(parts):
        if word != "fovea" and not word.endswith("/bin/fovea"):
            continue
        rest = list(parts[index + 1 :])
        rest = rest[: next((i for i, part in enumerate(rest) if part in ("|", "||", "&&", ";", ">")), len(rest))]
        path = []
        while rest and (not path or path == ["kernel"]) and re.fullmatch(r"[a-z-]+", rest[0]) and rest[0][0] != "-":
            path.append(rest.pop(0))
        for depth, name in enumerate(path):
            if not re.search(rf"(^\s+|fovea ){name}\b", help_of(*path[:depth]), re.MULTILINE):
                return [*found, f"{' '.join(path[: depth + 1])} is no command"]
        if path[:1] == ["kernel"] and re.search(r"^Usage: .*\bCARD\b", help_of(*path), re.MULTILINE):
            found += [
                f"{name} is no card"
                for name in rest[:1]
                if re.fullmatch("[a-z][a-z0-9_]*", name) and name not in cards()
            ]
        for option in (part.split("=")[0] for part in rest if re.match(r"-{1,2}[a-zA-Z]", part)):
            if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", help_of(*path)):
                found.append(f"{' '.join(path)} has no {option}")
    return found


def known_by_script(command: str) -> bool:
    """A script exists, and its text names the options that it is given."""
    script, *arguments = words(command)
    text = (ROOT / script).read_text()
    return all(argument in text for argument in arguments if argument.startswith("-"))


def test_languages():
    for document in DOCUMENTS:
        for snippet in fences(document):
            assert snippet.language in LANGUAGES, (
                f"{snippet.where}: this test does not know how to run {snippet.language}"
            )


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if any(s.language == "sh" for s in fences(d))], ids=name_of)
def test_commands(document, sandbox, environment, help_of, cards):
    script = ["set -euo pipefail"]
    for snippet in (
        command for fence in fences(document) if fence.language == "sh" for command in shell_commands(fence)
    ):
        if reason(snippet.text):
            assert unknown(snippet.text, help_of, cards) == [], f"{snippet.where}: {snippet.text}"
            if snippet.text.startswith("scripts/"):
                assert known_by_script(snippet.text), f"{snippet.where}: {snippet.text}"
            continue
        if fresh := re.search(r"fovea (?:embed|init|preprocess)\b.* -o (\S+)", snippet.text):
            script.append(f"rm -rf {fresh[1]}")  # of the command before it, which may have had another model
        script += [f"echo {snippet.where} >&2", instead(snippet.text)]
    run("bash", "-c", "\n".join(script), cwd=sandbox, env=environment)


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if any(s.language == "python" for s in fences(d))], ids=name_of
)
def test_python(document, sandbox, environment):
    program = [PRELUDE, PRELUDES.get(name_of(document), "")]
    for snippet in (s for s in fences(document) if s.language == "python"):
        lines = [re.sub(r"\S.*", "pass", line) if reason(line) else line for line in snippet.text.splitlines()]
        ast.parse(snippet.text)
        program += [f"exec(compile({chr(10).join(lines)!r}, {snippet.where!r}, 'exec'))"]
    run(sys.executable, "-c", "\n".join(program), cwd=sandbox, env=environment)


def test_cpp(sandbox, environment, fovea_bin):
    """Snippets are programs, or what stands in main."""
    for text, snippet in {s.text: s for d in DOCUMENTS for s in fences(d) if s.language == "cpp"}.items():
        if "int main" not in text:
            included = "".join(line + "\n" for line in text.splitlines() if line.startswith("#include"))
            text = included + "int main() {\n" + text.replace(included, "") + "}\n"
        (sandbox / "snippet.cpp").write_text(f'#line 1 "{snippet.where}"\n{text}')
        library = fovea_bin.parent.parent / "lib"
        emulator = []
        if "fovea_emulator/" in text:
            emulator = ["-I", ROOT / "emulator/include", "-lfovea_emulator"]
        run(
            "c++",
            "-std=c++20",
            "-I",
            ROOT / "include",
            "snippet.cpp",
            "-L",
            library,
            *emulator,
            "-lfovea",
            f"-Wl,-rpath,{library}",
            "-o",
            "snippet",
            cwd=sandbox,
        )
        run("./snippet", cwd=sandbox, env=environment)


def test_cmake(sandbox, environment, fovea_bin):
    run("cmake", "--install", fovea_bin.parent.parent, "--prefix", sandbox / "DIR")
    for number, snippet in enumerate(s for d in DOCUMENTS for s in fences(d) if s.language == "cmake"):
        project = sandbox / str(number)
        project.mkdir()
        (project / "app.cpp").touch()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(app LANGUAGES CXX)\nadd_executable(app app.cpp)\n"
            + instead(snippet.text)
        )
        run(
            "cmake",
            "-G",
            "Ninja",
            "-S",
            project,
            "-B",
            project / "build",
            f"-DCMAKE_PREFIX_PATH={sandbox}/DIR",
            "-DFOVEA_BUILD_KERNELS=OFF",
            env=environment,
        )


def test_json():
    """A document, where it begins with a brace alone; else one on each line."""
    for snippet in (s for d in DOCUMENTS for s in fences(d) if s.language == "json"):
        for text in [snippet.text] if snippet.text.startswith("{\n") else snippet.text.splitlines():
            json.loads(text)


def test_the_launch_file_is_the_examples():
    assert (ROOT / "examples/emulate/launch.json").read_text() in {s.text for s in fences(ROOT / "docs/emulator.md")}


def test_commands_in_the_text(help_of, cards):
    found = []
    for document in DOCUMENTS:
        for snippet in inline_commands(document):
            found += [f"{snippet.where}: `{snippet.text}`: {wrong}" for wrong in unknown(snippet.text, help_of, cards)]
    assert not found, "\n".join(found)


def test_every_row_of_the_tables_is_needed():
    lines = [line for d in DOCUMENTS for s in fences(d) for line in s.text.splitlines()]
    used = {reason(line) for line in lines}
    assert [row for row in NOT_RUN if row not in used] == []
    assert [row for row in INSTEAD if not any(row in line for line in lines)] == []
    assert [name for name in PRELUDES if name not in map(name_of, DOCUMENTS)] == []
