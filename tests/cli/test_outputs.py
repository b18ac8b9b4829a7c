"""What outputs may replace: every option of every command that names one, from the definitions that the help is made
of.

A new option that names an output is in this walk by itself, and a command without a recipe fails."""

import contextlib
import itertools
import json
import os
import pathlib
import resource
import shutil
import signal
import stat
import subprocess
import threading
import time

import pytest

ENDINGS = {
    "json": ".json", "bench report": ".json", "gate record": ".json", "page": ".html", "picture": ".png", "labels": ".jsonl",
    "table": ".csv", "sarif": ".sarif", "graph": ".dot", "machine code": ".cubin", "captures": ".captures", "task": ".py", "ledger": ".jsonl",
    "embeddings": ".npy",
}  # fmt: skip
FOLDERS = {"folder", "sanitizers", "calibrations", "share"}
# What is needed beside the output. {x} is a file or folder of the fixture `place`.
RECIPES = {
    "embed": ["-m", "{model}", "{photos}/0.png"],
    "search": ["a dog", "--in", "{out}"],
    "similar": ["{photos}/0.png", "--in", "{out}"],
    "label": ["-m", "{model}", "{photos}/0.png", "--labels", "@{words}"],
    "heat": ["-m", "{model}", "a dog", "{photos}/0.png"],
    "info": ["{model}"],
    "pull": ["nobody/nothing"],
    "verify": ["-m", "{model}", "{photos}/0.png", "{photos}/1.png", "--device", "cpu"],
    "check": ["{out}"],
    "merge": ["{out}"],
    "bench": ["-m", "{model}", "--seconds", "0.01", "--batch-size", "1", "--device", "cpu"],
    "calibrate": ["-m", "{copy}", "{photos}/0.png"],
    "preprocess": ["-m", "{model}", "{photos}/0.png"],
    "tokenize": ["-m", "{model}", "@{words}"],
    "init": ["--preset", "tiny", "--layers", "1"],
    "emulate": ["{kernels}", "--launch", "{launch}"],
    "manual": [],
    "kernel list": ["layer_norm"],
    "kernel check": ["layer_norm", "--device", "emu:sm_80", "--schedules", "1", "--case", "rows1_width8"],
    "kernel emulate": ["layer_norm", "--case", "rows1_width8"],
    "kernel capture": ["layer_norm", "--device", "emu:sm_80", "--case", "rows1_width8"],
    "kernel mutate": ["layer_norm", "--most", "1", "--schedules", "1", "--case", "rows1_width8"],
    "kernel bench": ["layer_norm", "--case", "none"],
    "kernel run": ["layer_norm", "--case", "none"],
    "kernel compare": ["{report}", "{report}"],
    "kernel profile": ["layer_norm", "--case", "none"],
    "kernel predict": ["gemm_qkv_bf16", "--gpu", "h100"],
    "kernel parameters": ["layer_norm", "--case", "none"],
    "kernel try": ["layer_norm", "--case", "none"],
    "kernel export": ["layer_norm", "--kernelbench"],
    "kernel judge": ["{words}", "{words}"],
    "kernel evolve": ["layer_norm", "--case", "none", "--budget", "1"],
    "kernel resources": ["layer_norm"],
    "kernel sass": ["layer_norm", "--kernel", "layer_norm_bf16_3", "--arch", "80"],
    "kernel sanitize": ["layer_norm", "--most-seconds", "1"],
}
# Commands that can do nothing here: without a network or a GPU, or without compiled kernels. They still refuse.
CANNOT_RUN = {
    "pull",
    "kernel bench",
    "kernel run",
    "kernel profile",
    "kernel parameters",
    "kernel try",
    "kernel judge",
    "kernel evolve",
    "kernel sanitize",
}
NEED_KERNELS = {"kernel check", "kernel emulate", "kernel capture", "kernel mutate", "kernel resources", "kernel sass"}


@pytest.fixture(scope="session")
def cannot_run(run_fovea):
    has_kernels = "without the CUDA compiler" not in run_fovea("kernel", "resources", code=None).stderr
    return CANNOT_RUN if has_kernels else CANNOT_RUN | NEED_KERNELS


