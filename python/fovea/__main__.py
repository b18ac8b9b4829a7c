"""Runs the `fovea` program of the wheel in place of this process, with the same arguments (python -m fovea)."""

import os
import signal
import sys

program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "fovea")
if not os.path.isfile(program):
    sys.exit(f"{program} is missing: this Fovea was installed without the program")
# Python ignores these signals, and the program would inherit this; restores the defaults.
for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(ignored, signal.SIG_DFL)
os.execv(program, ["fovea", *sys.argv[1:]])
