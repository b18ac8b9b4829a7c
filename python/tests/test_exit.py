"""Ends the interpreter while threads compute: daemon threads run until the process has ended."""

import os
import subprocess
import sys
import time

# The number of processes that end while they work; set FOVEA_TEST_EXITS to 200 for a thorough run.
EXITS = int(os.environ.get("FOVEA_TEST_EXITS", "16"))

EMBEDDING = """
import sys, threading, time
import numpy, fovea
model, device, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
encoder = fovea.load(model, device=device)
images = [numpy.zeros((300, 400, 3), numpy.uint8)] * 500
begun = threading.Barrier(threads + 1)
def work():
    begun.wait()
    while True:
        try:
            encoder.embed(images)
        except fovea.Error as error:
            assert "the process is ending" in str(error), error
            return
for _ in range(threads):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
time.sleep(seconds)
print(time.monotonic(), flush=True)
"""

LOADING = """
import sys, threading, time
import fovea
def work():
    while True:
        try:
            fovea.load(sys.argv[1], device=sys.argv[2]).close()
        except fovea.Error as error:
            assert "the process is ending" in str(error), error
            return
for _ in range(int(sys.argv[3])):
    threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[4]))
print(time.monotonic(), flush=True)
"""


def leave(code, model, device, exits):
    """Runs the code in several processes; all of them must end well, and soon after their last line."""
    ends = []
    for number in range(exits):
        seconds = 0.02 + 0.013 * (number % 16)  # at other moments of their work
        arguments = [sys.executable, "-c", code, model, device, str(1 + number % 5), str(seconds)]
        process = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
        ended = time.monotonic()
        ends.append((process.returncode, process.stderr))
        if process.returncode == 0:
            assert ended - float(process.stdout) < 5, process.stderr
    assert ends == [(0, "")] * exits


def test_while_embedding(model, device):
    leave(EMBEDDING, model, device, EXITS)


def test_while_loading(model, device):
    leave(LOADING, model, device, EXITS // 4)


def test_calls_after_the_end_say_so(model, device):
    """Handlers that were registered before Fovea's handler run after it."""
    code = """
import atexit, sys
def late():
    for call in (lambda: encoder.embed([pixels]), lambda: fovea.load(sys.argv[1], device=sys.argv[2])):
        try:
            call()
        except fovea.Error as error:
            print(error)
    encoder.close()
atexit.register(late)
import numpy, fovea
pixels = numpy.zeros((9, 9, 3), numpy.uint8)
encoder = fovea.load(sys.argv[1], device=sys.argv[2])
encoder.embed([pixels])
"""
    process = subprocess.run(
        [sys.executable, "-c", code, model, device], capture_output=True, text=True, timeout=60, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == "cannot begin a call: the process is ending\n" * 2


def test_threads_that_are_no_daemons_finish(model, device):
    code = """
import sys, threading, numpy, fovea
encoder = fovea.load(sys.argv[1], device=sys.argv[2])
def work():
    rows = encoder.embed([numpy.zeros((300, 400, 3), numpy.uint8)] * 300)
    print(len(rows), numpy.isfinite(rows).all())
threading.Thread(target=work).start()
"""
    process = subprocess.run(
        [sys.executable, "-c", code, model, device], capture_output=True, text=True, timeout=60, check=False
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "300 True\n", "")


def test_a_forked_child_ends_by_itself(model, device):
    """The child has no threads of the parent to wait for, and must not free its encoder."""
    code = """
import os, sys, threading, numpy, fovea
encoder = fovea.load(sys.argv[1], device=sys.argv[2])
images = [numpy.zeros((300, 400, 3), numpy.uint8)] * 3000
threading.Thread(target=lambda: encoder.embed(images), daemon=True).start()
child = os.fork()
if child == 0:
    encoder.close()
    sys.exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
os._exit(0)
"""
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, model, device],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (process.returncode, process.stderr) == (0, "")
