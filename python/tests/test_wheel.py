"""The wheel in an environment that has it and numpy alone: the program, the library, what the wheel contains."""

import email
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time
import zipfile

import fovea
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/hub"))
from hub_server import Hub

if "site-packages" not in pathlib.Path(fovea.__file__).parts or not list(ROOT.glob("dist/fovea-*.whl")):
    pytest.skip("needs the wheel in dist/, installed: scripts/test wheel", allow_module_level=True)

(WHEEL,) = ROOT.glob("dist/fovea-*.whl")


class Environment:
    """A fresh virtual environment."""

    def __init__(self, folder):
        self.bin = folder / "bin"
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder], check=True)
        options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", self.bin / "python", "install", *options, WHEEL], check=True
        )
        (self.packages,) = folder.glob("lib/python3*/site-packages")
        for part in pathlib.Path(np.__file__).parent.parent.glob("numpy*"):
            (self.packages / part.name).symlink_to(part)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "FOVEA"))}

    def __call__(self, program, *arguments, code=0, **environment):
        result = subprocess.run(
            [self.bin / program, *arguments], capture_output=True, text=True, check=False, timeout=300,
            env=self.environment | environment, cwd=self.bin,
        )  # fmt: skip
        assert result.returncode == code, result.stderr + result.stdout
        return result.stdout

    def start(self, *arguments, **options):
        return subprocess.Popen([self.bin / "fovea", *arguments], env=self.environment, **options)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("fresh") / "venv")


def test_the_command(fresh, model, photos, encoder, device, tmp_path):
    output = tmp_path / "rows.npy"
    fresh("fovea", "embed", *photos, "-m", model, "--device", device, "-o", output)
    np.testing.assert_array_equal(np.load(output), encoder.embed(photos))
    assert json.loads(fresh("python", "-m", "fovea", "info", model, "--json"))["hidden"] == encoder.dimension
    assert fresh("fovea", "--version") == fresh("python", "-m", "fovea", "--version")


def test_words(fresh, model, photos, encoder, device, tmp_path):
    """The tokenizer's library is in the wheel."""
    fresh("fovea", "embed", *photos[:4], "-m", model, "--device", device, "-o", tmp_path / "out")
    found = json.loads(fresh("fovea", "search", "A Dog", "--in", tmp_path / "out", "--json"))["queries"][0]["matches"]
    code = "import fovea, sys; print([match.row for match in fovea.open(sys.argv[1]).search('A Dog')])"
    assert json.loads(fresh("python", "-c", code, tmp_path / "out")) == [match["row"] for match in found]


