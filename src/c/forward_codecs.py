"""Writes assembly that redirects libfovea.so's calls of image libraries to the functions that codecs.cpp looks up.

    python forward_codecs.py CODECS OUTPUT

CODECS is libfovea_codecs.so, which depends on those libraries. For each of their functions there is a hidden symbol of
the same name, which jumps to an address in a table. The table is read-only once it is filled.
"""

import pathlib
import platform
import re
import subprocess
import sys

NOT_CODECS = re.compile(r"lib(c|m|stdc\+\+|gcc_s|pthread|fmt)\.so|ld-linux|linux-vdso")
JUMPS = {
    "x86_64": "  endbr64\n  jmp *{slot}(%rip)\n",
    "aarch64": "  hint #34\n  adrp x16, {slot}\n  ldr x16, [x16, :lo12:{slot}]\n  br x16\n",
}
PAGE = {"x86_64": 4096, "aarch64": 65536}


def command_output(*command: str) -> str:
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def functions(library: str) -> set[str]:
    lines = [line.split() for line in command_output("nm", "-D", "--defined-only", library).splitlines()]
    return {name.split("@")[0] for _, kind, name in lines if kind in "TWi"}


def hidden_symbol(name: str) -> list[str]:
    return [f".globl {name}", f".hidden {name}", f"{name}:"]


def main(codecs: str, path: str) -> None:
    machine = platform.machine()
    dependencies = set(re.findall(r"NEEDED.*\[(.*)\]", command_output("readelf", "-d", codecs)))
    paths = dict(re.findall(r"^\s*(\S+) => (\S+)", command_output("ldd", codecs), re.MULTILINE))
    libraries = [paths[name] for name in dependencies if not NOT_CODECS.match(name)]
    names = sorted(set().union(*map(functions, libraries)))
    text = ["# Written by src/c/forward_codecs.py.", ".text"]
    for name in names:
        text += [f".type {name}, %function", *hidden_symbol(name)]
        text.append(JUMPS[machine].format(slot=f"slot_{name}") + f".size {name}, . - {name}")
    page = f".balign {PAGE[machine]}"
    text += [".data", page, *hidden_symbol("fovea_codec_slots"), *(f"slot_{name}: .quad 0" for name in names)]
    text += [page, *hidden_symbol("fovea_codec_slots_end"), ".byte 0"]
    text += [
        ".section .rodata",
        *hidden_symbol("fovea_codec_names"),
        *(f'.asciz "{name}"' for name in names),
        ".byte 0",
    ]
    text.append('.section .note.GNU-stack,"",%progbits')
    assembly = "\n".join(text) + "\n"
    file = pathlib.Path(path)
    if not file.exists() or file.read_text() != assembly:  # keeps its modification time if nothing changed
        file.write_text(assembly)


if __name__ == "__main__":
    main(*sys.argv[1:])
