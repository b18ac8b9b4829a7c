#!/usr/bin/env python3
"""Writes OUT.S and OUT.cpp, which embed compiled kernels and the resource usage that ptxas reports.

usage: embed.py FUNCTION OUT FILE...
       embed.py --ptx OUT.ptx FILE...

A FILE is machine code, such as kernels/pool_mean.sm_90a.cubin, with the output of ptxas in
kernels/pool_mean.sm_90a.log, or PTX, such as kernels/pool_mean.compute_90.ptx; each with a compressed FILE.zst. The
generated FUNCTION() returns the kernels. PTX for the emulator only has no FILE.zst: it is concatenated in OUT.ptx, which
the second form writes from the same files, and compressed in OUT.ptx.zst.
"""

from __future__ import annotations

import pathlib
import re
import sys

import variants

FIELDS = {
    "registers": r"Used (\d+) registers",
    "shared_bytes": r"(\d+) bytes smem",
    "stack_bytes": r"(\d+) bytes stack frame",
    "spill_store_bytes": r"(\d+) bytes spill stores",
    "spill_load_bytes": r"(\d+) bytes spill loads",
}


def resources(log: pathlib.Path) -> dict[str, dict[str, int]]:
    """Parses the resource usage of each entry point. ptxas omits shared memory if there is none."""
    text = log.read_text()
    if "serialized" in text:
        sys.exit(f"{log}: ptxas serialized matrix products:\n{text}")
    found = {}
    for part in text.split("Compiling entry function ")[1:]:
        name = part.split("'")[1]
        found[name] = {}
        for field, pattern in FIELDS.items():
            matches = re.findall(pattern, part)
            if not matches and field != "shared_bytes":
                sys.exit(f"{log}: no line matches '{pattern}' for {name}")
            found[name][field] = max((int(match) for match in matches), default=0)
    return found


def entries(ptx: pathlib.Path) -> dict[str, dict[str, int]]:
    """Lists the entry points of PTX. Their resource usage is unknown until a driver compiles them."""
    return {name: {} for name in re.findall(r"^\.visible \.entry (\w+)", ptx.read_text(), re.M)}


def is_emulators(file: pathlib.Path, members: dict[str, list[variants.Kernel]]) -> bool:
    """Returns whether the file is PTX for the emulator only."""
    unit, target, _ = file.name.split(".")
    return target not in members[unit][0].targets


def write_emulators(out: pathlib.Path, files: list[str]) -> None:
    members = variants.units(variants.kernels())
    with out.open("wb") as to:
        for file in map(pathlib.Path, files):
            if is_emulators(file, members):
                to.write(file.read_bytes())


def main() -> None:
    if sys.argv[1] == "--ptx":
        write_emulators(pathlib.Path(sys.argv[2]), sys.argv[3:])
        return
    function, out, *files = sys.argv[1:]
    assembly = ["  .section .rodata"]
    declarations, rows = "", []
    members = variants.units(variants.kernels())
    order = {kernel.name: number for number, kernel in enumerate(variants.kernels())}
    places: dict[tuple[str, str], tuple[int, int]] = {}  # offset and size of a unit's PTX in OUT.ptx
    offset = 0
    for file in map(pathlib.Path, files):
        if is_emulators(file, members):
            unit, target, _ = file.name.split(".")
            places[unit, target] = (offset, file.stat().st_size)
            offset += file.stat().st_size
    ptx = pathlib.Path(f"{out}.ptx.zst")
    ptx_label = f"fovea_ptx_of_{function}"
    if places:
        assembly += [
            "  .balign 64",
            f"  .global {ptx_label}",
            f"  .hidden {ptx_label}",
            f"{ptx_label}:",
            f'  .incbin "{ptx}"',
        ]
        declarations += f"extern const char {ptx_label}[];\n"
    for file in map(pathlib.Path, files):
        if is_emulators(file, members):
            continue
        unit, target, _ = file.name.split(".")
        label = f"fovea_kernels_{unit}_{target}"
        packed = pathlib.Path(f"{file}.zst")
        assembly += ["  .balign 64", f"  .global {label}", f"  .hidden {label}", f"{label}:", f'  .incbin "{packed}"']
        declarations += f"extern const char {label}[];\n"
        arch = variants.arch_of(target)
        is_ptx = variants.code_of(target) == "kPtx"
        found = entries(file) if is_ptx else resources(file.with_suffix(".log"))
        if sorted(found) != sorted(kernel.name for kernel in members[unit]):
            sys.exit(f"{file}: compiled to {sorted(found)}")
        size, packed_size = file.stat().st_size, packed.stat().st_size
        place = places.get((unit, variants.source_of(target, members[unit][0].targets)))
        made_from = (
            f",\n       .ptx = {{bytes({ptx_label}, {ptx.stat().st_size}), {place[0]}, {place[1]}}}" if place else ""
        )
        for kernel in members[unit]:
            fields = "".join(f", .{field} = {value}" for field, value in found[kernel.name].items())
            row = (
                f'      {{.kernel = KernelId::{kernel.name}, .name = "{kernel.name}",\n'
                f'       .source = "{kernel.source}", .arch = {arch}, .code = Code::{variants.code_of(target)},\n'
                f"       .packed = bytes({label}, {packed_size}), .unpacked_bytes = {size}{made_from}{fields}}},\n"
            )
            rows.append((order[kernel.name], arch, is_ptx, row))
    pathlib.Path(f"{out}.S").write_text("\n".join([*assembly, '  .section .note.GNU-stack,"",@progbits']) + "\n")
    table = "".join(row for *_, row in sorted(rows))
    pathlib.Path(f"{out}.cpp").write_text(f"""// Made by kernels/embed.py.
#include "gpu/device/kernel_image.hpp"

extern "C" {{
{declarations}}}

namespace fovea::gpu {{
namespace {{

[[maybe_unused]] std::span<const std::byte> bytes(const char* data, std::size_t size) {{
  return std::as_bytes(std::span(data, size));
}}

}}  // namespace

// Sorted by kernel, then by architecture; PTX follows machine code.
std::vector<KernelImage> {function}() {{
  return {{
{table}  }};
}}

}}  // namespace fovea::gpu
""")


if __name__ == "__main__":
    main()
