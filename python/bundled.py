"""Finds the distribution packages of the libraries that a wheel bundles, checks them for pending security updates, and
writes the bill of materials of the wheel. repair_wheel.py uses it."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from typing import NamedTuple


class Package(NamedTuple):
    name: str
    version: str
    files: tuple[str, ...]  # file names in the wheel, such as "libpng16.so.16.39.0"


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def owning_package(library: str) -> str:
    """Returns the package that installed a library of this name."""
    return _run("dpkg", "-S", f"*/{library}").splitlines()[0].split(":")[0]


def find_packages(libraries: list[str]) -> list[Package]:
    files: dict[str, list[str]] = {}
    for library in libraries:
        files.setdefault(owning_package(library), []).append(library)
    versions = {name: _run("dpkg-query", "-W", "-f", "${Version}\\n", name).split()[0] for name in files}
    return [Package(name, versions[name], tuple(sorted(files[name]))) for name in sorted(files)]


def is_newer(version: str, other: str) -> bool:
    return subprocess.run(["dpkg", "--compare-versions", version, "gt", other], check=False).returncode == 0


def security_updates(packages: list[Package]) -> dict[str, str] | None:
    """Returns the versions, by package, in the distribution's security archive that are newer than the bundled ones, or
    None when apt or its lists of that archive are not available."""
    try:
        if "-security" not in _run("apt-cache", "policy"):
            return None
        policy = _run("apt-cache", "policy", *(package.name for package in packages))
    except FileNotFoundError:
        return None
    updates: dict[str, str] = {}
    bundled = {package.name: package.version for package in packages}
    name = version = ""
    for line in policy.splitlines():
        if heading := re.fullmatch(r"(\S+):", line):
            name = heading[1].split(":")[0]
        # A version line is " *** 1.2-3 500" or "     1.2-3 500"; a line for each archive that has it follows.
        elif listed := re.fullmatch(r" (?:\*\*\*|   ) (\S+) \d+", line):
            version = listed[1]
        elif "-security" in line and re.match(r" {8}", line) and is_newer(version, updates.get(name, bundled[name])):
            updates[name] = version
    return updates


def check_updates(packages: list[Package], may_be_outdated: bool) -> None:
    """Reports outdated libraries. Exits unless they are allowed."""
    updates = security_updates(packages)
    if updates is None:
        reason = "cannot tell whether security updates are pending: apt has no list of a security archive (run apt-get update)"
        if not may_be_outdated:
            raise SystemExit(f"bundled libraries: {reason}; --allow-outdated builds the wheel anyway")
        print(f"bundled libraries: {reason}")
        return
    if not updates:
        print(f"bundled libraries: no security update of {len(packages)} packages is pending")
        return
    behind = "; ".join(
        f"{p.name} {p.version} (security update: {updates[p.name]})" for p in packages if p.name in updates
    )
    if not may_be_outdated:
        raise SystemExit(
            f"the wheel would bundle libraries with pending security updates: {behind}. Run `apt-get install --only-upgrade "
            f"{' '.join(sorted(updates))}` and build again; --allow-outdated bundles them nevertheless"
        )
    print(f"bundled libraries with pending security updates: {behind}")


def bill_of_materials(packages: list[Package], licences: dict[str, str]) -> str:
    """Returns the bill of materials in CycloneDX format. `licences` are keyed by the stems of file names, such as
    "libpng16"."""
    components = [
        {
            "type": "library",
            "name": package.name,
            "version": package.version,
            "purl": f"pkg:deb/debian/{package.name}@{package.version}",
            "licenses": [{"expression": licences[package.files[0].split(".so")[0]]}],
            "properties": [{"name": "fovea:file", "value": file} for file in package.files],
        }
        for package in packages
    ]
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}
    return json.dumps(document, indent=2) + "\n"


def write_bill(packages: list[Package], licences: dict[str, str], info: pathlib.Path) -> None:
    """Writes the bill of materials into the folder `sboms` of the wheel's metadata."""
    folder = info / "sboms"
    folder.mkdir(exist_ok=True)
    (folder / "bundled.cdx.json").write_text(bill_of_materials(packages, licences))
