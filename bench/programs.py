"""Runs the programs of a measurement, ends them with all their child processes, and reads the JSON that they save."""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# Imports the module without its package, which has further dependencies.
sys.path.append(str(HERE.parent / "python/fovea/lab"))
import _processes  # noqa: E402

TICK = 2.0  # seconds between calls of run()'s `tick`


def log(*values):
    print(*values, file=sys.stderr, flush=True)


def command_arguments(*positional, **options):
    """Returns the arguments of a command: command_arguments(photos, m=model, batch_size=8, quiet=True) gives PHOTOS -m MODEL
    --batch-size 8 --quiet. An option that is None is left out."""
    arguments = list(positional)
    for name, value in options.items():
        if value is not None:
            arguments.append(f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}")
            arguments += [] if value is True else [value]
    return [str(word) for word in arguments]


def write_list(path, files):
    """Writes a list of files, and returns the argument (@LIST) that makes the program read them."""
    path.write_text("".join(f"{file}\n" for file in files))
    return f"@{path}"


def answer(*command):
    """Returns the standard output of a program. Raises RuntimeError with its standard error when it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def reason(error):
    """Returns the first line of an error, or the name of its type."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def run(command, seconds, tick=lambda: None, **options):
    """Does the same as subprocess.run(), and calls `tick` meanwhile. A timeout, or an interrupt of this script, ends
    the program and all its child processes."""
    until = time.monotonic() + seconds
    command = [str(part) for part in command]
    with subprocess.Popen(command, text=True, start_new_session=True, **options) as process:
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


def script_results(options, *command):
    """Returns the JSON that a Python script writes with --json, or {} when it failed before writing any."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, *command, "--json", file.name]
        try:
            failure = run(command, options.seconds, stdout=sys.stderr).returncode
        except subprocess.TimeoutExpired:
            failure = f"timed out after {options.seconds:.0f} s"
        if failure:
            print(f"{' '.join(map(str, command[1:3]))} failed ({failure}); its saved results are kept", file=sys.stderr)
            options.failed = True
        return json.loads(pathlib.Path(file.name).read_text() or "{}")


def section_figures(options, script, *arguments):
    """Returns the results of a script of this folder, without the description of the machine."""
    return {
        name: figures
        for name, figures in script_results(options, HERE / script, *arguments).items()
        if name != "machine"
    }
