"""Packs peers for a machine without a network: python3 bench/pack_peers.py peers.tar.xz [--python 3.12] [PACKAGE...]

The archive has one folder, `peers`, for PYTHONPATH, with the packages and all that they need but numpy, which the
machine has. Packages: those that bench/search_times.py runs, unless others are named."""

import argparse
import pathlib
import subprocess
import sys
import tarfile
import tempfile

SEARCH_PEERS = ("faiss-cpu", "usearch")
LEFT_OUT = ("numpy", "numpy.libs", "bin", "__pycache__")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=pathlib.Path)
    parser.add_argument("packages", nargs="*", default=SEARCH_PEERS)
    parser.add_argument("--python", default="3.12")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--target",
                folder,
                "--only-binary=:all:",
                "--python-version",
                options.python,
                "--implementation",
                "cp",
                "--platform",
                "manylinux_2_28_x86_64",
                "--platform",
                "manylinux_2_27_x86_64",
                "--platform",
                "manylinux2014_x86_64",
                *options.packages,
            ],
            check=True,
        )
        with tarfile.open(options.archive, "w:xz", preset=6) as archive:
            for path in sorted(pathlib.Path(folder).iterdir()):
                if path.name not in LEFT_OUT and not path.name.startswith("numpy-"):
                    archive.add(
                        path, f"peers/{path.name}", filter=lambda info: None if "/tests/" in info.name else info
                    )
    print(f"{options.archive}: {options.archive.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
