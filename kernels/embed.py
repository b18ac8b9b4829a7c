#!/usr/bin/env python3
"""Writes images.S and images.cpp, which embed the compiled kernels of a build folder.

usage: embed.py FOLDER   FOLDER holds kernels.txt (name|source|arch lines) and, for each line,
NAME.sm_ARCH.{cubin,ptx,resources}, the last being what ptxas -v printed.
"""

import pathlib
import re
import sys

FIELDS = {
    "registers": r"Used (\d+) registers",
    "shared": r"(\d+) bytes smem",
    "stack": r"(\d+) bytes stack frame",
    "spill_stores": r"(\d+) bytes spill stores",
    "spill_loads": r"(\d+) bytes spill loads",
}


def resources(path: pathlib.Path) -> dict[str, int]:
    """The numbers ptxas printed; shared memory is left out by ptxas when there is none."""
    text = path.read_text()
    found = {}
    for field, pattern in FIELDS.items():
        matches = re.findall(pattern, text)
        if not matches and field != "shared":
            sys.exit(f"{path}: no line that says '{pattern}'")
        found[field] = max((int(match) for match in matches), default=0)
    return found


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    assembly = ['  .section .rodata', '  .balign 64']
    rows = []
    names = []
    for line in (folder / "kernels.txt").read_text().split():
        name, source, arch = line.split("|")
        stem = folder / f"{name}.sm_{arch}"
        symbol = f"fovea_kernel_{name}_{arch}"
        for kind in ("cubin", "ptx"):
            size = (folder / f"{name}.sm_{arch}.{kind}").stat().st_size
            label = f"{symbol}_{kind}"
            assembly += [f"  .global {label}", f"{label}:", f'  .incbin "{stem}.{kind}"',
                         "  .byte 0", "  .balign 64"]
            names.append((label, size + (kind == "ptx")))
        values = resources(folder / f"{name}.sm_{arch}.resources")
        rows.append(
            f'    {{.name = "{name}", .source = "{source}", .arch = {int(re.sub("[a-z]", "", arch))},\n'
            f"     .cubin = bytes({symbol}_cubin, {names[-2][1]}),\n"
            f"     .ptx = bytes({symbol}_ptx, {names[-1][1]}),\n"
            f'     .registers = {values["registers"]}, .shared_bytes = {values["shared"]},\n'
            f'     .stack_bytes = {values["stack"]}, .spill_store_bytes = {values["spill_stores"]},\n'
            f'     .spill_load_bytes = {values["spill_loads"]}}},')
    assembly.append('  .section .note.GNU-stack,"",@progbits')
    (folder / "images.S").write_text("\n".join(assembly) + "\n")

    declarations = "\n".join(f"extern const char {label}[];" for label, _ in names)
    table = "\n".join(rows)
    array = (f"const std::array<KernelImage, {len(rows)}> kImages = {{{{\n{table}\n}}}};" if rows
             else "const std::array<KernelImage, 0> kImages{};")
    (folder / "images.cpp").write_text(f"""// Made by kernels/embed.py.
#include "gpu/device/kernel_image.hpp"

#include <array>

extern "C" {{
{declarations}
}}

namespace fovea::gpu {{
namespace {{

[[maybe_unused]] std::span<const std::byte> bytes(const char* data, std::size_t size) {{
  return std::as_bytes(std::span(data, size));
}}

{array}

}}  // namespace

std::span<const KernelImage> kernel_images() {{ return kImages; }}

}}  // namespace fovea::gpu
""")


if __name__ == "__main__":
    main()
