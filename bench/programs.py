"""Programs that a measurement runs: ended with all that they started, and what they save as JSON."""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# Imports the module without the rest of the package, which has needs of its own.
sys.path.append(str(HERE.parent / "python/fovea/lab"))
import _processes  # noqa: E402

TICK = 2.0  # seconds between looks at what a program has made so far


def log(*words):
    print(*words, file=sys.stderr, flush=True)


def words(*positional, **options):
    """Words of a command: words(photos, m=model, batch_size=8, quiet=True) is PHOTOS -m MODEL --batch-size 8 --quiet. An
    option that is None is left out."""
    listed = list(positional)
    for name, value in options.items():
        if value is not None:
            listed.append(f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}")
            listed += [] if value is True else [value]
    return [str(word) for word in listed]


def listed(path, files):
    """Argument that makes the program read the files that a list names."""
    path.write_text("".join(f"{file}\n" for file in files))
    return f"@{path}"


def answer(*command):
    """What a program prints. RuntimeError with what it says when it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def reason(error):
    """The first line of what an engine failed with."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def run(command, seconds, tick=lambda: None, **how):
    """subprocess.run(); but the limit, and whoever stops this script, end all that the program has started."""
    until = time.monotonic() + seconds
    command = [str(part) for part in command]
    with subprocess.Popen(command, text=True, start_new_session=True, **how) as process:
        try:
            while True:
                try:
                    output, errors = process.communicate(timeout=min(TICK, max(until - time.monotonic(), 0)))
                    return subprocess.CompletedProcess(command, process.returncode, output, errors)
                except subprocess.TimeoutExpired:
                    if time.monotonic() >= until:
                        raise subprocess.TimeoutExpired(command, seconds) from None
                tick()
        except BaseException:
            _processes.end(process.pid)
            process.wait()
            raise


def saved(options, *command):
    """The JSON that a program of Python's writes with --json; empty when it did not get that far."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, *command, "--json", file.name]
        try:
            failure = run(command, options.seconds, stdout=sys.stderr).returncode
        except subprocess.TimeoutExpired:
            failure = f"no end within {options.seconds:.0f} s"
        if failure:
            print(f"{' '.join(map(str, command[1:3]))} failed ({failure}); keeping what it saved", file=sys.stderr)
            options.failed = True
        return json.loads(pathlib.Path(file.name).read_text() or "{}")


def section_of(options, script, *words):
    """What a script of this folder measured, without the machine, which this file has once."""
    return {name: figures for name, figures in saved(options, HERE / script, *words).items() if name != "machine"}
