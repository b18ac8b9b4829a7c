"""Compiles the kernels of everyday CUDA: a source for each family, its PTX, and machine code for a card.

python3 tests/emulator/everyday/compile.py OUT                  # OUT/UNIT.cu and OUT/UNIT.ptx, as sm_90a takes them
python3 tests/emulator/everyday/compile.py OUT --cubins         # OUT/UNIT.cubin as well
python3 tests/emulator/everyday/compile.py OUT --only warps videos --flags=-G
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

import faults  # noqa: E402

from everyday import CASES  # noqa: E402


def compiler(name="nvcc"):
    """Path of a program of the CUDA toolkit, or nothing."""
    found = shutil.which(name) or ROOT / "build/cuda/bin" / name
    return pathlib.Path(found) if pathlib.Path(found).exists() else None


def units(names=None, table=CASES):
    """The cases of each source, by its name."""
    gathered = {}
    for case in table.values():
        if names is None or case.unit in names:
            gathered.setdefault(case.unit, []).append(case)
    return gathered


def source(cases):
    """The text of a source with some kernels."""
    headers = dict.fromkeys(header for case in cases for header in case.headers)
    return "".join(f"#include <{header}>\n" for header in headers) + "\n".join(case.source() for case in cases)


def architecture(cases):
    """What a source is compiled for: a Hopper, or the newer GPU that it needs."""
    lowest = max(case.lowest for case in cases)
    return "sm_90a" if lowest <= 90 else f"sm_{lowest}a"


def compile_unit(cases, folder, name, flags=(), target=None):
    """Writes folder/name.cu and folder/name.ptx, for a target or as the cases need; errors have the compiler's words."""
    text = folder / f"{name}.cu"
    text.write_text(source(cases))
    made = folder / f"{name}.ptx"
    command = [
        compiler(),
        f"-arch={target or architecture(cases)}",
        "-std=c++17",
        "-w",
        "-ptx",
        *flags,
        "-o",
        made,
        text,
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", help="names of the sources that are compiled")
    parser.add_argument("--cubins", action="store_true")
    parser.add_argument("--faults", action="store_true", help="the right kernels of the table of faults instead")
    parser.add_argument("--flags", nargs="*", default=[], help="more flags of nvcc")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for name, cases in units(options.only, faults.RIGHT if options.faults else CASES).items():
        try:
            ptx = compile_unit(cases, options.folder, name, options.flags)
            if options.cubins:
                command = [compiler("ptxas"), f"-arch={architecture(cases)}", "-o", ptx.with_suffix(".cubin"), ptx]
                subprocess.run(command, check=True, capture_output=True, text=True)
            print(f"{name}: {len(cases)} kernels", flush=True)
        except subprocess.CalledProcessError as error:
            failed = True
            print(f"{name}: {error.stderr}", file=sys.stderr, flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