def test_the_command_is_the_program_itself(fresh, model, photos, tmp_path):
    fresh("fovea", "no-such-command", code=2)
    fresh("fovea", "embed", tmp_path / "absent.jpg", "-m", model, "-o", tmp_path / "out", code=1)
    process = fresh.start("bench", "-m", model, "--device", "cpu", "--seconds", "60", stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not os.readlink(f"/proc/{process.pid}/exe").endswith("/fovea/bin/fovea"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    finally:
        process.kill()
        process.wait()
    ignored = int(re.search(r"SigIgn:\s+(\w+)", status)[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1))  # which Python ignores


def test_the_command_starts_without_numpy(fresh):
    """numpy takes 0.1 s to import."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        fresh("fovea", "--version")
        times.append(time.perf_counter() - started)
    print(f"fovea --version takes {1e3 * min(times):.0f} ms")
    imports = subprocess.run(
        [fresh.bin / "python", "-X", "importtime", fresh.bin / "fovea", "--version"],
        capture_output=True, text=True, check=True, env=fresh.environment,
    ).stderr  # fmt: skip
    assert "importlib.util" in imports
    assert "numpy" not in imports


def test_a_model_is_pulled(fresh, model, tmp_path):
    hub = Hub({path.name: path.read_bytes() for path in model.iterdir()})
    try:
        where = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path)}
        by_python = fresh("python", "-c", 'import fovea; print(fovea.pull("org/name"))', **where)
        assert fresh("fovea", "pull", "org/name", "-q", **where) == by_python
    finally:
        hub.close()
    assert os.path.samefile(pathlib.Path(by_python.strip()).parent.parent, tmp_path / "hub/models--org--name")


def test_nothing_comes_from_the_machine_but_its_c_library(fresh):
    """torch, which libfovea_torch.so needs, is that of the program that loads it."""
    allowed = r"linux-vdso|ld-linux|lib(c|m|z|dl|rt|pthread|stdc\+\+|gcc_s)\.so|fovea\.libs/|libtorch|libc10"
    for path in [fresh.packages / "fovea/bin/fovea", *fresh.packages.glob("fovea/*.so")]:
        needs = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        assert [line for line in needs.splitlines() if not re.search(allowed, line)] == []
        assert needs.count("fovea.libs") > 10 or "torch" in path.name


def test_no_library_is_looked_for_in_the_working_folder(fresh):
    """tests/cli/test_hardening.py looks at the build and at what it installs."""
    paths = [
        fresh.packages / "fovea/bin/fovea",
        *fresh.packages.glob("fovea/*.so"),
        *fresh.packages.glob("fovea.libs/*"),
    ]
    entries = []
    for path in paths:
        dynamic = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
        if found := re.search(r"\((?:RPATH|RUNPATH)\)\s.*\[(.*)\]", dynamic):
            entries += [(path.name, entry) for entry in found[1].split(":")]
    assert entries and [each for each in entries if not re.match(r"\$ORIGIN(/|$)", each[1])] == []


def test_the_wheel_lists_what_it_bundles(fresh):
    (bill,) = fresh.packages.glob("fovea-*/sboms/bundled.cdx.json")
    parts = json.loads(bill.read_text())["components"]
    listed = {line["value"] for part in parts for line in part["properties"]}
    files = {re.sub(r"-[0-9a-f]{8}\.", ".", path.name) for path in fresh.packages.glob("fovea.libs/*")}
    stand_ins = {
        "libbrotlidec",
        "libgssapi_krb5",
        "libidn2",
        "libjbig",
        "liblber-2",
        "libldap-2",
        "libpsl",
        "librtmp",
        "libssh2",
    }
    assert listed <= files and {re.split(r"\.", name)[0] for name in files - listed} <= stand_ins
    assert all(part["version"] and part["licenses"] for part in parts)
    assert {"libpng16-16", "libcurl4"} <= {part["name"] for part in parts}


def test_no_library_is_under_the_gpl(fresh):
    """JBIG-KIT comes with Debian's libtiff. GCC's own library has an exception for all programs."""
    for path in fresh.packages.glob("fovea.libs/*"):
        content = path.read_bytes()
        assert b"JBIG-KIT" not in content, path
        assert b"Kuhn" not in content, path
    licences = [path.name for path in fresh.packages.glob("fovea-*/licenses/*")]
    assert {"LICENSE", "NOTICE"} <= set(licences) and "libhwy1.txt" in licences
    assert not [name for name in licences if re.match("libjbig|libgnutls|librtmp|libnettle|libacl|libidn", name)]


def test_jbig_is_refused(fresh, model, tmp_path):
    fields = ((256, 8), (257, 8), (258, 8), (259, 34661), (262, 1), (273, 8), (277, 1), (278, 8), (279, 8))
    entries = b"".join(struct.pack("<HHIHH", tag, 3, 1, value, 0) for tag, value in fields)
    image = tmp_path / "fax.tif"
    image.write_bytes(
        struct.pack("<2sHI", b"II", 42, 16) + bytes(8) + struct.pack("<H", len(fields)) + entries + bytes(4)
    )
    code = "import fovea, sys; fovea.load(sys.argv[1], device='cpu').embed([sys.argv[2]], on_error=print)"
    assert "JBIG compression (34661) is not supported" in fresh("python", "-c", code, model, image)


def test_what_pip_shows():
    with zipfile.ZipFile(WHEEL) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        about = email.message_from_bytes(wheel.read(name))
    assert about["Author"] and about["Summary"] and about["Keywords"]
    assert about["License-Expression"].startswith("Apache-2.0 AND ")
    assert "Typing :: Typed" in about.get_all("Classifier")
    assert about["Description-Content-Type"] == "text/markdown"
    for word in ("fovea.pull", "encoder.stream", "fovea embed"):
        assert word in about.get_payload()
