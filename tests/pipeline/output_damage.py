"""What may happen to an output folder between two runs: seeded alterations of its files."""

import hashlib
import json
import re
import shutil


def scalars(value, path=()):
    """Paths of the scalars of a JSON document."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from scalars(inner, (*path, key))
    else:
        yield path


def values_instead_of(old, rng):
    if isinstance(old, bool):
        return [not old, int(old), "true", None]
    if isinstance(old, int):
        near = [0, 1, old + 1, max(0, old - 1), old * 2, rng.randrange(2 * old + 2)]
        odd = [old + 0.5, float(old), True, -1, -old, 2**64, 2**64 + old, 2**63, 1e300, str(old), None, [old]]
        return near + odd
    if isinstance(old, float):
        return [0.0, old * 2, -old, 1, "x", None]
    if isinstance(old, str):
        return ["", old + "0", old[:-1], old.upper() + "A", "0" * len(old), "f" * len(old), 7, None]
    return [0, ""]


def seal(manifest):
    """The manifest as text, with the checksum that belongs to it where it has one."""
    if "check" in manifest:
        manifest = {key: value for key, value in manifest.items() if key != "check"}
        text = json.dumps(manifest, indent=2, ensure_ascii=False)
        manifest["check"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def alter_value(folder, rng, sealed):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    where = rng.choice([p for p in scalars(manifest) if p != ("check",)])
    inner = manifest
    for key in where[:-1]:
        inner = inner[key]
    old = inner[where[-1]]
    choices = [v for v in values_instead_of(old, rng) if v != old or type(v) is not type(old)]
    if rng.random() < 0.1:
        del inner[where[-1]]
        new = "nothing"
    else:
        new = inner[where[-1]] = rng.choice(choices)
    path.write_text(seal(manifest) if sealed else json.dumps(manifest, indent=2) + "\n")
    return f"manifest {'.'.join(map(str, where))}: {old!r} := {new!r}" + (" (sealed)" if sealed else "")


def manifest_value(folder, rng, _):
    return alter_value(folder, rng, False)


def sealed_value(folder, rng, _):
    return alter_value(folder, rng, True)


def count_value(folder, rng, _):
    """The numbers that a resumed job goes by."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    part = manifest[rng.choice(["counts", "resume"])]
    key = rng.choice([k for k, v in part.items() if isinstance(v, int)])
    old = part[key]
    part[key] = rng.choice([v for v in values_instead_of(old, rng) if v is not None])
    sealed = rng.random() < 0.5
    path.write_text(seal(manifest) if sealed else json.dumps(manifest, indent=2) + "\n")
    return f"manifest {key}: {old!r} := {part[key]!r}" + (" (sealed)" if sealed else "")


def odd_manifest(folder, rng, _):
    path = folder / "manifest.json"
    text = path.read_text()
    key = rng.choice(re.findall(r'"(\w+)":', text))
    text, what = rng.choice(
        [
            (re.sub(rf'( *"{key}": )', r'\1 ', text, count=1), "a space"),
            (re.sub(r'("finished": )(\w+)', r'\1\2, \1\2', text, count=1), "a key given twice"),
            (text.replace("{", '{"unknown": 1,', 1), "an unknown key"),
            ("[" * 100000, "brackets"),
            (text + "{}", "a second document"),
            (text.rstrip("\n"), "no newline"),
            (json.dumps(json.loads(text)), "on one line"),
        ]
    )  # fmt: skip
    path.write_text(text)
    return f"manifest: {what} ({key})"


def some_file(folder, rng):
    files = sorted(p for p in folder.iterdir() if p.name != ".lock")
    return rng.choice(files)


