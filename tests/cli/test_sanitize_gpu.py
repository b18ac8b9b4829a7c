"""scripts/sanitize-gpu writes to no file whose name others can guess."""

import os
import pathlib
import subprocess

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "sanitize-gpu"


def test_its_file_has_no_name_to_guess(tmp_path):
    tools, temporary = tmp_path / "bin", tmp_path / "temporary"
    tools.mkdir()
    temporary.mkdir()
    tool = tools / "compute-sanitizer"
    # $PPID is the script, whose number is public.
    tool.write_text('#!/bin/sh\nif test -e "/tmp/sanitize-gpu.$PPID"; then exit 1; fi\necho "3/3 passed"\n')
    tool.chmod(0o755)
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(temporary), "FOVEA": "fovea"}
    result = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert result.stdout.splitlines() == [
        f"{name}: clean, 3/3 passed" for name in ("memcheck", "racecheck", "synccheck", "initcheck")
    ]
    assert result.returncode == 0
    assert not list(temporary.iterdir())
