#!/usr/bin/env python3
"""Runs clang-tidy over the sources named on standard input, in groups of sources that are checked as one.

clang-tidy spends most of its time on included headers, which a group includes only once. The sources of a
clean group are clean; those of any other group are checked one by one, and only those findings count.
usage: tidy.py BUILD_FOLDER   (which contains compile_commands.json)
"""

import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys

import cpus

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "build/tidy"
CLANG_TIDY = ROOT / "build/venv/bin/clang-tidy"
GROUP_SIZE = 16  # maximum number of sources per group
# Sources that use Highway include themselves by name, so they cannot be grouped.
UNGROUPED = re.compile(r"^#include .hwy/foreach_target\.h", re.M)
# Lines of CMake's unity sources.
UNITY_INCLUDE = re.compile(r'^#include "(.+)"$', re.M)
# Using-declarations and namespace aliases of a source.
NAMES = re.compile(r"^(?:using (?:\w+::)+(\w+);|namespace (\w+) = )", re.M)


def read_flags(build: pathlib.Path) -> dict[str, list[str]]:
    """Returns the compiler's command for each source, without the names of the source and the output."""
    flags_by_source = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        command = shlex.split(entry["command"])
        output = command.index("-o")
        del command[output : output + 2]
        if "-include" in command:  # headers precompiled by GCC
            header = command.index("-include")
            del command[header : header + 2]
        flags = [word for word in command if word not in ("-c", "-Winvalid-pch", entry["file"])]
        flags = [flag for flag in flags if not flag.startswith("--param=")]  # which only GCC has
        flags.append("-Wno-deprecated-declarations")  # libstdc++'s own uses: std::stable_sort
        compiled = pathlib.Path(entry["file"])
        # Sources that a unity source includes have its flags.
        sources = UNITY_INCLUDE.findall(compiled.read_text()) if "Unity" in compiled.parts else [entry["file"]]
        flags_by_source |= dict.fromkeys(sources, flags)
    return flags_by_source


def tidy(source: str) -> tuple[bool, str]:
    done = subprocess.run([CLANG_TIDY, "--quiet", "-p", OUT, source], capture_output=True, text=True, check=False)
    noise = re.compile(r"^\d+ warnings? (and \d+ errors? )?generated\.\n", re.M)
    return done.returncode == 0, done.stdout + noise.sub("", done.stderr)


def uses_declared_names(text: str) -> bool:
    """Returns whether the source uses all names that it declares; a group would hide unused ones."""
    code = re.sub(r"//.*", "", text)
    return all(
        re.search(rf"(?<![\w:.>]){name}\b" if name else rf"\b{alias}::", code) for name, alias in NAMES.findall(code)
    )


def group_sources(sources: list[str], flags: dict[str, list[str]]) -> list[list[str]]:
    """Returns groups of sources of one folder with the same flags, the largest groups first."""
    by_flags: dict[tuple[str, ...], list[str]] = {}
    groups = []
    for source in sources:
        text = pathlib.Path(source).read_text()
        if UNGROUPED.search(text) or not uses_declared_names(text):
            groups.append([source])
        else:
            folder = pathlib.Path(source).relative_to(ROOT).parts[:-1][:2]
            by_flags.setdefault((*folder, *flags[source]), []).append(source)
    for members in by_flags.values():
        count = -(-len(members) // GROUP_SIZE)
        groups += [members[i::count] for i in range(count)]
    return sorted(groups, key=len, reverse=True)


def main() -> None:
    build = ROOT / sys.argv[1]
    flags = read_flags(build)
    sources = [str(ROOT / line) for line in sys.stdin.read().split()]
    unknown = [source for source in sources if source not in flags]
    if unknown:
        sys.exit(f"{build}/compile_commands.json lacks {', '.join(unknown)}; configure the build again")

    OUT.mkdir(parents=True, exist_ok=True)
    jobs = []  # pairs of a group's sources, and the file with all of them
    own_flags = {source: flags[source] for source in sources}
    for number, group in enumerate(group_sources(sources, flags)):
        source = group[0]
        if len(group) > 1:
            source = str(OUT / f"{number}.cpp")
            pathlib.Path(source).write_text("\n".join(pathlib.Path(source).read_text() for source in group))
            own_flags[source] = flags[group[0]]
        jobs.append((group, source))
    (OUT / "compile_commands.json").write_text(
        json.dumps(
            [
                {"directory": str(build), "file": file, "arguments": [*words, "-c", file]}
                for file, words in own_flags.items()
            ]
        )
    )

    def check_group(group: list[str], source: str) -> str:
        clean, text = tidy(source)
        if clean or len(group) == 1:
            return "" if clean else text
        single_results = [tidy(source) for source in group]
        return "".join(text for clean, text in single_results if not clean)

    with concurrent.futures.ThreadPoolExecutor(cpus.available()) as pool:
        findings = list(pool.map(lambda job: check_group(*job), jobs))
    print("".join(findings), end="")
    if any(findings):
        sys.exit(1)
    print(f"clang-tidy: {len(sources)} sources, clean")


if __name__ == "__main__":
    main()
