"""Projects on what `cmake --install` leaves, and one that holds Fovea's sources: in C and C++, by CMake and
pkg-config."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PHOTOS = sorted((ROOT / "examples" / "photos").glob("*.jpg"))


def run(*command, **options):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, check=False, **options)


def output(*command, **options):
    done = run(*command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(fovea_bin, tmp_path_factory):
    """A prefix that was moved after the installation."""
    build = fovea_bin.parent.parent
    if not (build / "lib/libfovea.so").is_file():
        pytest.skip(f"needs a build folder with libfovea.so, and {build} is none")
    folder = tmp_path_factory.mktemp("installed")
    output("cmake", "--install", build, "--prefix", folder / "before")
    return (folder / "before").rename(folder / "prefix")


@pytest.fixture(scope="module")
def library(installed):
    (path,) = installed.glob("lib*/**/libfovea.so")
    return path


@pytest.fixture(scope="module")
def build_c(installed, library):
    """build_c("embed"): that example in C, built as its first lines say."""

    def build(name):
        program = installed / f"{name}-c"
        found = os.environ | {"PKG_CONFIG_PATH": str(library.parent / "pkgconfig")}
        flags = output("pkg-config", "--cflags", "--libs", "fovea", env=found).split()
        warnings = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        source = ROOT / f"examples/{name}.c"
        output("cc", *warnings, source, *flags, "-lm", f"-Wl,-rpath,{library.parent}", "-o", program)
        return program

    return build


@pytest.fixture(scope="module")
def c_example(build_c):
    return build_c("embed")


@pytest.fixture(scope="module")
def examples(installed, tmp_path_factory):
    """The folder of what the examples' project builds, outside of the source tree."""
    project = tmp_path_factory.mktemp("project")
    for path in (ROOT / "examples").iterdir():
        if path.is_file():
            shutil.copy(path, project)
    output("cmake", "-G", "Ninja", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    output("cmake", "--build", project / "build")
    return project / "build"


@pytest.fixture(scope="module")
def cpp_example(examples):
    return examples / "embed"


def test_the_examples_project_builds_every_program(examples, model):
    folder = ROOT / "examples"
    sources = {path.stem for path in folder.glob("*.cpp")} | {f"{path.stem}_c" for path in folder.glob("*.c")}
    built = {path.name for path in examples.iterdir() if path.is_file() and os.access(path, os.X_OK)}
    assert built == sources
    assert output(examples / "embed_c", model, *PHOTOS[:3]) == output(examples / "embed", model, *PHOTOS[:3])


def test_what_is_installed(installed, library):
    files = {str(path.relative_to(installed)) for path in installed.rglob("*") if not path.is_dir()}
    roots = (ROOT / "include", ROOT / "emulator/include")
    public = {f"include/{path.relative_to(root)}" for root in roots for path in root.rglob("*.h*")}
    assert (
        public | {"bin/fovea", "share/doc/fovea/LICENSE", "share/doc/fovea/NOTICE", "share/man/man1/fovea-embed.1"}
        <= files
    )
    assert {"share/bash-completion/completions/fovea", "share/zsh/site-functions/_fovea"} <= files
    assert "share/fish/vendor_completions.d/fovea.fish" in files
    assert "SONAME" in (dynamic := output("readelf", "-d", library)) and "[libfovea.so.0]" in dynamic
    assert library.is_symlink() and (library.parent / "libfovea.so.0").is_symlink()
    assert "fovea" in output(installed / "bin/fovea", "--version")


def test_scripts_build_builds_all_that_is_installed(installed, fovea_bin, tmp_path):
    """The README's two commands are enough: `scripts/build`, then `cmake --install`."""
    build = fovea_bin.parent.parent
    (tmp_path / "cmake").write_text('#!/bin/sh\necho "$@" >>"$0.calls"\n')
    (tmp_path / "cmake").chmod(0o755)
    output(ROOT / "scripts/build", env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    (targets,) = re.findall(r"--build .* --target (.*)", (tmp_path / "cmake.calls").read_text())
    linked = re.findall(r"^(\S+): \w*LINKER\w*$", output("ninja", "-C", build, "-t", "targets", "all"), re.M)
    names = {path.name for path in installed.rglob("*") if path.is_file()}
    needed = {path for path in linked if pathlib.Path(path).name in names and not path.startswith("tests/")}
    assert {"fovea", "libfovea", "libfovea_codecs", "libfovea_emulator", "libfovea_cuda", "libcuda", "libcudart"} == {
        pathlib.Path(path).name.split(".")[0] for path in needed
    }
    built = set(re.findall(r" -o (\S+)", output("ninja", "-C", build, "-t", "commands", *targets.split())))
    assert needed <= built, f"scripts/build does not build {needed - built}"


def test_the_library_exports_its_public_interfaces_alone(library):
    exported = [line.split(" ", 2)[2] for line in output("nm", "-DC", "--defined-only", library).splitlines()]
    cpp = r"fovea::([A-Z]\w+::)?(~?\w+|operator=)[\[(].*"
    public = re.compile(rf"fovea_\w+|(vtable|typeinfo|typeinfo name) for fovea::Error|fovea::k[A-Z]\w+|{cpp}")
    assert [name for name in exported if not public.fullmatch(name)] == []
    for name in ("fovea_encoder_load", "fovea::Encoder::Encoder(", "fovea::embed_job(", "fovea::pull"):
        assert any(symbol.startswith(name) for symbol in exported), name
    for header in (ROOT / "include/fovea").glob("*.hpp"):
        assert re.search(r'^namespace \[\[gnu::visibility\("default"\)\]\] fovea \{$', header.read_text(), re.M), (
            f"{header} exports nothing"
        )


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_an_example_gives_the_values_of_the_command(language, request, run_fovea, model, tmp_path):
    example = request.getfixturevalue(f"{language}_example")
    photos = PHOTOS[:4]
    run_fovea("embed", *photos, "-m", model, "-o", tmp_path / "rows.npy")
    rows = numpy.load(tmp_path / "rows.npy")
    cosines = [float(line.split()[0]) for line in output(example, model, *photos).splitlines()]
    assert numpy.abs(cosines - rows[1:] @ rows[0]).max() < 1e-4


def test_a_c_program_hears_of_a_broken_photo(c_example, model, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"\xff\xd8\xff")
    done = run(c_example, model, PHOTOS[0], broken)
    assert done.returncode == 3
    assert f"{broken}: " in done.stderr
    assert done.stdout.startswith("nan ") or done.stdout.startswith("-nan ")


def test_the_c_program_that_searches_finds_what_the_command_finds(build_c, run_fovea, model, tmp_path):
    run_fovea("embed", *PHOTOS[:5], "-m", model, "-o", tmp_path / "out")
    program = build_c("search")
    for words in ("A Dog", "дом у моря"):
        found = json.loads(run_fovea("search", words, "--in", tmp_path / "out", "--json").stdout)["queries"][0][
            "matches"
        ]
        lines = [line.split(" ", 2) for line in output(program, tmp_path / "out", words).splitlines()]
        assert [path for _, _, path in lines] == [match["source"] for match in found]
        for (score, probability, _), match in zip(lines, found, strict=True):
            assert float(score) == pytest.approx(match["score"], abs=1e-4)
            assert float(probability) == pytest.approx(match["probability"], abs=1e-5)
    done = run(program, tmp_path / "none", "A Dog")
    assert done.returncode == 1 and str(tmp_path / "none") in done.stderr


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_an_example_hears_of_a_missing_model(language, request, tmp_path):
    done = run(request.getfixturevalue(f"{language}_example"), tmp_path / "none", PHOTOS[0], PHOTOS[0])
    assert done.returncode == 1
    assert "none" in done.stderr  # in C++ an exception crossed from the library to the program


EMULATOR_PROJECT = """\
cmake_minimum_required(VERSION 3.25)
project(tests LANGUAGES CXX)
find_package(fovea REQUIRED)
add_executable(saxpy saxpy.cpp)
target_link_libraries(saxpy PRIVATE fovea::emulator)
"""

EMULATOR_PROGRAM = """\
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fovea_emulator/device.hpp"
#include "fovea_emulator/error.hpp"
#include "fovea_emulator/tensor_map.hpp"

int main(int, char** arguments) {
  std::ifstream file(arguments[1]);
  const std::string ptx{std::istreambuf_iterator<char>(file), {}};
  emu::Device device;
  const emu::KernelHandle kernel = device.load(ptx).front();
  std::vector<float> x(100, 2);
  std::vector<float> y(100, 1);
  std::vector<std::byte> parameters(24);
  const int count = std::atoi(arguments[2]);
  const float a = 3;
  std::memcpy(&parameters[0], &count, 4);
  std::memcpy(&parameters[4], &a, 4);
  for (const auto& [values, at] : {std::pair{&x, 8}, std::pair{&y, 16}}) {
    const std::uint64_t address = device.allocate(400);
    device.write(address, std::as_bytes(std::span(*values)));
    std::memcpy(&parameters[at], &address, 8);
  }
  emu::Device copy(device);
  std::uint64_t told = 0;
  const emu::Report report = copy.launch(kernel, {.block = {128, 1, 1}}, parameters,
                                         {.trace = [&](const emu::TraceEvent&) { ++told; }});
  std::uint64_t address = 0;
  std::memcpy(&address, &parameters[16], 8);
  copy.read(std::as_writable_bytes(std::span(y)), address);
  std::cout << report.findings.size() << ' ' << y[0] << ' ' << y[99] << ' ' << (told >= report.steps) << '\\n';
  device.read(std::as_writable_bytes(std::span(y)), address);
  std::cout << y[0] << '\\n';  // the first device has not run
  try {
    device.load("no PTX");
  } catch (const emu::Error& error) {  // crosses from the library
    std::cout << error.what() << '\\n';
  }
}
"""


def test_a_project_with_the_emulator_alone(installed, library, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(EMULATOR_PROJECT)
    (tmp_path / "saxpy.cpp").write_text(EMULATOR_PROGRAM)
    output("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    output("cmake", "--build", tmp_path / "build")
    ptx = ROOT / "examples/emulate/saxpy.ptx"
    lines = output(tmp_path / "build/saxpy", ptx, 100).splitlines()
    assert lines[:2] == ["0 7 7 1", "1"] and "line 1" in lines[2]
    assert output(tmp_path / "build/saxpy", ptx, 101).splitlines()[0].startswith("1 ")
    needed = output("readelf", "-d", tmp_path / "build/saxpy")
    assert "[libfovea_emulator.so.0]" in needed and "[libfovea.so.0]" not in needed
    emulator = library.parent / "libfovea_emulator.so"
    exported = [line.split(" ", 2)[2] for line in output("nm", "-DC", "--defined-only", emulator).splitlines()]
    public = re.compile(
        r"emu::((Device|Finding|RunOptions|TraceEvent)::[~\w]+|name_of|kind_called|source_name|can_go_on_behind|encode)[\[(].*|(vtable|typeinfo|typeinfo name) for emu::Error|emu::Error::.*"
    )
    assert [name for name in exported if not public.fullmatch(name)] == []


PARENT = """\
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_subdirectory({root} fovea)
add_executable(parent main.cpp)
target_link_libraries(parent PRIVATE fovea::fovea)
install(TARGETS parent)
"""


def test_a_project_that_holds_the_sources(tmp_path):
    """A parent project gets the library and what that is made of, and keeps its own flags."""
    (tmp_path / "CMakeLists.txt").write_text(PARENT.format(root=ROOT))
    (tmp_path / "main.cpp").write_text('#include "fovea/encoder.hpp"\nint main() {}\n')
    build = tmp_path / "build"
    query = build / ".cmake/api/v1/query/codemodel-v2"
    query.parent.mkdir(parents=True)
    query.touch()
    output("cmake", "-G", "Ninja", "-S", tmp_path, "-B", build, "-DFOVEA_BUILD_KERNELS=OFF")

    (model,) = (build / ".cmake/api/v1/reply").glob("codemodel-v2-*.json")
    names = {target["name"] for target in json.loads(model.read_text())["configurations"][0]["targets"]}
    folders = {f"fovea_{path.parent.name}" for path in (ROOT / "src").glob("*/CMakeLists.txt")}
    emulator = {"fovea_emulator", "fovea_emulator_objects"}
    assert names == folders | emulator | {
        "fovea_codec_forwards",
        "fovea_codecs",
        "fovea_commit",
        "fovea_gpu_scanner",
        "fovea_kernels",
        "parent",
    }
    assert not any("file(INSTALL" in path.read_text() for path in (build / "fovea").rglob("cmake_install.cmake"))

    commands = {entry["file"]: entry["command"] for entry in json.loads((build / "compile_commands.json").read_text())}
    own_flags = commands[str(tmp_path / "main.cpp")]
    assert not re.search(r"-W|-O|-D|-fvisibility|-fstack", own_flags), own_flags
    (library_flags,) = (command for file, command in commands.items() if file.endswith("src/api/encoder.cpp"))
    assert "-O3" in library_flags and "-Werror" not in library_flags
    output("cmake", "--build", build, "--target", "CMakeFiles/parent.dir/main.cpp.o")
