"""`fovea kernel compare` with two programs that stand in for builds, and with saved files."""

import csv
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

READY = {"card": "layer_norm", "case": "c", "problem": "p", "bus": "0", "machine": {"gpu": {"name": "a GPU"}}}


@pytest.fixture
def build(tmp_path):
    """build(name, seconds, figures): a program whose kernel takes so long and has such a profile."""

    def make(name, seconds, **figures):
        profile = {"kind": "profile", "kernel": "k", "figures": {"seconds": seconds} | figures}
        sample = {"seconds": seconds, "sm_mhz": 1980, "watts": 400.0, "slowed": False}
        path = tmp_path / name
        path.write_text(f"""#!/bin/sh
echo "$@" >> {path}.arguments
[ "$2" = profile ] && echo '{json.dumps([profile])}' && exit
echo '{json.dumps({"ready": READY})}'
while read line; do echo '{json.dumps(sample)}'; done
""")
        path.chmod(0o755)
        return path

    return make


def compare(run_fovea, a, b, *options, **run):
    return run_fovea("kernel", "compare", "layer_norm", "--program", a, "--with-program", b, *options, **run)


@pytest.mark.parametrize(
    ("seconds", "verdict", "gate"), [(1e-4, "SAME", 0), (1.02e-4, "SLOWER", 1), (0.98e-4, "FASTER", 0)]
)
def test_verdicts_and_exit_codes(run_fovea, build, tmp_path, seconds, verdict, gate):
    a, b = build("a", 1e-4), build("b", seconds)
    printed = compare(run_fovea, a, b, f"--json={tmp_path}/out.json", "--csv", tmp_path / "out.csv").stdout
    assert printed.splitlines()[-1].startswith(verdict + ": B takes")
    compare(run_fovea, a, b, "--gate", code=gate)
    saved = json.loads((tmp_path / "out.json").read_text())
    assert (saved["kind"], saved["version"], saved["verdict"]) == ("fovea.kernel.compare", 1, verdict)
    assert saved["machine"] == READY["machine"] and saved["card"] == "layer_norm" and saved["rounds"] == 16
    assert saved["ratio"] == pytest.approx(seconds / 1e-4) and saved["interval"] == [saved["ratio"]] * 2
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [(row["name"], float(row["b"]), row["verdict"]) for row in rows] == [("seconds", seconds, verdict)]


def test_the_sides_are_told_what_to_run(run_fovea, build, tmp_path):
    a, b = build("a", 1e-4), build("b", 1e-4)
    run_fovea("kernel", "compare", "attention", "--program", a, "--with-program", b, "--plan", "p q", "--gpu", "1",
              "--sources", "/one", "--with-sources", "/two", "--with-parameters", '{"stages": 3}')  # fmt: skip
    shared = "kernel run attention --gpu 1 --plan p q --sources"
    told = {side: set((tmp_path / f"{side}.arguments").read_text().splitlines()) for side in "ab"}
    assert told == {"a": {f"{shared} /one --steps"}, "b": {f'{shared} /two --parameters {{"stages":3}} --steps'}}
    run_fovea("kernel", "compare", "attention", "--program", a, "--plan", "p", "--with-level", "mma",
              "--with-program", b)  # fmt: skip
    assert (tmp_path / "b.arguments").read_text().endswith("attention --gpu 0 --level mma --steps\n")


def test_what_counts_as_a_difference(run_fovea, build):
    assert "SAME: " in compare(run_fovea, build("a", 1e-4), build("b", 1.02e-4), "--margin", "5").stdout
    assert "SLOWER: " in compare(run_fovea, build("a", 1e-4), build("b", 1.004e-4), "--margin", "0.2").stdout


def test_a_gate_passes_what_is_ambiguous(run_fovea, build, tmp_path):
    """Samples take 2% longer in every other pair."""
    b = build("b", 1e-4)
    b.write_text(b.read_text().replace("while read line; do", "while read line; do n=$((n + 1)); [ $((n % 4)) -lt 2 ] &&"
        f""" echo '{json.dumps({"seconds": 1.03e-4, "sm_mhz": 1, "watts": 1.0})}' && continue;"""))  # fmt: skip
    result = compare(run_fovea, build("a", 1e-4), b, "--gate", "--most-pairs", "16", f"--json={tmp_path}/out.json")
    assert "AMBIGUOUS: " in result.stdout
    assert json.loads((tmp_path / "out.json").read_text())["rounds"] == 16


