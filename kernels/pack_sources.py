#!/usr/bin/env python3
"""Writes OUT, a JSON document for the compilation of kernels at run time: their sources, their entry points and their
tuning parameters.

usage: pack_sources.py OUT

The fields of the document are:
sources: text by path, such as "kernels/gemm/config.cuh";
parameters: allowed values of each tuning parameter, by family of kernels;
kernels: the fields from variants.py (includes, template, family, values), by name.
"""

from __future__ import annotations

import json
import pathlib
import sys

import variants

FOLDER = pathlib.Path(__file__).resolve().parent


def document() -> dict[str, object]:
    files = sorted(path for pattern in ("*.cuh", "*.cu", "*.hpp") for path in FOLDER.rglob(pattern))
    return {
        "sources": {str(path.relative_to(FOLDER.parent)): path.read_text() for path in files},
        "parameters": variants.PARAMETERS,
        "kernels": {
            kernel.name: {
                "source": kernel.source,
                "includes": sorted({*kernel.includes, kernel.source}),
                "template": kernel.template,
                "family": kernel.family,
                "values": kernel.values,
            }
            for kernel in variants.kernels()
        },
    }


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(json.dumps(document()))