def options_of(command):
    """(path of the command, its options that name outputs), of it and all below."""
    found = [option for option in command["options"] if option["output"]]
    yield command["path"].removeprefix("fovea").strip(), found
    for below in command["commands"]:
        yield from options_of(below)


@pytest.fixture(scope="session")
def outputs(run_fovea):
    """{command: its options that name outputs}; with the commands that help leaves out."""
    described = json.loads(run_fovea("manual", "--json").stdout)
    found = {path: options for path, options in options_of(described) if options}
    return found | {
        "manual": [
            {"names": ["--share"], "output": "share", "required": False},
            {"names": ["--json"], "output": "json", "required": False},
        ]
    }


@pytest.fixture
def place(run_fovea, model, photos, tmp_path):
    """Inputs of every kind, which no output may change."""
    folder = tmp_path / "inputs"
    folder.mkdir()
    shutil.copytree(photos, folder / "photos")
    shutil.copytree(model, folder / "model")
    shutil.copytree(model, tmp_path / "copy")
    run_fovea("embed", "-m", folder / "model", folder / "photos", "-o", folder / "out", "--device", "cpu")
    (folder / "words").write_text("a dog\na cat\n")
    example = pathlib.Path(__file__).resolve().parents[2] / "examples/emulate"
    for path in example.iterdir():
        shutil.copy(path, folder)
    profile = {
        "kind": "profile",
        "kernel": "k",
        "card": "layer_norm",
        "case": "c",
        "seconds": 1.0,
        "figures": {"seconds": 1.0, "bytes": 2.0},
    }
    (folder / "report.json").write_text(json.dumps(profile))
    return {"photos": folder / "photos", "model": folder / "model", "out": folder / "out", "words": folder / "words", "copy": tmp_path / "copy",
            "kernels": folder / "saxpy.ptx", "launch": folder / "launch.json", "report": folder / "report.json", "inputs": folder}  # fmt: skip


