"""python/bundled.py: which libraries of a wheel have pending security updates, and the list of what it bundles."""

import importlib.util
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("bundled", ROOT / "python/bundled.py")
bundled = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bundled)

SOURCES = """\
Package files:
 100 /var/lib/dpkg/status
     release a=now
 500 http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
"""
POLICY = """\
libpng16-16:
  Installed: 1.6.39-2+deb12u4
  Candidate: 1.6.39-2+deb12u7
  Version table:
     1.6.39-2+deb12u7 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
     1.6.39-2+deb12u6 500
        500 http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
     1.6.39-2+deb12u5 500
        500 http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
 *** 1.6.39-2+deb12u4 100
        100 /var/lib/dpkg/status
libgif7:
  Installed: 5.2.1-2.5
  Candidate: 5.2.1-3
  Version table:
     5.2.1-3 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
 *** 5.2.1-2.5 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
        100 /var/lib/dpkg/status
libssl3:
  Installed: 3.0.17-1~deb12u2
  Candidate: 3.0.17-1~deb12u2
  Version table:
 *** 3.0.17-1~deb12u2 500
        500 http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
        100 /var/lib/dpkg/status
     3.0.16-1~deb12u1 500
        500 http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
"""
PACKAGES = [
    bundled.Package("libgif7", "5.2.1-2.5", ("libgif.so.7.2.0",)),
    bundled.Package("libpng16-16", "1.6.39-2+deb12u4", ("libpng16.so.16.39.0",)),
    bundled.Package("libssl3", "3.0.17-1~deb12u2", ("libcrypto.so.3", "libssl.so.3")),
]


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """apt(sources, policy): what `apt-cache policy` says from then on."""

    def say(sources, policy):
        (tmp_path / "sources").write_text(sources)
        (tmp_path / "policy").write_text(policy)
        (tmp_path / "apt-cache").write_text(
            f"#!/bin/sh\n[ $# = 1 ] && exec cat {tmp_path}/sources\nexec cat {tmp_path}/policy\n"
        )
        (tmp_path / "apt-cache").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return say


def test_updates_of_the_security_archive_are_pending(apt, capsys):
    apt(SOURCES, POLICY)
    assert bundled.security_updates(PACKAGES) == {"libpng16-16": "1.6.39-2+deb12u6"}
    with pytest.raises(
        SystemExit, match=r"libpng16-16 1.6.39-2\+deb12u4 \(security update: 1.6.39-2\+deb12u6\).*--allow-outdated"
    ):
        bundled.check_updates(PACKAGES, may_be_outdated=False)
    bundled.check_updates(PACKAGES, may_be_outdated=True)
    assert "pending security updates: libpng16-16" in capsys.readouterr().out


def test_none_is_pending(apt, capsys):
    apt(SOURCES, POLICY[POLICY.index("libgif7:") :])
    bundled.check_updates([package for package in PACKAGES if package.name != "libpng16-16"], may_be_outdated=False)
    assert "no security update of 2 packages is pending" in capsys.readouterr().out


def test_without_lists_nothing_can_be_said(apt, capsys, monkeypatch, tmp_path):
    apt(SOURCES.replace("bookworm-security", "bookworm").replace("debian-security", "debian"), POLICY)
    assert bundled.security_updates(PACKAGES) is None
    with pytest.raises(SystemExit, match="cannot tell"):
        bundled.check_updates(PACKAGES, may_be_outdated=False)
    bundled.check_updates(PACKAGES, may_be_outdated=True)
    assert "cannot tell" in capsys.readouterr().out
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert bundled.security_updates(PACKAGES) is None


def test_the_packages_of_this_machine():
    (package,) = bundled.find_packages(["libz.so.1"])
    assert package.name == "zlib1g" and package.version and package.files == ("libz.so.1",)


def test_the_bill_names_every_file():
    bill = json.loads(
        bundled.bill_of_materials(PACKAGES, {"libgif": "MIT", "libpng16": "libpng-2.0", "libcrypto": "Apache-2.0"})
    )
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert [(part["name"], part["version"]) for part in bill["components"]] == [package[:2] for package in PACKAGES]
    assert bill["components"][2]["properties"] == [
        {"name": "fovea:file", "value": f"lib{name}.so.3"} for name in ("crypto", "ssl")
    ]
    assert bill["components"][0]["licenses"] == [{"expression": "MIT"}]
