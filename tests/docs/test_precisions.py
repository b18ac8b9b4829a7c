"""The table of precisions in docs/gpu.md has those of the program."""

import re

from snippets import ROOT


def test_every_precision_has_a_row(run_fovea):
    choices = re.search(r"--precision (auto\|\S+)", run_fovea("embed", "--help").stdout)
    section = (ROOT / "docs/gpu.md").read_text().split("\n## Precisions\n")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == choices.group(1).split("|")[1:]
