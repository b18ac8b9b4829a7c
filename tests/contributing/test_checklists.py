"""What docs/contributing/*.md ask for, done: beside this file lies an addition of each kind, as a diff. In a scratch copy
of the repository it applies, touches the files that its checklist numbers and no others, builds, and works. By day it
is only asked whether it applies.

A diff that does not apply says that the lines around its places have changed: mend it there, and look at what its
checklist says of them.
"""

import contextlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "scripts"))
import cpus

# What a checklist's <names> are in the addition of its kind.
NAMES = {
    "kernel": {"operator": "halve", "name": "halve"},
    "operator": {"operator": "negate"},
    "precision": {},
    "architecture": {},
    "family": {"family": "vit"},
}
# The most files beside tests that an addition may touch.
MOST = {"operator": 12, "precision": 10, "architecture": 8, "family": 3}
# Links this with the rows of architectures, and prints what the rules of machine code know of the made-up one's.
RULES = """
#include <iostream>
#include "lab/code/instruction_kinds.hpp"
int main() {
  using namespace fovea::lab;
  std::cout << (kind_of("XMMA.16816", 130) == InstructionKind::kMultiply) << is_unknown("UTCLD", 130)
            << is_unknown("UTCLD", 100) << is_unknown("HGMMA", 130);
}
"""


def run(*command, code=0, **popen):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, **popen)
    assert done.returncode == code, f"{' '.join(map(str, command))}\n{done.stdout[-8000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def numbered(kind):
    """The files that the checklist numbers, with the addition's names."""
    page = (ROOT / f"docs/contributing/{kind}.md").read_text()
    items = re.findall(r"^(\d+)\. (.*)", page, re.MULTILINE)
    assert [int(number) for number, _ in items] == list(range(1, len(items) + 1)), f"{kind}.md: numbers have gaps"
    files = []
    for _, text in items:
        item = re.match(r"`([^`]+)`: ", text)
        assert item, f'{kind}.md: an item that begins with no `file`: "{text}"'
        files.append(re.sub("<(.*?)>", lambda name: NAMES[kind][name[1]], item[1]))
    return sorted(files)


