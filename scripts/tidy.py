#!/usr/bin/env python3
"""Runs clang-tidy over the sources named on standard input: several of a folder at a time, as one source.

clang-tidy spends most of its time on included headers, and a group includes them once. The sources of a
clean group are clean; those of any other group are checked alone, and only those findings count.
usage: tidy.py BUILD_FOLDER   (which holds compile_commands.json)
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
GROUP_SIZE = 16  # sources of a group
# Highway's sources include themselves, by name.
ALONE = re.compile(r"^#include .hwy/foreach_target\.h", re.M)
# What CMake's files for many sources hold.
INCLUDED = re.compile(r'^#include "(.+)"$', re.M)
# Names that a source declares with these.
NAMES = re.compile(r"^(?:using (?:\w+::)+(\w+);|namespace (\w+) = )", re.M)


def flags_of(build: pathlib.Path) -> dict[str, list[str]]:
    """The compiler's command for each source, without the source and the output."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        command = shlex.split(entry["command"])
        output = command.index("-o")
        del command[output : output + 2]
        if "-include" in command:  # headers that GCC has precompiled
            header = command.index("-include")
            del command[header : header + 2]
        flags = [word for word in command if word not in ("-c", "-Winvalid-pch", entry["file"])]
        compiled = pathlib.Path(entry["file"])
        # Many sources that are compiled as one have its flags.
        sources = INCLUDED.findall(compiled.read_text()) if "Unity" in compiled.parts else [entry["file"]]
        found |= dict.fromkeys(sources, flags)
    return found


def tidy(source: str) -> tuple[bool, str]:
    done = subprocess.run([CLANG_TIDY, "--quiet", "-p", OUT, source], capture_output=True, text=True, check=False)
    noise = re.compile(r"^\d+ warnings? (and \d+ errors? )?generated\.\n", re.M)
    return done.returncode == 0, done.stdout + noise.sub("", done.stderr)


def uses_its_names(text: str) -> bool:
    """Whether the source uses all names that it declares itself, because a group would hide unused ones."""
    code = re.sub(r"//.*", "", text)
    return all(
        re.search(rf"(?<![\w:.>]){name}\b" if name else rf"\b{alias}::", code) for name, alias in NAMES.findall(code)
    )


def grouped(sources: list[str], flags: dict[str, list[str]]) -> list[list[str]]:
    """Groups of sources of one folder with the same flags, the largest groups first."""
    by_flags: dict[tuple[str, ...], list[str]] = {}
    groups = []
    for source in sources:
        text = pathlib.Path(source).read_text()
        if ALONE.search(text) or not uses_its_names(text):
            groups.append([source])
        else:
            folder = pathlib.Path(source).relative_to(ROOT).parts[:-1][:2]
            by_flags.setdefault((*folder, *flags[source]), []).append(source)
    for alike in by_flags.values():
        count = -(-len(alike) // GROUP_SIZE)
        groups += [alike[i::count] for i in range(count)]
    return sorted(groups, key=len, reverse=True)


def main() -> None:
    build = ROOT / sys.argv[1]
    flags = flags_of(build)
    sources = [str(ROOT / line) for line in sys.stdin.read().split()]
    unknown = [source for source in sources if source not in flags]
    if unknown:
        sys.exit(f"{build}/compile_commands.json lacks {', '.join(unknown)}; configure it again")

    OUT.mkdir(parents=True, exist_ok=True)
    jobs = []  # the sources of a group, and the file that holds them all
    own_flags = {source: flags[source] for source in sources}
    for number, group in enumerate(grouped(sources, flags)):
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

    def look(group: list[str], source: str) -> str:
        clean, text = tidy(source)
        if clean or len(group) == 1:
            return "" if clean else text
        alone = [tidy(source) for source in group]
        return "".join(text for clean, text in alone if not clean)

    with concurrent.futures.ThreadPoolExecutor(cpus.available()) as pool:
        found = list(pool.map(lambda job: look(*job), jobs))
    print("".join(found), end="")
    if any(found):
        sys.exit(1)
    print(f"clang-tidy: {len(sources)} sources, clean")


if __name__ == "__main__":
    main()