def held(folder):
    """The bytes of all files below."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"}


def arguments(place, command, options, option, path):
    """The words of a command whose output of this option is `path`; other outputs that are required go elsewhere."""
    words = [*command.split(), *(word.format(**place) for word in RECIPES[command])]
    elsewhere = place["inputs"].parent / "elsewhere"
    for left in elsewhere.parent.glob("elsewhere*"):
        remove(left)
    for required_option in options:
        name = required_option["names"][0]
        if required_option is option:
            words += [f"{name}={path}"] if name == "--json" else [name, path]
        elif required_option["required"]:
            words += [name, elsewhere.with_suffix(ENDINGS.get(required_option["output"], ""))]
    return words


def remove(path):
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def walk(outputs, *, skip=()):
    for command, options in outputs.items():
        for option in options:
            if option["output"] not in skip:
                yield command, options, option


def quiet(run_fovea, words, **more):
    return run_fovea(*words, code=None, env={"HF_HUB_OFFLINE": "1"}, timeout=60, **more)


def test_every_option_that_names_an_output_is_walked_through(outputs):
    assert set(outputs) == set(RECIPES)
    known = set(ENDINGS) | FOLDERS | {"trace", "profile"}
    assert {option["output"] for _, _, option in walk(outputs)} <= known
    # An option that writes and does not say so would be missing above.
    for command, _, option in walk(outputs):
        assert option["names"], command


def test_options_of_files_say_what_they_are(run_fovea, outputs):
    """Each option whose help says that it writes is declared as an output."""

    def check(command):
        for option in command["options"]:
            if "rite " in option["help"] and option["value"] in ("FILE", "FOLDER", "OUT", "MERGED", "[=FILE]"):
                assert option["output"], (command["path"], option["names"])
        for below in command["commands"]:
            check(below)

    check(json.loads(run_fovea("manual", "--json").stdout))


@pytest.mark.parametrize("more", [[], ["--overwrite"]], ids=["", "overwrite"])
def test_no_photo_is_replaced(run_fovea, outputs, place, photos, tmp_path, more):
    """A photo stays, named as one or not, also behind a link that is not named as one."""
    photo = tmp_path / "kept.jpg"
    for command, options, option in walk(outputs):
        kind = option["output"]
        plain, link = (tmp_path / (stem + ENDINGS.get(kind, "")) for stem in ("clock", "link"))
        for path in [tmp_path / "clock.jpg", plain, link]:
            shutil.copy(photos / "0.png", photo)
            if path == link:
                link.symlink_to(photo)
            else:
                shutil.copy(photo, path)
            before = path.read_bytes()
            words = [*arguments(place, command, options, option, path), *more]
            done = quiet(run_fovea, words)
            # A profile's and a folder's name are no files' names, and what is there stays.
            assert path.read_bytes() == before and path.is_symlink() == (path == link), words
            assert done.returncode in (1, 2), (words, done)
            if kind not in ("profile", "ledger", "folder", "embeddings", "bench report"):
                assert done.returncode == 2 and str(path) in done.stderr, (words, done.stderr)
            path.unlink()


def test_two_outputs_are_two_files(run_fovea, outputs, place, tmp_path):
    """Each pair of outputs of a command with several, by one name and through a link."""
    pairs = 0
    for command, options in outputs.items():
        kinds = [option for option in options if option["output"] not in FOLDERS | {"profile", "embeddings"}]
        for kind, other in itertools.combinations(kinds, 2):
            if {"ledger"} & {kind["output"], other["output"]}:
                continue  # what the command itself judges
            file, link = tmp_path / "same.txt", tmp_path / "link.txt"
            link.unlink(missing_ok=True)
            link.symlink_to(file)
            for second in (file, link):
                name = other["names"][0]
                words = arguments(place, command, [option for option in options if option is not other], kind, file)
                words += [f"{name}={second}"] if name == "--json" else [name, second]
                done = quiet(run_fovea, words)
                assert done.returncode == 2 and "is also the output of" in done.stderr, (words, done.stderr)
                assert not file.exists(), words
            pairs += 1
    assert pairs >= 3
    # Names that are not there yet, from different folders.
    words = ("label", "-m", place["model"], place["photos"] / "0.png", "--labels", "cat", "-o", "a", "--json=./a")
    assert "is also the output of" in run_fovea(*words, code=2, cwd=tmp_path).stderr


def test_arrays_of_a_launch_are_outputs_too(run_fovea, place, photos, tmp_path):
    launch = json.loads(place["launch"].read_text())
    name, buffer = next((name, buffer) for name, buffer in launch["buffers"].items() if "write" in buffer)
    folder = place["inputs"]
    array = folder / buffer["write"]
    run_fovea("emulate", place["kernels"], "--launch", place["launch"])
    raw = len(array.read_bytes()) - 128  # without the header of .npy
    for target, more, said in (
        ("new.jpg", (), "has the ending of an image"),
        ("photo", ("--overwrite",), "is an image, and outputs never replace images"),
        ("same", (f"--json={folder / 'same'}",), "is also the output of --json"),
    ):
        (folder / "photo").write_bytes((photos / "0.png").read_bytes().ljust(raw, b"x")[:raw])
        buffer["write"] = target
        place["launch"].write_text(json.dumps(launch))
        before = held(folder)
        done = run_fovea("emulate", place["kernels"], "--launch", place["launch"], *more, code=None)
        assert done.returncode == 2 and said in done.stderr, done.stderr
        assert held(folder) == before, name


@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_waiting_for_a_reader(signal_, fovea_bin, place, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for words in (
        ["label", place["photos"], "-m", place["model"], "--labels", "cat", "-o", pipe],
        ["info", place["model"], f"--json={pipe}"],
    ):
        with subprocess.Popen(
            [fovea_bin, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                time.sleep(3)  # until it waits
                process.send_signal(signal_)
                assert process.wait(timeout=5) in (130, -signal_), process.stderr.read()
            finally:
                process.kill()


def test_no_input_is_replaced_even_with_overwrite(run_fovea, outputs, place, tmp_path):
    before = held(place["inputs"])
    for command, options, option in walk(outputs, skip=FOLDERS | {"profile", "ledger"}):
        link = tmp_path / ("link" + ENDINGS.get(option["output"], ""))
        named = [word.format(**place).removeprefix("@") for word in RECIPES[command] if "{" in word]
        for name in named:
            inputs = (
                [path for path in pathlib.Path(name).iterdir() if path.is_file() and path.name != ".lock"]
                if pathlib.Path(name).is_dir()
                else [name]
            )
            if name == str(place["copy"]):
                continue  # a model that the command writes to
            for path in inputs:
                link.unlink(missing_ok=True)
                link.symlink_to(path)
                words = arguments(place, command, options, option, link)
                done = quiet(run_fovea, [*words, "--overwrite"])
                assert done.returncode in (1, 2) and "input" in done.stderr, (words, done.stderr)
                assert link.is_symlink() and held(place["inputs"]) == before, words


def test_a_listed_input_is_not_replaced(run_fovea, place, tmp_path):
    photo = tmp_path / "noname"
    shutil.copy(place["photos"] / "0.png", photo)
    before = photo.read_bytes()
    (tmp_path / "list").write_text(f"{photo}\n")
    (tmp_path / "list.jsonl").write_text(json.dumps({"path": str(photo)}) + "\n")
    for names in ("@" + str(tmp_path / "list"), str(tmp_path / "list.jsonl")):
        done = run_fovea("label", "-m", place["model"], names, "--labels", "a,b", "-o", photo, "--overwrite", code=2)
        assert "is an input" in done.stderr and photo.read_bytes() == before


def node(path):
    """A device that takes everything, or a link to one where none can be made."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        with open(path, "wb") as file:
            file.write(b"1")
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        path.symlink_to("/dev/null")