class Scratch:
    """A copy of the repository with a build of its own, without optimisation; with or without the laboratory."""

    def __init__(self, root, laboratory):
        self.root = root
        self.build = root / "build/scratch"
        self.bin = self.build / "bin/fovea"
        listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "-m", "Copy")
        # Compilations are found again by the next night's, in another folder.
        self.environment = os.environ | {
            "CCACHE_BASEDIR": str(root), "CCACHE_NOHASHDIR": "1", "FOVEA_BIN": str(self.bin),
            "FOVEA_LIBRARY": str(self.build / "lib/libfovea.so"), "PYTHONPATH": str(root / "python"),
        }  # fmt: skip
        self.nvcc = shutil.which("nvcc", path=f"{os.environ['PATH']}:{ROOT / 'build/cuda/bin'}")
        torch = pathlib.Path(importlib.util.find_spec("torch").origin).parent
        run(
            *("cmake", "-S", root, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"),
            *("-DCMAKE_CXX_FLAGS_RELEASE=-O0", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=16"),
            *(f"-DFOVEA_TORCH={torch}", f"-DFOVEA_NVCC={self.nvcc or 'NOTFOUND'}", "-DFOVEA_ONLY_KERNELS=^halve_"),
            *("-DFOVEA_BUILD_TESTS=OFF", f"-DFOVEA_LABORATORY={laboratory}"),
            env=self.environment,
        )

    def git(self, *arguments):
        return run("git", *arguments, cwd=self.root)

    def make(self, *targets):
        jobs = os.environ.get("FOVEA_TEST_JOBS") or str(cpus.available())
        run("cmake", "--build", self.build, "-j", jobs, "--target", *targets, env=self.environment)

    def fovea(self, *arguments, code=0):
        return run(self.bin, *arguments, code=code, env=self.environment)

    def run_cpu_test(self, source):
        """Of all tests of the CPU's operators this one alone is compiled."""
        program = self.build / "cpu_test"
        folders = [f"-I{self.root / folder}" for folder in ("", "include", "src", "tests", "tests/cpu")]
        libraries = [self.build / f"src/{name}/libfovea_{name}.a" for name in ("cpu", "ops", "core")]
        linked = ("-lgtest_main", "-lgtest", "-lhwy", "-lfmt", "-lzstd", "-ldl", "-pthread")
        made = f"-I{self.build / 'kernels/include'}"
        run("c++", "-std=c++20", "-O0", *folders, made, self.root / source, *libraries, *linked, "-o", program)
        assert re.search(r"\[  PASSED  \] \d+ tests?\.", run(program, env=self.environment))

    def write_options(self):
        run("scripts/cli-docs", self.bin, cwd=self.root)

    def pytest(self, *arguments):
        passed = run(sys.executable, "-m", "pytest", "-q", *arguments, cwd=self.root, env=self.environment)
        assert re.search(r"^\d+ passed", passed, re.MULTILINE), passed

    def touched(self):
        status = self.git("status", "--porcelain", "-z", "--untracked-files=all")
        return sorted(entry[3:] for entry in status.split("\0") if entry)

    def check_touched(self, kind):
        """To be called when the addition is complete."""
        touched = self.touched()
        assert touched == numbered(kind)
        beside_tests = [name for name in touched if not name.startswith(("tests/", "python/tests/"))]
        assert len(beside_tests) <= MOST.get(kind, len(beside_tests)), beside_tests

    @contextlib.contextmanager
    def addition(self, kind):
        """Applies the addition of a kind, and takes it back."""
        self.git("apply", HERE / f"{kind}.diff")
        try:
            yield
        finally:
            self.git("reset", "-q", "--hard")
            self.git("clean", "-qfd")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return Scratch(tmp_path_factory.mktemp("photos"), laboratory=False)


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory):
    return Scratch(tmp_path_factory.mktemp("laboratory"), laboratory=True)


def test_every_checklist_has_an_addition():
    pages = sorted(path.stem for path in (ROOT / "docs/contributing").glob("*.md"))
    assert pages == sorted(NAMES) == sorted(path.stem for path in HERE.glob("*.diff"))


@pytest.mark.parametrize("kind", NAMES)
def test_addition_applies(kind):
    run("git", "apply", "--check", HERE / f"{kind}.diff", cwd=ROOT)


@pytest.mark.nightly
def test_operator(photos):
    with photos.addition("operator"):
        photos.check_touched("operator")
        photos.make("fovea_c", "fovea_torch")
        photos.run_cpu_test("tests/cpu/negate_test.cpp")
        photos.pytest("python/tests/operators/test_negate.py")


@pytest.mark.nightly
def test_family(photos):
    with photos.addition("family"):
        photos.check_touched("family")
        photos.make("fovea")
        photos.pytest("tests/model/test_vit.py")


@pytest.mark.nightly
def test_precision(laboratory):
    with laboratory.addition("precision"):
        laboratory.make("fovea", "fovea_c")
        laboratory.write_options()
        laboratory.check_touched("precision")
        assert re.search(r"--precision auto\|\S+\|twin\b", laboratory.fovea("embed", "--help"))
        laboratory.pytest("tests/docs/test_precisions.py", "python/tests/test_arguments.py")
        model = laboratory.build / "tiny"
        laboratory.fovea("init", "--preset", "tiny", "-o", model)
        embeddings = []
        for precision in ("fp32", "twin"):
            out = laboratory.build / f"{precision}.npy"
            photo = laboratory.root / "examples/photos/cat.jpg"
            laboratory.fovea("embed", photo, "-m", model, "--precision", precision, "--device", "cpu", "-o", out)
            embeddings.append(out.read_bytes())
        assert embeddings[0] == embeddings[1]


@pytest.mark.nightly
def test_architecture(laboratory):
    with laboratory.addition("architecture"):
        laboratory.make("fovea")
        laboratory.write_options()
        laboratory.check_touched("architecture")
        run(sys.executable, "scripts/check_docs.py", cwd=laboratory.root)
        assert re.search(r"^layer_norm .*\bsm_130\b", laboratory.fovea("kernel", "list"), re.MULTILINE)
        for command in (("kernel", "check"), ("kernel", "mutate")):
            assert "sm_130a" in laboratory.fovea(*command, "--help"), command
        assert "sm_130a" in (laboratory.root / "docs/cli.md").read_text()
        # An emulated device of it opens; the copy has no kernels to run there.
        refused = subprocess.run(
            [laboratory.bin, "kernel", "check", "--device", "emu:sm_130a", "layer_norm"],
            capture_output=True,
            text=True,
        )
        assert "PTX emulator of sm_130a" in refused.stdout + refused.stderr
        source = laboratory.build / "rules.cpp"
        source.write_text(RULES)
        rules = laboratory.build / "rules"
        folders = [f"-I{folder}" for folder in (laboratory.root, laboratory.build / "kernels/include")]
        kinds = laboratory.root / "lab/code/instruction_kinds.cpp"
        run("c++", "-std=c++20", "-O0", *folders, source, kinds, "-o", rules)
        assert run(rules) == "1011"


@pytest.mark.nightly
def test_kernel(laboratory):
    with laboratory.addition("kernel"):
        laboratory.check_touched("kernel")
        laboratory.make("fovea")
        assert re.match("halve_bf16 +sm_90 +halves of bf16\n", laboratory.fovea("kernel", "list", "halve_bf16"))
        if not laboratory.nvcc:
            pytest.skip("no CUDA compiler: scripts/setup installs one")
        laboratory.fovea("kernel", "resources", "halve_bf16")
        check = ("kernel", "check", "halve_bf16", "--device", "emu:sm_90a", "--schedules", "2")
        assert "3/3 passed" in laboratory.fovea(*check)
        code = laboratory.root / "kernels/halve/halve.cu"
        code.write_text(code.read_text().replace("ptx::bf16_low(x) / 2", "ptx::bf16_low(x) / 4"))
        laboratory.make("fovea")
        assert "0/3 passed" in laboratory.fovea(*check, code=1)
