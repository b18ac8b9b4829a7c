"""Writes docs/performance.md and its accompanying files, checks them, or renders result files as an HTML page.

    python3 bench/report                                 writes docs/performance.md, docs/performance/, docs/plots/, and parts of docs/gpu.md and README.md
    python3 bench/report --check                         fails when they are not what bench/results/ says, or when what they show has become too old
    python3 bench/report --page report.html [RESULTS...] makes one HTML page of files and folders (without any: bench/results)

Python alone is enough: no package is needed."""

import argparse
import pathlib
import sys

sys.path[0] = str(
    pathlib.Path(__file__).resolve().parents[1]
)  # bench/ replaces this folder, so that `report` is importable
from report import docs, page  # noqa: E402
from report.shapes import Damaged  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench/report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 when a document does not match the results"
    )
    mode.add_argument("--page", metavar="FILE", type=pathlib.Path, help="write an HTML page, such as report.html")
    parser.add_argument("--overwrite", action="store_true", help="let --page replace a file that Fovea did not write")
    parser.add_argument(
        "results", metavar="RESULTS", nargs="*", type=pathlib.Path, help="result files, or folders of them"
    )
    options = parser.parse_args()
    if options.check:
        return docs.check()
    if not options.page:
        if options.results:
            parser.error("RESULTS require --page FILE")
        return docs.write()
    try:
        html, count, left_out = page.page(options.results or [docs.RESULTS])
        page.write(options.page, html, options.overwrite)
    except (Damaged, OSError) as error:
        print(f"bench/report: {error}", file=sys.stderr)
        return 1
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    print(f"wrote {options.page}, from {count} file{'s' * (count != 1)} of results", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
