"""python -m fovea: becomes the `fovea` program that the wheel contains, with the same arguments."""

import os
import signal
import sys

program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "fovea")
if not os.path.isfile(program):
    sys.exit(f"{program} is missing: this Fovea was installed without the program")
# Restores these signals, which Python ignores: the program would inherit that.
for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(ignored, signal.SIG_DFL)
os.execv(program, ["fovea", *sys.argv[1:]])