def test_no_device_is_replaced(cannot_run, run_fovea, outputs, place, tmp_path):
    for command, options, option in walk(outputs):
        path = tmp_path / ("node" + ENDINGS.get(option["output"], ""))
        node(path)
        was_link = path.is_symlink()
        words = arguments(place, command, options, option, path)
        done = quiet(run_fovea, words)
        assert stat.S_ISCHR(path.stat().st_mode) and path.is_symlink() == was_link, words
        if command not in cannot_run and option["output"] not in FOLDERS | {
            "profile",
            "machine code",
            "graph",
            "ledger",
        }:
            assert done.returncode == 0 and "(-1" not in done.stderr, (words, done.stderr)
        for left in tmp_path.glob("node*"):
            remove(left)


def test_a_pipe_gets_what_a_file_would(cannot_run, run_fovea, outputs, place, tmp_path):
    for command, options, option in walk(outputs, skip=FOLDERS | {"profile", "machine code", "graph", "ledger"}):
        if command in cannot_run:
            continue
        path = tmp_path / ("pipe" + ENDINGS.get(option["output"], ""))
        os.mkfifo(path)
        got = []
        reader = threading.Thread(target=lambda path=path, got=got: got.append(path.read_bytes()))
        reader.start()
        words = arguments(place, command, options, option, path)
        done = quiet(run_fovea, words)
        if done.returncode:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))  # lets the reader end
        reader.join(10)
        assert done.returncode == 0 and got and got[0], (words, done.stderr)
        assert stat.S_ISFIFO(path.stat().st_mode), words
        if option["output"] == "json":
            assert json.loads(got[0])["kind"].startswith("fovea."), words
        for left in tmp_path.glob("pipe*"):
            left.unlink()


def test_links_are_followed_and_the_same_command_runs_again(cannot_run, run_fovea, outputs, place, tmp_path):
    for command, options, option in walk(outputs, skip=FOLDERS | {"profile", "machine code", "graph", "ledger"}):
        if command in cannot_run:
            continue
        ending = ENDINGS.get(option["output"], "")
        (tmp_path / "far").mkdir()
        link, target = tmp_path / ("link" + ending), tmp_path / "far" / ("target" + ending)
        link.symlink_to("far/target" + ending)  # to a file that is not there yet
        for _ in range(2):
            words = arguments(place, command, options, option, link)
            done = quiet(run_fovea, words)
            assert done.returncode == 0, (words, done.stderr)
            assert link.is_symlink() and target.stat().st_size > 0 and not target.is_symlink(), words
        shutil.rmtree(tmp_path / "far")
        for left in tmp_path.glob("link*"):
            left.unlink()