def truncated(folder, rng, _):
    path = some_file(folder, rng)
    size = path.stat().st_size
    keep = rng.choice([0, size // 2, max(0, size - 1), rng.randrange(size + 1)])
    with open(path, "r+b") as file:
        file.truncate(keep)
    return f"{path.name}: {size} bytes cut to {keep}"


def deleted(folder, rng, _):
    path = some_file(folder, rng)
    path.unlink()
    return f"{path.name}: deleted"


def appended(folder, rng, _):
    path = some_file(folder, rng)
    data = path.read_bytes()
    more = rng.choice([b"\n", b"\0" * 512, rng.randbytes(7), data[-100:], b'{"source": "x", "error": "y"}\n'])
    path.write_bytes(data + more)
    return f"{path.name}: {len(more)} bytes appended"


def flipped(folder, rng, _):
    path = some_file(folder, rng)
    data = bytearray(path.read_bytes())
    if not data:
        return truncated(folder, rng, _)
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return f"{path.name}: a bit of byte {at} of {len(data)}"


def header_altered(folder, rng, other):
    files = sorted(folder.glob("embeddings-*.npy*"))
    if not files:
        return flipped(folder, rng, other)
    path = rng.choice(files)
    data = bytearray(path.read_bytes())
    at = rng.randrange(min(128, len(data)))
    data[at] = rng.randrange(256)
    path.write_bytes(data)
    return f"{path.name}: header byte {at}"


def swapped_bytes(folder, rng, _):
    path = some_file(folder, rng)
    data = bytearray(path.read_bytes())
    if len(data) < 2:
        return deleted(folder, rng, _)
    a, b = rng.randrange(len(data)), rng.randrange(len(data))
    data[a], data[b] = data[b], data[a]
    path.write_bytes(data)
    return f"{path.name}: bytes {a} and {b} swapped"


def lines_altered(folder, rng, other):
    path = rng.choice(sorted(p for p in folder.iterdir() if ".jsonl" in p.name))
    lines = path.read_bytes().splitlines(keepends=True)
    if len(lines) < 2:
        return flipped(folder, rng, other)
    a, b = rng.sample(range(len(lines)), 2)
    kind = rng.choice(["deleted", "doubled", "swapped", "replaced"])
    if kind == "deleted":
        del lines[a]
    elif kind == "doubled":
        lines.insert(a, lines[a])
    elif kind == "swapped":
        lines[a], lines[b] = lines[b], lines[a]
    else:
        lines[a] = rng.choice([b"not JSON\n", b"{}\n", b"\n", b'{"row": 0, "source": "x", "width": 1, "height": 1}\n'])
    path.write_bytes(b"".join(lines))
    return f"{path.name}: lines {a} and {b} of {len(lines)} {kind}"


def rows_altered(folder, rng, other):
    """A row, and perhaps the index line that belongs to it, taken out of the middle."""
    files = sorted(folder.glob("embeddings-*.npy*"))
    if not files:
        return lines_altered(folder, rng, other)
    path = rng.choice(files)
    data = path.read_bytes()
    manifest = json.loads((folder / "manifest.json").read_text())
    row_bytes = manifest["dimension"] * (4 if manifest["dtype"] == "f32" else 2)
    rows = (len(data) - 128) // row_bytes
    if rows < 1:
        return truncated(folder, rng, other)
    row = rng.randrange(rows)
    at = len(data) - (rows - row) * row_bytes
    path.write_bytes(data[:at] + data[at + row_bytes :])
    index = folder / path.name.replace("embeddings", "index").replace(".npy", ".jsonl")
    also = rng.random() < 0.5 and index.exists()
    if also:
        lines = index.read_bytes().splitlines(keepends=True)
        index.write_bytes(b"".join(lines[:row] + lines[row + 1 :]))
    return f"{path.name}: row {row} taken out" + (" with its line" if also else "")


def swapped_files(folder, rng, _):
    files = sorted(p for p in folder.iterdir() if p.name != ".lock")
    a, b = rng.sample(files, 2)
    data = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(data)
    return f"{a.name} and {b.name} swapped"


def up_to_the_kill(path):
    """Without what a killed job (test_output_state.Job) left behind its last checkpoint: no state depends on it."""
    data = path.read_bytes()
    while data.endswith(b"more"):
        data = data[: -len(b"more")]
    return data


def foreign_file(folder, rng, other):
    """Files of another output, whose names and counts are the same, but not all that differ."""
    names = sorted({p.name for p in folder.iterdir()} & {p.name for p in other.iterdir()} - {".lock"})
    differ = [n for n in names if up_to_the_kill(folder / n) != up_to_the_kill(other / n)]
    taken = rng.sample(differ, rng.randint(1, max(1, len(differ) - 1)))
    for name in taken:
        shutil.copyfile(other / name, folder / name)
    return f"{', '.join(taken)} of another output"


def renamed(folder, rng, _):
    path = some_file(folder, rng)
    partial = path.name.endswith(".partial")
    new = path.with_name(path.name[: -len(".partial")] if partial else path.name + ".partial")
    if rng.random() < 0.5:
        shutil.copyfile(path, new)
        return f"{path.name} copied to {new.name}"
    path.rename(new)
    return f"{path.name} renamed to {new.name}"


def stray(folder, rng, _):
    name = rng.choice(
        ["embeddings-00007.npy", "index-00050.jsonl", "embeddings-00000.jsonl", "embeddings-00001.npy.partial"]
    )
    path = folder / name
    path.write_bytes(b"stray" + (path.read_bytes() if path.exists() else b""))
    return f"{name}: written"


KINDS = [manifest_value, manifest_value, sealed_value, sealed_value, count_value, count_value, odd_manifest,
         truncated, truncated, deleted, appended, flipped, flipped, header_altered, swapped_bytes, lines_altered,
         lines_altered, rows_altered, swapped_files, foreign_file, foreign_file, renamed, stray]  # fmt: skip


def alter(folder, rng, other):
    """Alters one thing about the output `folder`; returns what, in words. `other`: a like output of
    other photos, in the same state."""
    return rng.choice(KINDS)(folder, rng, other)
