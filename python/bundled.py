"""What a wheel bundles of the machine that builds it: the packages of the libraries, whether the distribution has
security updates of them that this machine lacks, and the list of them that the wheel carries. repair_wheel.py uses
it."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from typing import NamedTuple


class Package(NamedTuple):
    name: str
    version: str
    files: tuple[str, ...]  # of the wheel, such as "libpng16.so.16.39.0"


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def owner_of(library: str) -> str:
    """Returns the package that installed a library of this name."""
    return _run("dpkg", "-S", f"*/{library}").splitlines()[0].split(":")[0]


def packages_of(libraries: list[str]) -> list[Package]:
    files: dict[str, list[str]] = {}
    for library in libraries:
        files.setdefault(owner_of(library), []).append(library)
    versions = {name: _run("dpkg-query", "-W", "-f", "${Version}\\n", name).split()[0] for name in files}
    return [Package(name, versions[name], tuple(sorted(files[name]))) for name in sorted(files)]


def is_newer(version: str, other: str) -> bool:
    return subprocess.run(["dpkg", "--compare-versions", version, "gt", other], check=False).returncode == 0


def security_updates(packages: list[Package]) -> dict[str, str] | None:
    """Package and version of each update from the distribution's security archive that is newer than what is bundled;
    None when apt, or its lists of that archive, are not available."""
    try:
        if "-security" not in _run("apt-cache", "policy"):
            return None
        policy = _run("apt-cache", "policy", *(package.name for package in packages))
    except FileNotFoundError:
        return None
    found: dict[str, str] = {}
    bundled = {package.name: package.version for package in packages}
    name = version = ""
    for line in policy.splitlines():
        if heading := re.fullmatch(r"(\S+):", line):
            name = heading[1].split(":")[0]
        # " *** 1.2-3 500" or "     1.2-3 500", and then a line for each archive that has it.
        elif listed := re.fullmatch(r" (?:\*\*\*|   ) (\S+) \d+", line):
            version = listed[1]
        elif "-security" in line and re.match(r" {8}", line) and is_newer(version, found.get(name, bundled[name])):
            found[name] = version
    return found


def check_updates(packages: list[Package], may_be_outdated: bool) -> None:
    """Reports outdated libraries. Ends the build unless they are allowed."""
    updates = security_updates(packages)
    if updates is None:
        words = "cannot tell whether security updates are pending: apt has no list of a security archive (run apt-get update)"
        if not may_be_outdated:
            raise SystemExit(f"bundled libraries: {words}; --allow-outdated builds the wheel anyway")
        print(f"bundled libraries: {words}")
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
    """Returns the bill of materials in CycloneDX's format. `licences`: by each file's stem, such as "libpng16"."""
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
    """Writes it into the folder `sboms` of the wheel's metadata."""
    folder = info / "sboms"
    folder.mkdir(exist_ok=True)
    (folder / "bundled.cdx.json").write_text(bill_of_materials(packages, licences))