def test_a_full_disk_leaves_what_was_there(cannot_run, run_fovea, outputs, place, tmp_path):
    def full():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))

    for command, options, option in walk(outputs, skip=FOLDERS | {"profile", "machine code", "graph", "ledger"}):
        if command in cannot_run | {"calibrate"}:
            continue
        path = tmp_path / ("full" + ENDINGS.get(option["output"], ""))
        words = arguments(place, command, options, option, path)
        assert quiet(run_fovea, words).returncode == 0, words
        before = path.read_bytes()
        words = arguments(place, command, options, option, path)
        done = quiet(run_fovea, words, preexec_fn=full)
        assert done.returncode in (1, 2) and done.stderr, words
        assert path.read_bytes() == before and not list(tmp_path.glob("*.partial")), words
        for left in tmp_path.glob("full*"):
            left.unlink()


def test_every_json_is_an_envelope_of_its_kind_and_version(cannot_run, run_fovea, outputs, place):
    def told(command, words):
        done = quiet(run_fovea, words)
        assert done.returncode == 0, (words, done.stderr)
        document = json.loads(done.stdout)
        assert list(document)[:2] == ["kind", "version"] and document["version"] == 1 and len(document) > 2, words
        assert document["kind"] == "fovea." + command.replace(" ", "."), words
        return document

    for command, options, option in walk(outputs):
        if option["output"] in ("json", "bench report") and command not in cannot_run:
            path = place["inputs"].parent / "unused"
            words = [word for word in arguments(place, command, options, option, path) if word != f"--json={path}"]
            told(command, [*words, "--json"])
    told("duplicates", ["similar", "--duplicates", "--in", str(place["out"]), "--json"])
    told("emulate.kernels", ["emulate", str(place["kernels"]), "--json"])
    told("kernel.counts", ["kernel", "predict", "layer_norm", "--gpu", "h100", "--counts", "--json"])


def test_label_as_json_and_as_lines(run_fovea, place, tmp_path):
    label = ["label", "-m", place["model"], place["photos"], "--labels", "a,b", "--device", "cpu"]
    lines = run_fovea(*label, "-o", "-").stdout.splitlines()
    document = json.loads(run_fovea(*label, "--json").stdout)
    assert document["photos"] == [json.loads(line) for line in lines] and len(lines) == 3
    assert document["labels"] == ["a", "b"] and document["failed"] == 0
    table = run_fovea(*label, f"--json={tmp_path}/found.json").stdout
    assert table == run_fovea(*label).stdout and json.loads((tmp_path / "found.json").read_text()) == document
    assert "choose one" in run_fovea(*label, "-o", "-", "--json", code=2).stderr


def test_a_users_array_and_what_lies_beside_it(run_fovea, place, tmp_path):
    numpy = pytest.importorskip("numpy")
    embed = ["embed", "-m", place["model"], place["photos"], "--device", "cpu", "-o", tmp_path / "mine.npy"]
    numpy.save(tmp_path / "mine.npy", numpy.arange(3.0))
    before = (tmp_path / "mine.npy").read_bytes()
    assert "--overwrite" in run_fovea(*embed, code=1).stderr
    assert (tmp_path / "mine.npy").read_bytes() == before
    run_fovea(*embed, "--overwrite")
    run_fovea(*embed)  # its own
    numpy.save(tmp_path / "mine.npy", numpy.arange(8.0))  # other rows than the index has
    run_fovea(*embed, code=1)
    for name in ("mine.index.jsonl", "mine.errors.jsonl"):
        for path in tmp_path.glob("mine.*"):
            path.unlink()
        (tmp_path / name).write_text("a diary\n")
        assert name in run_fovea(*embed, code=1).stderr
        assert (tmp_path / name).read_text() == "a diary\n"


