"""Runs the kernels of everyday CUDA by `fovea emulate --launch`, and says which are right, refused or wrong."""

import collections
import json
import pathlib
import re
import subprocess

import numpy

from .table import Output, difference

ELEMENTS = {
    "f2": "f16", "f4": "f32", "f8": "f64", "u1": "u8", "i1": "s8", "u2": "u16", "i2": "s16", "u4": "u32", "i4": "s32",
    "u8": "u64", "i8": "s64",
}  # fmt: skip
# kind: right, refused, found, wrong or failed; kinds: those of all findings
Outcome = collections.namedtuple("Outcome", "kind said outputs kinds", defaults=(frozenset(),))


def isolate(ptx, kernel):
    """The PTX of one kernel of a file, with the functions and variables that it needs."""
    text = re.sub(r"//.*|/\*.*?\*/", "", ptx)
    start = re.search(r"\.address_size\s+\d+", text).end()
    items, depth, begun = [], 0, start
    for match in re.finditer(r'"[^"]*"|[{};]', text[start:]):
        mark, end = match.group(), start + match.end()
        depth += (mark == "{") - (mark == "}")
        code = re.search(r"\.(entry|func)\b", text[begun:end])
        if depth == 0 and (mark == ";" or (mark == "}" and code)):
            items.append(text[begun:end])
            begun = end
    named = collections.defaultdict(list)
    for item in items:
        found = re.search(r"\.entry\s+([\w$]+)|\.func\s*(?:\([^)]*\))?\s*([\w$]+)", item)
        found = found or re.match(r"\s*(?:\.\w+(?:\s+\d+)?\s+)*([\w$%]+)", item)
        name = next(n for n in found.groups() if n)
        named[name].append((item, set(re.findall(r"[\w$]+", item))))
    needed, left = set(), [kernel]
    while left:
        name = left.pop()
        if name in named and name not in needed:
            needed.add(name)
            left += [word for _, words in named[name] for word in words]
    return text[:start] + "\n" + "\n".join(item for name in named if name in needed for item, _ in named[name]) + "\n"


def launch_of(case, folder):
    """Writes a kernel's inputs into a folder; its launch, as the launch file has it."""
    buffers, arguments = {}, []
    for index, argument in enumerate(case.arguments):
        name = f"{'y' if isinstance(argument, Output) else 'x'}{index}"
        array = argument.initial if isinstance(argument, Output) else argument
        if isinstance(array, bytes):
            arguments.append({"bytes": array.hex()})
            continue
        if not isinstance(array, numpy.ndarray):
            arguments.append({"bytes": array.tobytes().hex()})
            continue
        (folder / f"{name}.bin").write_bytes(array.tobytes())
        buffers[name] = {"type": ELEMENTS[array.dtype.str[1:]], "content": {"file": f"{name}.bin"}}
        if isinstance(argument, Output):
            (folder / f"{name}.wanted").write_bytes(argument.wanted.tobytes())
            compare = {"file": f"{name}.wanted", "absolute": argument.tolerance, "relative": argument.tolerance}
            buffers[name] |= {"compare": compare, "write": f"{name}.out"}
        arguments.append({"buffer": name})
    launch = {"kernel": case.kernel, "grid": list(case.grid), "block": list(case.block), "arguments": arguments}
    if case.cluster != (1, 1, 1):
        launch["cluster"] = list(case.cluster)
    if case.shared_bytes:
        launch["shared_bytes"] = case.shared_bytes
    if case.cooperative:
        launch["cooperative"] = True
    return {"buffers": buffers, "launch": launch}


def run(program, case, ptx, folder, *options):
    """Runs a kernel of a PTX file, alone, and judges it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.ptx").write_text(isolate(ptx, case.kernel))
    (folder / "launch.json").write_text(json.dumps(launch_of(case, folder)))
    command = [
        pathlib.Path(program).resolve(),
        "emulate",
        "kernel.ptx",
        "--launch",
        "launch.json",
        "--json",
        "--overwrite",
        *options,
    ]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=60)
    except subprocess.TimeoutExpired:
        return Outcome("failed", "did not end within 60 seconds", [])
    if done.returncode == 2:
        return Outcome("refused", done.stderr.strip(), [])
    if done.returncode not in (0, 1):
        return Outcome("failed", f"exit code {done.returncode}: {done.stderr.strip()}", [])
    report = json.loads(done.stdout[done.stdout.index("{") :])
    outputs = [folder / f"y{k}.out" for k, argument in enumerate(case.arguments) if isinstance(argument, Output)]
    data = [path.read_bytes() if path.exists() else b"" for path in outputs]
    findings = [finding for found in report["found"] for finding in found["findings"]]
    if told := [finding for finding in findings if finding["kind"] != "mismatch"]:
        return Outcome("found", json.dumps(told[0]), data, frozenset(finding["kind"] for finding in told))
    differences = [difference(output, bytes) for output, bytes in zip(case.outputs, data)]
    if findings or any(differences):
        return Outcome("wrong", "; ".join(filter(None, differences)) or json.dumps(findings[0]), data)
    return Outcome("right", "", data)
