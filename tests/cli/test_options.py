"""One grammar for all commands: the same option means the same everywhere, and help, manual and completion say so."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# What may differ between commands in an option of the same name, and why.
EXCEPTIONS = {
    "--output": ({"value", "help", "variable"}, "each command writes something else"),
    "--calibration": ({"help", "group"}, "calibrate writes into it"),
    "--precision": ({"value", "default", "help", "variable"}, "bench and calibrate take several, calibrate of 8 bits"),
    "--batch-size": ({"default", "variable"}, "bench takes several"),
    "--dtype": ({"value", "variable"}, "init also writes bf16, which numpy does not have"),
    "--gate": ({"help", "group"}, "bench has gates of speed, profile of figures, compare of what changed"),
    "--device": (
        {"value", "default", "help", "variable"},
        "judge runs torch; check has a GPU or the emulator, by this option alone; mutate the emulator",
    ),
    "--gpu": ({"value", "range", "default", "help", "variable"}, "predict's is one that need not be here, by name"),
    "--kernel": ({"help"}, "try starts from one, sass shows one, emulate launches one"),
    "--most-seconds": ({"range", "default", "help"}, "of a candidate, which may have none; of a tool on a card"),
    "--format": ({"value", "default", "help", "group", "variable"}, "embed's is of files, emulate's of findings"),
    "--template": ({"value", "default", "help", "group"}, "label's is a sentence, emulate prints a launch file"),
    "--seeds": ({"help"}, "check has a rule for the seeds after the first, judge has none"),
    "--print0": ({"help", "group"}, "similar prints what may go, search what it has found"),
    "--limit": ({"default"}, "similar compares every query with every row, verify computes each photo several times"),
    "--shard-rows": ({"default", "help"}, "merge takes that of the first output"),
    "--model": ({"help"}, "similar can do without, search takes that of OUT"),
    "--text": ({"help"}, "embed writes their vectors, calibrate learns from them"),
    "--schedules": ({"default", "help"}, "emulate looks for findings, check compares results, mutate ends at either"),
    "--seed": ({"default", "help"}, "the laboratory's committed results were drawn with 1; emulate draws schedules"),
}
DATA = ["info", "pull", "verify", "check", "merge", "bench", "calibrate", "similar", "search", "label", "heat", "tokenize", "init", "emulate", "kernel list", "kernel check", "kernel capture", "kernel emulate",
        "kernel mutate", "kernel bench", "kernel predict", "kernel run", "kernel profile", "kernel resources", "kernel sass"]  # fmt: skip


@pytest.fixture(scope="module")
def program(run_fovea):
    return json.loads(run_fovea("manual", "--json").stdout)


def commands_of(command):
    yield command
    for below in command["commands"]:
        yield from commands_of(below)


@pytest.fixture(scope="module")
def commands(program):
    return {command["path"].removeprefix("fovea").strip(): command for command in commands_of(program)}


def test_an_option_means_the_same_in_every_command(commands):
    first = {}
    for path, command in commands.items():
        for option in command["options"]:
            if option["is_position"]:
                continue
            name = option["names"][-1] if option["names"][-1].startswith("--") else option["names"][0]
            known_path, known = first.setdefault(name, (path, option))
            may_differ = EXCEPTIONS.get(name, (set(), ""))[0]
            for key in ("names", "value", "range", "default", "help", "variable", "group"):
                assert key in may_differ or option[key] == known[key], f"{name} of {path} and {known_path}: {key}"
    assert EXCEPTIONS.keys() <= first.keys()


def test_the_emulator_is_offered_where_kernels_are_the_subject(commands, run_fovea):
    """Every other command takes its names, too (tests/model/test_emulated.py), and does not speak of them."""
    offering = set()
    for path, command in commands.items():
        texts = [text for option in command["options"] for text in (option["value"], option["help"])]
        if any(re.search(r"\bemu\b", text) for text in texts):
            offering.add(path)
    assert offering == {"kernel check", "kernel emulate", "kernel capture", "kernel mutate"}
    message = run_fovea("embed", "x", "y", "-o", "out", "--device", "gpu", code=2).stderr
    assert "use auto, cpu, cuda or cuda:N" in message


def test_commands_that_print_data_print_json(commands):
    for path in DATA:
        assert any("--json" in option["names"] for option in commands[path]["options"]), path


def test_usages_say_that_a_model_is_needed(commands):
    assert commands["info"]["usage"] == "fovea info {MODEL|-m MODEL} [options]"
    assert commands["embed"]["usage"] == "fovea embed {MODEL|-m MODEL} INPUT... -o OUT [options]"
    assert "MODEL" not in commands["similar"]["usage"]


def test_help_fits_a_terminal(run_fovea, commands):
    for path in commands:
        text = run_fovea(*path.split(), "--help").stdout
        long = [line for line in text.splitlines() if len(line) > 80]
        assert not long, long
        assert run_fovea("help", *path.split()).stdout == text
        assert "\nExamples:\n" in text or path == "kernel", path


def test_wrong_numbers_are_answered_in_words(run_fovea, commands):
    for path, command in commands.items():
        for option in command["options"]:
            if option["range"]:
                message = run_fovea(*path.split(), option["names"][-1], "abc", code=2).stderr
                assert option["range"] in message and "'abc' is not one" in message, message
    for value in ("0", "-1", "1" * 30):
        message = run_fovea("similar", f"--neighbours={value}", code=2).stderr
        assert "--neighbours must be at least 1" in message and len(message) < 160
    assert "--seconds must be more than 0, not 0" in run_fovea("bench", "m", "--seconds", "0", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["embd", "Photos"], "'embd' is not a command; did you mean embed?"),
        (["kernel", "chek"], "'chek' is not a command; did you mean check?"),
        (["help", "embd"], "did you mean embed?"),
        (["-v"], "'-v' is not an option of `fovea`; did you mean -V?"),
        (["similar", "--neigbours", "3"], "did you mean --neighbours"),
        (["."], "'.' is not a command but a folder; to embed it, run `fovea embed MODEL . -o OUT`"),
        (["kernel"], "a command is missing after `fovea kernel`; the commands are list, check"),
        (["embed", "-o"], "--output needs a value"),
        (["embed", "-o", "a", "-o", "b"], "--output may be given only once"),
        (["kernel", "check", "--json", "x.json"], "--json takes its file after '=': --json=x.json"),
    ],
)
def test_mistyped_words(run_fovea, arguments, told):
    message = run_fovea(*arguments, code=2).stderr
    assert message.startswith("fovea: ") and told in message


def test_no_arguments_give_help(run_fovea):
    result = run_fovea(code=2)
    assert "Commands:" in result.stderr and not result.stdout


def test_version(run_fovea):
    lines = run_fovea("-V").stdout.splitlines()
    assert re.fullmatch(r"fovea \d+\.\d+\.\d+", lines[0])
    assert run_fovea("--version").stdout.splitlines() == lines
    for word in ("commit", "build", "CPU", "kernels", "libjpeg"):
        assert any(word in line for line in lines[1:]), word


def test_words_may_be_in_any_case(run_fovea, tiny, photos, tmp_path):
    run_fovea("embed", tiny, photos, "-o", tmp_path / "out", "--device", "CPU", "--precision", "FP32", "--dtype", "F16")
    assert json.loads((tmp_path / "out/manifest.json").read_text())["precision"] == "fp32"


@pytest.fixture(scope="module")
def tiny(model, tmp_path_factory):
    """A copy, which may be calibrated, in a folder that may get more models."""
    return shutil.copytree(model, tmp_path_factory.mktemp("models") / "tiny")


@pytest.mark.parametrize(
    "command",
    [
        ["info"],
        ["bench", "--precision", "fp32", "--batch-size", "1", "--seconds", "0.01"],
        ["verify", "PHOTOS", "--device", "cpu"],
        ["calibrate", "PHOTOS"],
        ["embed", "PHOTOS", "-o", "OUT"],
        ["preprocess", "PHOTOS", "-o", "OUT.npy"],
    ],
    ids=lambda command: command[0],
)
def test_the_model_is_named_alike_everywhere(run_fovea, tiny, photos, tmp_path, command):
    name, *rest = [str(photos) if word == "PHOTOS" else word for word in command]

    def run(*model, **environment):
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        arguments = [word.replace("OUT", str(out)) for word in rest]
        return run_fovea(name, *model, *arguments, code=None, env=environment)

    assert run(tiny).returncode == 0
    assert run("-m", tiny).returncode == 0
    assert run("--model", tiny, FOVEA_MODEL="/nowhere").returncode == 0
    assert run(FOVEA_MODEL=str(tiny)).returncode == 0
    assert run(tiny, FOVEA_MODEL="/nowhere").returncode == 0  # a model folder goes before the variable
    forgotten = run()
    assert forgotten.returncode == 2
    expected = (
        f"{photos} is not a model folder (it has no config.json)" if str(photos) in rest else "no model was given"
    )
    assert expected in forgotten.stderr and "-m google/siglip2-base-patch16-224" in forgotten.stderr
    if str(photos) in rest:
        rest = [word for word in rest if word != str(photos)]
        assert "no inputs were given" in run(tiny).stderr


def test_models_that_look_alike(run_fovea, tiny):
    where = {"cwd": tiny.parent, "env": {"HF_HOME": str(tiny.parent)}}  # the program looks there, too
    message = run_fovea("info", tiny.parent / "tyni", code=1, **where).stderr
    assert f"there is no such folder; did you mean {tiny}?" in message
    assert "no such folder." in run_fovea("info", "MODELS/tiny", code=1, **where).stderr
    shutil.copytree(tiny, tiny.parent / "models/tiny")
    message = run_fovea("info", "MODELS/tiny", code=1, **where).stderr
    assert "MODELS/tiny: there is no such folder; did you mean models/tiny?" in message


def test_json_goes_to_the_standard_output_or_to_a_file(run_fovea, tiny, tmp_path):
    text = run_fovea("info", tiny).stdout
    printed = run_fovea("info", tiny, "--json").stdout
    file = tmp_path / "info.json"
    assert run_fovea("info", "--json=" + str(file), tiny).stdout == text
    assert file.read_text() == printed
    assert run_fovea("info", "--json", tiny).stdout == printed  # the next word is the model
    assert run_fovea("info", tiny, env={"FOVEA_JSON": "true"}).stdout == printed
    assert run_fovea("info", tiny, env={"FOVEA_JSON": "false"}).stdout == text
    assert "762,112" in text and json.loads(printed)["parameters"] == 762112
    assert '"rescale": 0.003921569,' in printed
    assert "there is no folder" in run_fovea("info", tiny, f"--json={tmp_path}/no/info.json", code=2).stderr
    assert list(tmp_path.iterdir()) == [file]


def test_json_of_commands_that_print_text(run_fovea, tiny, photos, tmp_path):
    listed = json.loads(run_fovea("kernel", "list", "layer_norm", "--json").stdout)
    assert listed["cards"][0]["name"] == "layer_norm" and listed["cards"][0]["cases"]
    made = json.loads(run_fovea("init", "--preset", "tiny", "-o", tmp_path / "m", "--json").stdout)
    assert made["folder"] == str(tmp_path / "m")
    calibrated = json.loads(run_fovea("calibrate", tmp_path / "m", photos, "--json").stdout)
    assert calibrated["images"] == 3 and calibrated["files"]
    bench = ["bench", tiny, "--precision", "fp32", "--batch-size", "1", "--seconds", "0.01", "--device", "cpu"]
    assert json.loads(run_fovea(*bench, "--json").stdout)["figures"][0]["device_images_per_second"] is None


def complete(fovea_bin, *words):
    script = subprocess.run([fovea_bin, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    line = " ".join(f"'{word}'" for word in words)
    script += f'\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _fovea; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fovea", "em"], ["embed", "emulate"]),
        (["fovea", "kernel", "sa"], ["sass", "sanitize"]),
        (["fovea", "help", "kernel", "sa"], ["sass", "sanitize"]),
        (["fovea", "embed", "--prec"], ["--precision"]),
        (["fovea", "embed", "x", "--precision", "f"], ["fp32", "fp8"]),
        (["fovea", "calibrate", "--precision", "f"], ["fp8"]),
        (["fovea", "embed", "--dtype", "=", "f1"], ["f16"]),
        (["fovea", "embed", "-o", ""], []),  # a file
        (["fovea", "completion", ""], ["bash", "zsh", "fish"]),
        (["fovea", "completion", "z"], ["zsh"]),
        (["fovea", "similar", "--only", "similar,identical-f"], ["similar,identical-files"]),
        (["fovea", "calibrate", "--precision", "int8,"], ["int8,int8", "int8,fp8"]),
        (["fovea", "embed", "--precision", "int8,"], []),  # takes one
        (["fovea", "embed", "--output", "--"], []),
    ],
)
def test_bash_completes(fovea_bin, words, expected):
    assert complete(fovea_bin, *words) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fovea completion ", ["bash", "fish", "zsh"]),
        ("fovea embed --dtype f", ["f16", "f32"]),
        ("fovea calibrate --precision int8,f", ["int8,fp8"]),
    ],
)
def test_fish_completes(run_fovea, tmp_path, line, expected):
    (tmp_path / "script").write_text(run_fovea("completion", "fish").stdout)
    script = f"source {tmp_path}/script; complete -C '{line}'"
    result = subprocess.run(["fish", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert sorted(found.split("\t")[0] for found in result.stdout.splitlines()) == expected


def test_zsh_knows_the_words_of_positions_and_lists(run_fovea):
    script = run_fovea("completion", "zsh").stdout
    assert "':SHELL:(bash zsh fish)'" in script
    assert ":value:_values -s , value identical-files identical-pixels similar'" in script


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_well_formed(run_fovea, shell, tmp_path):
    script = tmp_path / "script"
    script.write_text(run_fovea("completion", shell).stdout)
    subprocess.run([shell, "-n", script], check=True)


def test_man_pages(run_fovea, tmp_path, commands):
    run_fovea("manual", "--share", tmp_path)
    pages = sorted(tmp_path.glob("man/man1/*.1"))
    assert len(pages) == len(commands)
    assert (tmp_path / "bash-completion/completions/fovea").is_file()
    for page in pages:  # man prints these two as curved quotes, which a shell does not know
        assert not set("'`") & set(page.read_text()), page
    assert r"\(aqshard\-{00000..00099}.tar\(aq" in (tmp_path / "man/man1/fovea-embed.1").read_text()
    checked = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *pages], capture_output=True, text=True, check=False
    )
    wrong = [line for line in checked.stdout.splitlines() if "missing date" not in line]  # it would be stale
    assert not wrong, wrong


def test_the_page_of_commands_is_fresh(run_fovea):
    assert (ROOT / "docs/cli.md").read_text() == run_fovea("manual").stdout, "run scripts/cli-docs"


def test_the_page_names_every_variable():
    """The manual names the variables that the sources read, and no others."""
    page = (ROOT / "docs/cli.md").read_text()
    read = set()
    for folder in ("src", "lab", "cli", "python/fovea"):
        for file in (ROOT / folder).rglob("*.[chp][py]*"):
            if file.suffix == ".pyc":
                continue
            read |= set(
                re.findall(
                    r'(?:getenv|environ(?:\.get)?[\[(]|kVariable = |open\([^;]*?)\(?"(FOVEA_[A-Z_]+)"', file.read_text()
                )
            )
    assert "FOVEA_GPU_SLICE" in read and "FOVEA_CPU_ISA" in read
    assert not [name for name in read if f"`{name}`" not in page]


def test_a_mistyped_command_is_told_before_its_options(run_fovea):
    assert "'embd' is not a command; did you mean embed?" in run_fovea("embd", "-m", "tiny", code=2).stderr


def test_a_folder_in_brackets_is_no_list(run_fovea, tiny, photos, tmp_path):
    """CLI11 would take "[a,b]" for the two words a and b."""
    for name, count in (("[a]", 2), ("a", 3), ("b", 1), ("[a,b]", 1), ("[[a]]", 1)):
        (tmp_path / name).mkdir()
        for index in range(count):
            shutil.copy(photos / f"{index}.png", tmp_path / name)

    def sources(*inputs):
        run_fovea("embed", "-m", tiny, *inputs, "-o", "out", "--overwrite", cwd=tmp_path)
        lines = (tmp_path / "out/index-00000.jsonl").read_text().splitlines()
        return [json.loads(line)["source"] for line in lines]

    assert sources("[a]") == ["[a]/0.png", "[a]/1.png"]
    assert sources("[a,b]", "[[a]]") == ["[a,b]/0.png", "[[a]]/0.png"]
    assert sources("a", "--exclude", "[12].png") == ["a/0.png"]
    assert sources("a", "--exclude", "[12].[p][n][g]") == ["a/0.png"]
    assert sources("a", "--include", "[1]", "--include=[0].png") == ["a/0.png"]
    shutil.copytree(tiny, tmp_path / "[m]")
    for model in (["[m]"], ["-m", "[m]"], ["--model=[m]"]):
        assert json.loads(run_fovea("info", *model, "--json", cwd=tmp_path).stdout)["folder"] == "[m]"
    assert "too many arguments for `fovea info`: [b]" in run_fovea("info", tiny, "[b]", code=2).stderr
    assert "must be a whole number, at least 1; '[2]'" in run_fovea("similar", "-k", "[2]", code=2).stderr


def test_whole_numbers_are_decimal(run_fovea, tiny, tmp_path):
    for zeros in ("02", "0000000000000000002"):
        run_fovea("embed", tiny, "--synthetic", zeros, "-o", tmp_path / "out", "--overwrite")
        assert len((tmp_path / "out/index-00000.jsonl").read_text().splitlines()) == 2
    run_fovea("embed", tiny, "--synthetic", "010", "-o", tmp_path / "out", "--overwrite", "--batch-size", "08")
    assert len((tmp_path / "out/index-00000.jsonl").read_text().splitlines()) == 10


def test_sizes_and_patterns_are_checked(run_fovea, tiny, photos, tmp_path):
    def told(*arguments, code=2):
        return run_fovea("embed", tiny, photos, "-o", tmp_path / "out", "--overwrite", *arguments, code=code).stderr

    for wrong in ("2X", "G", "2G2", "-1", "2bb", "99999999999G"):
        message = told(f"--decode-memory={wrong}")
        assert "--decode-memory must be a size such as 512M or 2G" in message and f"'{wrong}'" in message
    for size in ("0", "256M", "256mb", "256 MiB", "268435456", "0000000268435456"):
        told("--decode-memory", size, code=0)
    for pattern in ("[", "a[b", "a[b/c]", "[]", "[!]"):
        assert f'the [ in the pattern "{pattern}" is not closed' in told("--exclude", pattern), pattern
    for pattern in ("\\[", "[]]", "[!]]", "[12].png"):
        told("--exclude", pattern, code=0)


def test_a_model_in_a_json_file_is_no_place_for_json(run_fovea, tiny):
    assert json.loads(run_fovea("info", "--json", tiny / "config.json").stdout)["parameters"]
    assert "takes its file after '='" in run_fovea("info", tiny, "--json", "absent.json", code=2).stderr
    assert "--json= needs" in run_fovea("info", tiny, "--json=", code=2).stderr


def test_failures_name_the_variables_whatever_their_spelling(run_fovea, tiny):
    variables = {"FOVEA_PRECISION": "INT8", "FOVEA_DECODE_MEMORY": "2G", "FOVEA_DEVICE": "CPU", "FOVEA_LIMIT": "3"}
    arguments = ["embed", tiny, "absent.jpg", "-o", "out"]
    message = run_fovea(*arguments, code=1, env=variables).stderr
    for name, value in variables.items():
        assert (f"{name}={value}" in message) == (name != "FOVEA_LIMIT"), message
    message = run_fovea(*arguments, "--device", "CPU", code=1, env=variables).stderr
    assert "FOVEA_PRECISION=INT8" in message and "FOVEA_DEVICE" not in message
