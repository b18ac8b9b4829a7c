#!/usr/bin/env python3
"""Checks the include graph: which folder may include which, as docs/architecture.md draws it."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# folder -> folders whose headers it may include, beside its own. include/fovea (std types only)
# may be included by all.
ALLOWED = {
    "include/fovea": set(),
    "include/fovea/c": set(),
    "src/core": set(),
    "src/io": {"src/core"},
    "src/image": {"src/core"},
    "src/ops": {"src/core"},
    "src/model": {"src/ops", "src/io", "src/core"},
    "src/cpu": {"src/ops", "src/core"},
    "src/gpu/device": {"src/core", "kernels/list"},
    "src/gpu/launch": {"src/gpu/device", "src/ops", "src/core", "kernels", "kernels/list"},
    "src/gpu/nvidia": {"src/gpu/device", "src/ops", "src/core"},
    "src/gpu": {"src/gpu/launch", "src/gpu/nvidia", "src/gpu/device", "src/ops", "src/core"},
    "src/quantize": {"src/model", "src/ops", "src/core"},
    "src/pipeline": {"src/model", "src/ops", "src/image", "src/io", "src/core"},
    "src/hub": {"src/io", "src/core"},
    "src/search": {"src/image", "src/io", "src/core"},
    "src/api": {
        "src", "src/core", "src/io", "src/image", "src/ops", "src/model", "src/cpu",
        "src/gpu", "src/quantize", "src/pipeline", "src/hub", "src/search",
    },
    "src/c": {"include/fovea/c", "src/cpu", "src/gpu/launch", "src/gpu/device", "src/ops", "src/core"},
    "src": {"src/cpu", "src/gpu", "src/gpu/device", "src/ops", "src/core"},  # backends.cpp, the composition root
    # Device code: the lower layers first. What .cu and .cuh files share with launchers is *_params.hpp.
    "kernels/ptx": set(),
    "kernels/pipe": {"kernels/ptx"},
    "kernels/tile": {"kernels/ptx"},
    "kernels/epilogue": {"kernels/ptx"},
    "kernels": {"kernels/ptx", "kernels/pipe", "kernels/tile", "kernels/epilogue"},
    "lab": {
        "src/gpu", "src/gpu/launch", "src/gpu/nvidia", "src/gpu/device", "src/ops", "src/io", "src/core", "kernels",
    },
    "cli": {"lab", "src/gpu/device", "src/io"},
    "examples": set(),
    "python/native": {"include/fovea/c"},
}
# Headers that kernels/variants.py makes, and the folder that each counts as one of.
GENERATED = {"kernels/kernel_list.hpp": "kernels/list", "kernels/variants.hpp": "kernels"}
# Device libraries and threads stay where they belong.
THIRD_PARTY_ONLY_IN = {
    "oneapi/dnnl": {"src/cpu"},
    "curl/": {"src/hub"},
    "archive": {"src/pipeline"},
    "CLI/": {"cli"},
    "torch/": {"python/native"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(path: pathlib.Path) -> str:
    """The key of ALLOWED that `path` belongs to: sub-folders count with their parent."""
    parts = path.relative_to(ROOT).parts
    for depth in (3, 2):
        if len(parts) > depth and "/".join(parts[:depth]) in ALLOWED:
            return "/".join(parts[:depth])
    return "/".join(parts[:2]) if parts[0] == "src" and len(parts) > 2 else parts[0]


def owner_of(include: str) -> str | None:
    """The folder whose header a quoted include names, or None when no such header is ours."""
    if include in GENERATED:
        return GENERATED[include]
    for base in ("include", "src", "."):
        candidate = ROOT / base / include
        if candidate.is_file():
            return folder_of(candidate)
    return None


def problems_in(path: pathlib.Path) -> list[str]:
    folder = folder_of(path)
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path.relative_to(ROOT)}:{number}"
        if folder == "include/fovea" and re.match(r"\s*#\s*if", line):
            found.append(f"{where}: public headers have no #if")
        match = INCLUDE.match(line)
        if not match:
            continue
        style, include = match.groups()
        for prefix, homes in THIRD_PARTY_ONLY_IN.items():
            if include.startswith(prefix) and folder not in homes:
                found.append(f"{where}: <{include}> may be included only from {sorted(homes)}")
        if style == "<":
            continue
        owner = owner_of(include)
        if owner is None:
            found.append(f'{where}: "{include}" is not found from include/ or src/')
        elif owner not in (folder, "include/fovea") and owner not in ALLOWED[folder]:
            found.append(f'{where}: {folder} may not include "{include}" of {owner}')
    return found


def main() -> int:
    found = []
    checked = 0
    for folder in ("include", "src", "kernels", "lab", "cli", "examples", "python"):
        paths = (ROOT / folder).rglob("*")
        for path in sorted(p for p in paths if p.suffix in (".cpp", ".hpp", ".h", ".cu", ".cuh")):
            checked += 1
            if folder_of(path) not in ALLOWED:
                found.append(f"{path.relative_to(ROOT)}: folder without a rule in {__file__}")
                continue
            found += problems_in(path)
    print("\n".join(found) if found else f"include graph: {checked} files obey it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