def test_the_standard_output_is_written_to_and_not_replaced(run_fovea, place, fovea_bin, tmp_path):
    """/dev/stdout where it is a file: a second open of it would write over what was printed."""
    path = tmp_path / "said"
    with open(path, "wb") as file:
        file.write(b"before\n")
        file.flush()
        done = subprocess.run(
            [fovea_bin, "info", place["model"], "--json=/dev/stdout"], stdout=file, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 0, done.stderr
    said = path.read_text()
    assert said.startswith("before\n" + run_fovea("info", place["model"]).stdout)
    assert json.loads(said[said.index('{\n  "kind"') :])["kind"] == "fovea.info"


def test_a_folder_and_a_file_are_not_taken_for_each_other(run_fovea, outputs, place, tmp_path):
    folder = tmp_path / "there.json"
    folder.mkdir()
    assert "is a folder" in run_fovea("info", place["model"], f"--json={folder}", code=2).stderr
    (tmp_path / "file").write_text("a diary\n")
    for command, options, option in walk(outputs):
        if option["output"] in FOLDERS:
            done = quiet(run_fovea, arguments(place, command, options, option, tmp_path / "file"))
            assert done.returncode == 2 and "is a file" in done.stderr, (command, done.stderr)
    assert (tmp_path / "file").read_text() == "a diary\n"


def test_json_of_another_program_is_kept(run_fovea, place, tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"kind": "diary", "version": 1}')
    assert "--overwrite" in run_fovea("info", place["model"], f"--json={path}", code=2).stderr
    assert path.read_text() == '{"kind": "diary", "version": 1}'
    run_fovea("info", place["model"], f"--json={path}", "--overwrite")
    run_fovea("info", place["model"], f"--json={path}")  # its own
    assert json.loads(path.read_text())["kind"] == "fovea.info"


def test_an_open_file_is_written_to_where_it_is(fovea_bin, model, tmp_path):
    """`exec 3>>log`: opened anew, it would be emptied first."""
    log = tmp_path / "log"
    log.write_text("what was there\n")
    link = tmp_path / "link.json"
    link.symlink_to("/dev/fd/3")

    def info(opened, name):
        words = f'exec 3{opened}"$0"; exec "$1" info "$2" --json="$3"'
        return subprocess.run(["bash", "-c", words, log, fovea_bin, model, name], capture_output=True, text=True)

    for name in ("/dev/fd/3", "/proc/self/fd/3", link):
        assert info(">>", name).returncode == 0
    text = log.read_text()
    assert text.startswith("what was there\n{") and text.count('"fovea.info"') == 3
    done = info("<", "/dev/fd/3")
    assert done.returncode == 2 and "/dev/fd/3: is open for reading only" in done.stderr
    assert log.read_text() == text
    with open(log, "a") as opened:
        place = f"/proc/{os.getpid()}/fd/{opened.fileno()}"
        done = subprocess.run([fovea_bin, "info", model, f"--json={place}"], capture_output=True, text=True)
    assert done.returncode == 2 and "is an open file of another process; name the file itself" in done.stderr
    assert log.read_text() == text


def test_a_report_of_measurements_is_gone_on_with(run_fovea, tmp_path):
    """`kernel bench --json=FILE` keeps what others measured, so a file without Fovea's kind is its own, too."""
    file = tmp_path / "2026-11-27-1-0123456789ab.json"
    file.write_text('{"machine": {"commit": "0123456789ab"}, "search": []}')
    done = run_fovea("kernel", "bench", "layer_norm", f"--json={file}", code=None)
    assert "exists, and is not" not in done.stderr and "search" in file.read_text()
    other = tmp_path / "package.json"
    other.write_text('{"name": "package"}')
    assert (
        "is not a report of measurements that Fovea wrote"
        in run_fovea("kernel", "bench", "layer_norm", f"--json={other}", code=2).stderr
    )
    described = json.loads(run_fovea("manual", "--json").stdout)
    (option,) = [
        json_option
        for path, options in options_of(described)
        if path == "kernel bench"
        for json_option in options
        if json_option["names"] == ["--json"]
    ]
    assert option["output"] == "bench report"