def test_sides_take_nothing_from_variables_of_options(run_fovea, build, tmp_path):
    a, b = build("a", 1e-4), build("b", 1e-4)
    b.write_text(b.read_text().replace("#!/bin/sh", f"#!/bin/sh\nenv > {tmp_path}/variables"))
    compare(run_fovea, a, b, env={"FOVEA_PARAMETERS": '{"stages": 3}', "FOVEA_GPU_SLICE": "7"})
    assert '{"stages":3}' in (tmp_path / "a.arguments").read_text()
    variables = (tmp_path / "variables").read_text()
    assert "FOVEA_PARAMETERS" not in variables and "FOVEA_GPU_SLICE=7" in variables


def test_a_verdict_is_kept_when_profiles_fail(run_fovea, build, tmp_path):
    b = build("b", 1.02e-4)
    b.write_text(b.read_text().replace("#!/bin/sh", '#!/bin/sh\n[ "$2" = profile ] && echo no ncu >&2 && exit 1'))
    result = compare(run_fovea, build("a", 1e-4), b, "--profile", f"--json={tmp_path}/out.json",
                     "--csv", tmp_path / "out.csv", code=1)  # fmt: skip
    assert "no ncu" in result.stderr
    saved = json.loads((tmp_path / "out.json").read_text())
    assert saved["verdict"] == "SLOWER" and "no ncu" in saved["counters_missing"]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 2


def test_profiles_name_what_moved(run_fovea, build, tmp_path):
    a = build("a", 1e-4, sectors_per_store=4, stall_membar=0.01, registers=168)
    b = build("b", 2e-4, sectors_per_store=16, stall_membar=0.2, registers=168)
    printed = compare(run_fovea, a, b, "--profile", f"--json={tmp_path}/out.json", "--csv", tmp_path / "out.csv").stdout
    lines = [line.split() for line in printed.splitlines()[3:]]
    assert lines[1] == ["sectors_per_store", "4", "16", "+300.0%"]
    assert [line[0] for line in lines] == ["differences", "sectors_per_store", "differences", "stall_membar", "seconds"]
    counters = json.loads((tmp_path / "out.json").read_text())["counters"]
    assert [(counter["name"], counter["work"]) for counter in counters] == [
        ("sectors_per_store", True), ("stall_membar", False), ("seconds", False)]  # fmt: skip
    assert counters[0]["change"] == 3
    assert [row["name"] for row in csv.DictReader((tmp_path / "out.csv").open())] == [
        "seconds", "sectors_per_store", "stall_membar", "seconds"]  # fmt: skip


def test_saved_files(run_fovea, tmp_path):
    for name, seconds, conflicts in (("a", 1e-4, 0), ("b", 2e-4, 4096)):
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"kind": "profile", "figures": {"seconds": seconds, "bank_conflicts": conflicts}}))  # fmt: skip
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    printed = run_fovea("kernel", "compare", *files).stdout
    assert "bank_conflicts" in printed and "new" in printed
    assert printed.splitlines()[-1] == "SLOWER: 1 SLOWER, 0 AMBIGUOUS, 0 FASTER, 0 SAME"
    run_fovea("kernel", "compare", *files, "--gate", code=1)
    run_fovea("kernel", "compare", *reversed(files), "--gate")
    same = run_fovea("kernel", "compare", files[0], files[0]).stdout
    assert same.startswith("no figure of the profiles differs") and "SAME: " in same


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["layer_norm"], 1, "B must differ from A"),
        (["layer_norm", "pool", "--with-program", "x"], 1, "takes one card, or two files"),
        (["no_such_card", "--with-program", "x"], 2, "no_such_card"),
        (["attention", "--with-level", "fast"], 2, "no level 'fast'"),
        (["attention", "--case", "b1", "--with-level", "mma"], 2, "no case 'b1'"),
        (["layer_norm", "--with-program", "no/such"], 1, "cannot start no/such"),
        (["no.json", "such.json"], 1, "do not apply to two files"),
    ],
)
def test_bad_arguments(run_fovea, build, arguments, code, told):
    assert told in run_fovea("kernel", "compare", *arguments, "--program", build("a", 1), code=code).stderr


def test_files_that_are_not_there_are_named(run_fovea):
    assert "no.json" in run_fovea("kernel", "compare", "no.json", "such.json", code=1).stderr


