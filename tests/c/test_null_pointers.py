"""Every function of the C interface with NULL for each of its pointers, as the headers declare them: it fails, or
answers with nothing. A process of its own makes the calls, which says each before it makes it."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PHOTO = sorted((ROOT / "examples/photos").glob("*.jpg"))[0]

#: Pointers for which the headers give NULL a meaning.
OPTIONAL = {
    "fovea_collection_open": {"root"},
    "fovea_collection_open_on": {"root"},
    "fovea_collection_nearest": {"left_out", "handler", "context"},
    "fovea_encoder_load_calibrated": {"calibration"},
    "fovea_pull": {"revision", "handler", "context"},
    "fovea_set_note_handler": {"handler"},
}


def declared():
    """(result, name, [(type, name)]) of each function."""
    for header in sorted((ROOT / "include/fovea/c").glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for result, name, parameters in re.findall(r"FOVEA_API\s+([\w\s*]+?)\s*\b(fovea_\w+)\s*\(([^)]*)\);", text):
            pairs = [] if parameters.strip() == "void" else [part.strip() for part in parameters.split(",")]
            yield result, name, [re.fullmatch(r"(.*?[\s*])(\w+)", " ".join(pair.split())).groups() for pair in pairs]


def is_pointer(kind):
    return "*" in kind or kind.strip().endswith("_handler")


CALLS = [
    (result, name, [kind for kind, _ in parameters], position)
    for result, name, parameters in declared()
    for position, (kind, parameter) in enumerate(parameters)
    if is_pointer(kind) and parameter not in OPTIONAL.get(name, ())
]

CALLER = r'''
import ctypes, json, sys

library = ctypes.CDLL(sys.argv[1])
model, output, photo, calls = sys.argv[2], sys.argv[3], sys.argv[4], json.load(sys.stdin)
library.fovea_last_error.restype = ctypes.c_char_p
OBJECTS = ("fovea_encoder", "fovea_collection", "fovea_embedding", "fovea_features")

def made(function, *arguments):
    handle = ctypes.c_void_p()
    assert getattr(library, function)(*arguments, ctypes.byref(handle)) == 0, library.fovea_last_error()
    return handle

memory = ctypes.create_string_buffer(1 << 20)
paths = (ctypes.c_char_p * 1)(output.encode())
class Image(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("width", ctypes.c_int32), ("height", ctypes.c_int32),
                ("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]
image = Image(0, 0, 0, photo.encode(), len(photo.encode()))
encoder = made("fovea_encoder_load", model.encode(), b"cpu", b"fp32", 1)
features, run = ctypes.c_void_p(), ctypes.c_void_p()
assert library.fovea_features_start(encoder, ctypes.byref(image), ctypes.c_size_t(1), b"last", memory,
                                    ctypes.byref(features), ctypes.byref(run)) == 0, library.fovea_last_error()
objects = {
    "fovea_encoder": encoder,
    "fovea_collection": made("fovea_collection_open", paths, ctypes.c_size_t(1), None, 1),
    "fovea_embedding": run,
    "fovea_features": features,
}
ended = ctypes.c_int32()
while not ended.value:
    assert library.fovea_embed_wait(run, 1000, ctypes.byref(ended)) == 0, library.fovea_last_error()

def value(kind):
    """One that a function takes."""
    words = kind.replace("const", " ").split()
    if "*" not in kind and not words[-1].endswith("_handler"):
        return {"size_t": ctypes.c_size_t(1), "int64_t": ctypes.c_int64(1), "int32_t": ctypes.c_int32(0),
                "fovea_wording": ctypes.c_int(3)}[words[0]]
    if words[0].rstrip("*") in OBJECTS and kind.count("*") == 1:
        return objects[words[0].rstrip("*")]
    if kind.replace(" ", "") == "constchar*":
        return ctypes.c_char_p(b"cpu")
    return ctypes.cast(memory, ctypes.c_void_p)

for result, name, kinds, position in calls:
    print("call", name, position, flush=True)
    ctypes.memset(memory, 0, len(memory))
    arguments = [ctypes.c_void_p() if at == position else value(kind) for at, kind in enumerate(kinds)]
    function = getattr(library, name)
    function.restype = {"fovea_status": ctypes.c_int, "void": None, "size_t": ctypes.c_size_t, "int64_t": ctypes.c_int64,
                        "int32_t": ctypes.c_int32, "const char*": ctypes.c_char_p, "void*": ctypes.c_void_p}[result.replace(" *", "*")]
    answer = function(*arguments)
    message = library.fovea_last_error().decode() if result == "fovea_status" else ""
    print("answer", json.dumps([name, position, answer.decode() if isinstance(answer, bytes) else answer, message]), flush=True)
'''


@pytest.fixture(scope="module")
def answers(fovea_bin, run_fovea, model, tmp_path_factory):
    library = pathlib.Path(os.environ.get("FOVEA_LIBRARY", fovea_bin.parent.parent / "lib/libfovea.so"))
    assert library.is_file(), f"{library} is not there"
    output = tmp_path_factory.mktemp("null") / "out"
    run_fovea("embed", PHOTO, "-m", model, "--device", "cpu", "-o", output)
    done = subprocess.run(
        [sys.executable, "-c", CALLER, library, model, output, PHOTO],
        input=json.dumps(CALLS), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"the process ended in {lines[-1] if lines else 'its beginning'}: {done.stderr}"
    return {
        tuple(answer[:2]): answer[2:]
        for answer in (json.loads(line[7:]) for line in lines if line.startswith("answer "))
    }


def test_the_headers_are_read_whole():
    exported = {name for _, name, _ in declared()}
    text = "".join(path.read_text() for path in (ROOT / "include/fovea/c").glob("*.h"))
    assert len(exported) == text.count("FOVEA_API ") - text.count("#define FOVEA_API") > 40
    assert set(OPTIONAL) <= exported


@pytest.mark.parametrize(
    ("result", "name", "kinds", "position"), CALLS, ids=lambda part: part if isinstance(part, (str, int)) else ""
)
def test_null_is_answered(result, name, kinds, position, answers):
    answer, message = answers[name, position]
    if result == "fovea_status":
        assert answer == 1, "it does not fail"
        assert message.endswith("is NULL"), message
    elif result != "void":
        nothing = -1 if name == "fovea_features_cuda_device" else ""
        assert answer in (0, None, nothing)