def test_a_program_of_before_the_protocol(run_fovea, build, tmp_path):
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho 'unknown option --steps' >&2\nexit 2\n")
    old.chmod(0o755)
    message = compare(run_fovea, build("a", 1e-4), old, code=1).stderr
    assert f"B ({old}) ended with exit code 2: unknown option --steps" in message


def test_steps_are_of_right_kernels_alone(run_fovea, with_gpu, with_kernels):
    """The stand-in for the driver computes nothing."""
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine's driver computes")
    once = ["kernel", "run", "pixels_repeat", "--case", "rows3_width768"]
    run_fovea(*once, env=with_gpu)
    message = run_fovea(*once, "--steps", env=with_gpu, input="sample\n", code=1).stderr
    assert "is not timed because its output is wrong" in message


def test_a_planted_slow_down_is_calibrated(tmp_path):
    """A program whose kernel waits for half of the clocks that are planted, and for 50 more."""
    program = tmp_path / "program"
    program.write_text(f"""#!{sys.executable}
import json, re, sys
clocks = 0
if "--sources" in sys.argv:
    folder = sys.argv[sys.argv.index("--sources") + 1]
    clocks = 50 + int(re.search(r"start < (\\d+)LL", open(folder + "/kernels/ptx/warp.cuh").read())[1]) / 2
print(json.dumps({{"ready": {{}}}}), flush=True)
for line in sys.stdin:
    print(json.dumps({{"seconds": 1e-4 + clocks / 2e9, "sm_mhz": 2000}}), flush=True)
""")
    program.chmod(0o755)
    command = [sys.executable, ROOT / "bench/planted_slow.py", "layer_norm", "--percent", "2", "-o", tmp_path / "slow"]
    done = subprocess.run([*command, "--program", program], capture_output=True, text=True, check=True)
    planted = json.loads(done.stdout)
    assert abs(planted["percent"] - 2) <= 0.1
    files = sorted(path.relative_to(tmp_path / "slow") for path in (tmp_path / "slow").rglob("*.cuh"))
    assert len(files) == 9
    for file in files:
        text, original = (tmp_path / "slow" / file).read_text(), (ROOT / file).read_text()
        assert text.count("planted_spin()") == 1 and "planted" not in original


def test_two_results_are_judged_by_the_gate_of_times(run_fovea, tmp_path):
    """Two committed results, between which attention lost 40% and 9% and nobody noticed."""
    before, after = (
        ROOT / "bench/results/nvidia-h200" / f"2026-11-{name}.json"
        for name in ("22-2-945a95062cad", "24-2-53aee851b447")
    )
    found = run_fovea("kernel", "compare", before, after, "--gate", f"--json={tmp_path}/out.json", code=1)
    slower = [line.split() for line in found.stdout.splitlines() if line.startswith("SLOWER ") and "(2026-" in line]
    assert ["attention", "b1024_h12_n196_d64"] in [line[1:3] for line in slower]
    assert ["attention", "b256_h16_n256_d72"] in [line[1:3] for line in slower]
    assert "+40.3%" in found.stdout and "cuDNN 9.19.0 +1.1%" in found.stdout
    saved = json.loads((tmp_path / "out.json").read_text())["changes"]
    assert {change["what"] for change in saved if change["verdict"] == "SLOWER"} >= {
        f"attention {line[2]}" for line in slower if line[1] == "attention"
    }
    run_fovea("kernel", "compare", before, after, code=0)
    run_fovea("kernel", "compare", after, after, "--gate")
    # A machine that is a tenth slower, with its peers, is no slower kernel.
    result = json.loads(after.read_text())
    for name in ("copy_bytes_per_second", "bf16_flops", "e4m3_flops"):
        result["kernels"][name] /= 1.1
    for figure in result["kernels"]["figures"]:
        for timed in (figure, *figure["peers"]):
            timed["seconds"] *= 1.1
    (tmp_path / "slow.json").write_text(json.dumps(result))
    run_fovea("kernel", "compare", after, tmp_path / "slow.json", "--gate")
    other = result | {"machine": {"gpu": {"name": "another GPU"}}}
    (tmp_path / "other.json").write_text(json.dumps(other))
    assert (
        "not on another GPU" in run_fovea("kernel", "compare", after, tmp_path / "other.json", "--gate", code=1).stderr
    )
