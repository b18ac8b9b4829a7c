"""`fovea kernel` on machines without a GPU, and without the tools it runs."""

import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
has_gpu = shutil.which("nvidia-smi") is not None


def test_list_names_cards_and_their_cases(run_fovea):
    cards = run_fovea("kernel", "list").stdout
    assert "layer_norm" in cards and "mutants" not in cards
    listed = run_fovea("kernel", "list", "-v").stdout
    assert "mutants" in listed and "bench" in listed


def test_list_of_one_card(run_fovea):
    listed = run_fovea("kernel", "list", "layer_norm", "-v").stdout.splitlines()
    assert [line.split()[0] for line in listed if not line.startswith(" ")] == ["layer_norm"]
    assert len(listed) > 1


def test_list_names_all_architectures_of_a_card(run_fovea):
    rows = {line.split()[0]: line for line in run_fovea("kernel", "list").stdout.splitlines()}
    assert "sm_90, sm_100 " in rows["gemm_qkv_int8"] and "sm_80, sm_90, sm_100 " in rows["attention"]
    assert " sm_100 " in rows["gemm_qkv_mxfp8"] and "sm_90" not in rows["gemm_qkv_mxfp8"]
    assert json.loads(run_fovea("kernel", "list", "gemm_qkv_int8", "--json").stdout)["cards"][0]["archs"] == [90, 100]


@pytest.mark.skipif(has_gpu, reason="this machine has a GPU")
@pytest.mark.parametrize("command", [["check"], ["bench"], ["run", "layer_norm"]])
def test_without_a_driver_the_message_says_so(run_fovea, command):
    result = run_fovea("kernel", *command, code=1)
    assert result.stderr.startswith("fovea: ")
    assert "NVIDIA driver" in result.stderr
    for without in ("`fovea kernel check --device emu`", "`emulate`", "`mutate`", "list, parameters, predict"):
        assert without in result.stderr
    assert "passed" not in result.stdout


def test_unknown_cards_are_answered_with_the_nearest(run_fovea):
    message = run_fovea("kernel", "check", "layernorm", code=2).stderr
    assert "no kernel card 'layernorm'; did you mean layer_norm?" in message
    assert "did you mean" not in run_fovea("kernel", "check", "no_such_kernel", code=2).stderr


def test_unknown_cases_are_found_before_the_gpu(run_fovea):
    for command in ("check", "bench", "run", "profile"):
        message = run_fovea("kernel", command, "layer_norm", "--case", "rows1_widht8", code=2).stderr
        assert "rows1_widht8" in message and "NVIDIA" not in message
        message = run_fovea("kernel", command, "layer_norm", "--problem", "rows=3,widht=8", code=2).stderr
        assert "layer_norm have no field 'widht'; there are: rows, width" in message


def test_times_are_predicted_without_a_gpu(run_fovea):
    said = run_fovea("kernel", "predict", "gemm_qkv_bf16").stdout
    assert "ping_pong" in said and "bound by: matrix units" in said
    h200, h100 = (
        json.loads(run_fovea("kernel", "predict", "row_norm", "--gpu", gpu, "--json").stdout)["predictions"][0]
        for gpu in ("h200", "h100")
    )
    assert h200["bound"] == h100["bound"] == "device memory"
    assert 1.3 < h100["seconds"] / h200["seconds"] < 1.5  # 4.8 and 3.35 TB/s
    assert "is not one of h200, h100" in run_fovea("kernel", "predict", "row_norm", "--gpu", "voodoo2", code=2).stderr
    assert "there is no model for pool" in run_fovea("kernel", "predict", "pool", code=1).stderr
    assert "--counts requires --json" in run_fovea("kernel", "predict", "row_norm", "--counts", code=2).stderr


def test_a_problem_is_a_case(run_fovea):
    listed = run_fovea("kernel", "parameters", "attention", "--problem", "length=777,width=96,type=f16").stdout
    assert "attention_online_f16_d96" in listed
    assert "name=value" in run_fovea("kernel", "parameters", "attention", "--problem", "777", code=2).stderr
    printed = run_fovea("kernel", "check", "attention", "--case", "x", "--problem", "length=7", code=2).stderr
    assert "--case" in printed and "--problem" in printed


def test_a_candidate_is_told_as_json(run_fovea):
    """One that is refused before a compiler or a GPU is asked for."""
    done = run_fovea("kernel", "try", "attention", "--level", "wmma", "--parameters", '{"warps": 3}', "--json", code=1)
    told = json.loads(done.stdout)
    assert {name: told[name] for name in ("valid", "failed_at", "change", "compiler", "changed_sources")} == {
        "valid": False,
        "failed_at": "legal",
        "change": {"warps": 3},
        "compiler": "",
        "changed_sources": [],
    }
    assert "1, 2, 4, 8" in told["reason"]
    assert told["parameters"]["stages"] >= 2 and told["kernel"] == told["baseline"] == "attention_mma_small_bf16_d64"
    figures = {"compile_seconds", "registers", "shared_bytes", "spill_bytes", "max_abs", "max_rel"}
    times = {"untimed", "seconds", "spread", "baseline_seconds", "speed_up", "verdict"}
    assert figures | times <= told.keys()
    assert all(told[name] is None for name in figures | times), "nothing of it was measured"


@pytest.mark.usefixtures("with_kernels")
def test_a_candidate_with_a_race_is_refused_without_a_gpu(run_fovea, tmp_path):
    source = (ROOT / "kernels/attention/mma_small.cuh").read_text()
    barrier = "    __syncthreads();  // this block has arrived, and the previous one has been read\n"
    assert source.count(barrier) == 1
    (tmp_path / "broken.cuh").write_text(source.replace(barrier, ""))
    trial = ("kernel", "try", "attention", "--level", "wmma", "--json")
    told = json.loads(run_fovea(*trial, "--unit", tmp_path / "broken.cuh", code=1).stdout)
    assert told["failed_at"] == "races" and told["valid"] is False
    assert re.search(r"race: .*mma_small\.cuh:\d+.*earlier access: .*\.cuh:\d+", told["reason"])
    (tmp_path / "wrong.cuh").write_text(source.replace("x[0] * inverse[i % 2]", "x[0] * inverse[0]"))
    told = json.loads(run_fovea(*trial, "--unit", tmp_path / "wrong.cuh", code=1).stdout)
    assert told["failed_at"] == "small" and "exceeds" in told["reason"]
    right = json.loads(run_fovea(*trial, code=3).stdout)
    assert right["failed_at"] is None and right["checked"] > 10 and "races" not in right["skipped"]


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--parameters", '{"warp": 4}'], 2, "no tuning parameter 'warp'; there are: ctas_per_sm, warps"),
        (["--kernel", "no_such_kernel"], 2, "there is no kernel 'no_such_kernel'"),
        (["--unit", "no_such_file"], 1, "the source no_such_file is empty or cannot be read"),
        (["--sources", "no_such_folder"], 1, "no_such_folder has no folder kernels/"),
        (["--problem", "batch=5,heads"], 2, "'heads' is not of the form"),
    ],
)
def test_try_names_what_it_does_not_know(run_fovea, options, code, told):
    assert told in run_fovea("kernel", "try", "attention", "--level", "wmma", *options, code=code).stderr


def test_usage_errors_exit_2(run_fovea):
    run_fovea("kernel", code=2)
    run_fovea("kernel", "check", "--no-such-option", code=2)
    for values in ('{"stages": 4294967299}', '{"stages": 2.9}', '{"stages": true}', "[3]", "3", "{"):
        assert "whole numbers" in run_fovea("kernel", "try", "attention", "--parameters", values, code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["no_such_kernel"], "no_such_kernel"),
        (["attention", "--level", "fast"], "no level 'fast'; there are: scalar, wmma, mma, wgmma"),
        (["attention", "--level", "fast", "--gate"], "no gate for level 'fast'"),
        (["layer_norm", "--gate", "--case", "rows1_width8"], "no gate for case 'rows1_width8'; there are gates for"),
        (["layer_norm", "--level", "mma"], "layer_norm has no levels"),
        (["layer_norm", "--case", "b1"], "`fovea kernel list -v layer_norm`"),
    ],
)
def test_profile_looks_at_its_arguments_before_the_machine(run_fovea, tmp_path, arguments, told):
    assert told in run_fovea("kernel", "profile", *arguments, code=2, env={"PATH": str(tmp_path)}).stderr
    if "--gate" not in arguments:
        assert told in run_fovea("kernel", "run", *arguments, code=2).stderr


@pytest.mark.skipif(has_gpu, reason="this machine has a GPU")
@pytest.mark.parametrize("options", [[], ["--gate"]])
def test_profile_without_a_gpu_says_so_before_it_looks_for_ncu(run_fovea, tmp_path, options):
    message = run_fovea("kernel", "profile", "attention", *options, code=1, env={"PATH": str(tmp_path)}).stderr
    assert "NVIDIA driver" in message


def ncu_that_saw(name):
    """A script in the place of ncu, with the pages of a launch of tests/lab/h200_profiles.csv."""
    with open(pathlib.Path(__file__).parent / "h200_profiles.csv") as file:
        names, *rows = csv.reader(file)
    column = names.index(name)
    cells = [(row[0], *row[column].partition(" ")[::2]) for row in rows]
    raw = [["ID", "", "0"]] + [[counter, unit, value] for counter, value, unit in cells]
    page = "\n".join(",".join(f'"{cell}"' for cell in line) for line in zip(*raw))
    source = '"Address","Source","# Samples","Instructions Executed","stall_wait"\n"0x1","NOP","1","1","1"'
    return f"""
case "$*" in
  *"--page raw"*) cat <<'END'
{page}
END
  ;;
  *"--page source"*) echo '{source}' ;;
  *) while [ "$1" != -o ]; do shift; done; : > "$2.ncu-rep" ;;
esac
"""


@pytest.mark.skipif(has_gpu, reason="this machine has a GPU")
def test_profile_gate_fails_and_keeps_the_record(run_fovea, with_gpu, tool, tmp_path):
    # What is on record does not keep a kernel from being measured again.
    env = tool("ncu", ncu_that_saw("wmma")) | with_gpu | {"FOVEA_GATE_RECORD": "/nowhere"}
    gate = ["attention", "--gate", "--case", "b2_h8_n512_d64_f16", "--level", "wmma"]
    record = tmp_path / "record.json"
    kept = ["--record", record, "--output", tmp_path]
    printed = run_fovea("kernel", "profile", *gate, *kept, code=1, env=env).stdout
    (missed,) = [line.split() for line in printed.splitlines() if "MISS" in line]
    assert missed[1:3] == ["matrix_units", "8.8%"]
    (level,) = json.loads(record.read_text())["levels"]
    assert not level["passed"] and level["kernel"] == "attention_mma_small_f16_d64"
    gates = {gate["figure"]: gate for gate in level["gates"]}
    assert gates["matrix_units"]["limit"] == 0.4 and not gates["matrix_units"]["passed"]
    assert gates["registers"]["passed"] and gates["registers"]["reading"] == 64
    profile = json.loads((tmp_path / "attention-b2_h8_n512_d64_f16-wmma.json").read_text())
    assert profile["figures"]["matrix_units"] == pytest.approx(gates["matrix_units"]["reading"])
    assert (tmp_path / "attention-b2_h8_n512_d64_f16-wmma.ncu-rep").exists()
    printed = run_fovea(
        "kernel", "profile", *gate[:-1], "scalar", env=tool("ncu", ncu_that_saw("scalar")) | with_gpu
    ).stdout
    assert "1/1 cases reach all of their gates" in printed


def test_gates_need_what_they_compare_with(run_fovea):
    assert "--record needs --gate" in run_fovea("kernel", "profile", "attention", "--record", "r.json", code=1).stderr
    assert "do not give --no-peers" in run_fovea("kernel", "bench", "--gate", "--no-peers", code=1).stderr
    assert "none of these cards has a speed gate" in run_fovea("kernel", "bench", "pool", "--gate", code=1).stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--record", "r.json", "--sources", "other"], "--record cannot be used with --sources and --parameters"),
        (
            ["--record", "r.json", "--parameters", '{"stages": 2}'],
            "--record cannot be used with --sources and --parameters",
        ),
        (["--record", "no/such/folder/r.json"], "no/such/folder/r.json: there is no folder no/such/folder"),
    ],
)
def test_what_cannot_be_recorded_is_refused_at_once(run_fovea, options, told):
    refused = run_fovea("kernel", "profile", "gemm_out", "--gate", *options, code=None)
    assert refused.returncode in (1, 2) and told in refused.stderr


def test_profile_without_ncu_says_what_is_missing(run_fovea, with_gpu, tmp_path):
    message = run_fovea("kernel", "profile", "layer_norm", code=1, env=with_gpu | {"PATH": str(tmp_path)}).stderr
    assert "ncu is neither on the PATH" in message


def test_profile_is_of_one_launch_whatever_the_environment_says(run_fovea, with_gpu, tool, tmp_path):
    env = tool("ncu", f'echo "$@" > {tmp_path}/arguments; exit 1') | with_gpu | {"FOVEA_TIMES": "3"}
    run_fovea("kernel", "profile", "layer_norm", code=1, env=env)
    assert "kernel run layer_norm --gpu 0 --times 1" in (tmp_path / "arguments").read_text()


def test_profile_keeps_what_it_found(run_fovea, with_gpu, tool, tmp_path):
    env = tool("ncu", f'echo "$@" >> {tmp_path}/arguments' + ncu_that_saw("row"))
    out = tmp_path / "kept"
    printed = run_fovea("kernel", "profile", "row_norm", "--sources", ROOT, "--output", out, env=env | with_gpu).stdout
    assert "bound by memory: device memory is the limit" in printed
    assert (tmp_path / "kept.ncu-rep").exists()
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert (kept["kind"], kept["card"], kept["sources"]) == ("profile", "row_norm", str(ROOT))
    assert kept["machine"]["gpu"]["name"] and kept["problem"]
    assert kept["findings"][0]["rule"] == "bound by memory"
    arguments = (tmp_path / "arguments").read_text()
    assert f"kernel run row_norm --gpu 0 --times 1 --sources {ROOT}" in arguments
    assert "l1tex__m_l1tex2xbar_write_bytes.sum" in arguments


@pytest.mark.parametrize(
    "options,told",
    [
        (["layer_norm", "row_norm", "--output", "x"], "--output takes one card"),
        (["layer_norm", "--output", "/no/such/folder/x"], "there is no folder /no/such/folder"),
        (["attention", "--gate", "--output", "/no/x"], "there is no folder /no"),
        (["attention", "--gate", "--plan", "x"], "--gate cannot be used with --plan"),
    ],
)
def test_profile_refuses_what_it_cannot_keep(run_fovea, options, told):
    refused = run_fovea("kernel", "profile", *options, code=None)
    assert refused.returncode in (1, 2) and told in refused.stderr


def test_resources_of_one_card_are_within_its_limits(run_fovea, with_kernels):
    printed = run_fovea("kernel", "resources", "layer_norm").stdout
    assert "within their limits" in printed
    assert "gemm" not in printed


@pytest.mark.skipif(os.path.exists("/usr/local/cuda/bin/nvdisasm"), reason="CUDA is installed")
def test_sass_without_a_disassembler_says_what_is_missing(fovea_bin, with_kernels, tmp_path):
    """Runs in another folder, because the disassembler of the build is found from the program's."""
    program = shutil.copy(fovea_bin, tmp_path)
    env = {"PATH": str(tmp_path)}
    done = subprocess.run(
        [program, "kernel", "sass", "layer_norm"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "nvdisasm is neither on the PATH nor in" in done.stderr


def test_a_card_as_json_is_the_context_of_a_task(run_fovea):
    card = json.loads(run_fovea("kernel", "list", "gemm_qkv_bf16", "--json").stdout)["cards"][0]
    assert {"operation", "tolerance", "cases", "limits", "gates", "peers", "kernels", "parameters", "sources"} <= set(
        card
    )
    assert "gemm (232064, 2304)" in next(case["problem"] for case in card["cases"] if case["bench"])
    assert "kernels/epilogue/fragment.cuh" in card["sources"] and 5 in card["parameters"]["gemm_ping_pong"]["stages"]
    kernel = next(
        entry for entry in card["kernels"] if entry["name"] == "gemm_sm90_cooperative_bf16_bias_bf16_2x256_v8"
    )
    assert {"region": "epilogue loop", "instruction": "STG", "exactly": 32} in kernel["regions"]


def test_machine_code_of_one_kernel_goes_to_files_by_role_and_by_region(run_fovea, with_kernels, tmp_path):
    kernel = "gemm_sm90_cooperative_bf16_bias_bf16_1x64_v8"
    files = ("--cfg", tmp_path / "graph.dot", "--cubin", tmp_path / "unit.cubin")
    message = run_fovea("kernel", "sass", "gemm_qkv_bf16", *files, code=1).stderr
    assert "take one kernel" in message and not (tmp_path / "graph.dot").exists()
    found = run_fovea("kernel", "sass", "gemm_qkv_bf16", "--kernel", kernel, "--regions", "--json", *files, code=None)
    if "nvdisasm is neither" in found.stderr or "no compiler" in found.stderr:
        pytest.skip(found.stderr)
    assert "cluster_producer" in (tmp_path / "graph.dot").read_text()
    assert (tmp_path / "unit.cubin").read_bytes().startswith(b"\x7fELF")
    report = json.loads(found.stdout)["kernels"][0]
    regions = {region["name"]: region["counts"] for region in report["regions"]}
    assert regions["epilogue loop"]["STG.E.128"] == 8 and "UTMALDG.3D" in regions["producer"]
    assert report["faults"] == [] and report["same_as_program"]
    # A store that is made twice, in a copy of the sources.
    shutil.copytree(pathlib.Path(__file__).resolve().parents[2] / "kernels", tmp_path / "kernels")
    words = tmp_path / "kernels/epilogue/words.cuh"
    store = "  *static_cast<Type*>(to) = value;"
    assert words.read_text().count(store) == 1
    first = "  *static_cast<volatile std::uint32_t*>(to) = from[0];\n"
    words.write_text(words.read_text().replace(store, first + store))
    planted = run_fovea("kernel", "sass", "gemm_qkv_bf16", "--kernel", kernel, "--sources", tmp_path, code=1).stdout
    assert "epilogue loop: 16 STG instead of exactly 8" in planted


def test_regions_of_other_machine_code_say_nothing(run_fovea, with_kernels, tool):
    ptxas = shutil.which("ptxas") or ROOT / "build/cuda/bin/ptxas"
    if not pathlib.Path(ptxas).exists():
        pytest.skip("there is no ptxas")
    env = tool("ptxas", f'case "$1" in --version) {ptxas} "$1" ;; *) {ptxas} -O1 "$@" ;; esac')
    command = ("kernel", "sass", "gemm_qkv_int8", "--kernel", PAIR, "--regions")
    told = run_fovea(*command, env=env, code=1).stdout
    assert re.search(r"OVER: .*ptxas [0-9.]+ generates other machine code than this program contains", told), told


PAIR = "gemm_sm100_pair_s8s8_bias_bf16_64"
PLANTED = {
    # Four of each 16 bytes are stored twice, in both forms of the epilogue.
    "a store": (
        "epilogue/words.cuh",
        "  *static_cast<Type*>(to) = value;",
        "  *static_cast<volatile std::uint32_t*>(to) = from[0];\n  *static_cast<Type*>(to) = value;",
        "epilogue loop: 16 STS instead of exactly 8",
    ),
    # A product of another type than the kernel's own, by all threads.
    "a product where roles have met": (
        "gemm/sm100_pair.cuh",
        "      leave();\n    }\n  }\n",
        "      leave();\n    }\n    ptx::tcgen05_mma_f16_pair(shared.tensor_memory, 0, 0, 0, true);\n  }\n",
        "UTCHMMA.2CTA at 0x",
    ),
    "a read in the loop of the products": (
        "gemm/sm100_pair.cuh",
        "        const std::uint32_t a_block = kPanel ? block : state.stage;",
        "        const std::uint32_t a_block = (kPanel ? block : state.stage) +\n"
        "            (*static_cast<volatile std::uint32_t*>(&shared.tensor_memory) >> 31);",
        "product loop: 1 LDS instead of at most 0",
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_work_that_is_planted_in_a_blackwell_kernel_fails_its_card(run_fovea, with_kernels, tmp_path, what):
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels")
    command = ["kernel", "sass", "gemm_qkv_int8", "--kernel", PAIR, "--arch", "100", "--sources", tmp_path]
    found = run_fovea(*command, code=None)
    if "nvdisasm is neither" in found.stderr or "no compiler" in found.stderr:
        pytest.skip(found.stderr)
    assert found.returncode == 0, found.stdout + found.stderr
    file, line, instead, told = PLANTED[what]
    source = tmp_path / "kernels" / file
    assert source.read_text().count(line) == 1
    source.write_text(source.read_text().replace(line, instead))
    assert told in run_fovea(*command, code=1).stdout


def test_sass_prints_kernels_as_they_are_read(run_fovea, fovea_bin, with_kernels, tool, tmp_path):
    """The disassembler stands still at the last architecture until the first kernel was printed."""
    kernels = [line.split()[:2] for line in run_fovea("kernel", "resources", "layer_norm").stdout.splitlines()[1:-1]]
    kernels.sort(key=lambda kernel: int(kernel[1].removeprefix("sm_")))
    last = kernels[-1][1]
    assert last != kernels[0][1]
    env = tool(
        "nvdisasm",
        f"""
for code; do :; done
case " $* " in *" {last.replace("sm_", "SM")} "*) while ! [ -e {tmp_path}/read ]; do sleep 0.05; done ;; esac
at=0
size=$(stat -c %s "$code")
while [ $at -lt $size ]; do
  printf '/*%04x*/ LDG.E.128 R4 ;\\n/*%04x*/ STG.E.128 R4 ;\\n' $at $((at + 16))
  at=$((at + 32))
done
""",
    )
    command = [fovea_bin, "kernel", "sass", "layer_norm"]
    with subprocess.Popen(command, env=os.environ | env, stdout=subprocess.PIPE, text=True) as process:
        stuck = threading.Timer(60, process.kill)
        stuck.start()
        first = process.stdout.readline()
        (tmp_path / "read").touch()
        rest = process.stdout.readlines()
        stuck.cancel()
    assert [line.split()[:2] for line in [first, *rest[:-1]]] == kernels
    assert process.returncode == 0


def test_candidates_of_a_batch_are_answered_in_order(run_fovea):
    """A compiler is needed by none of them."""
    lines = [
        '{"parameters": {"warps": 3}}',
        "nonsense",
        '{"parameters": {"stages": 9}}',
        '{"parameters": {"no": 1}}',
        '{"parameters": {"stages": 2.9}}',
        '{"parameters": {"stages": 4294967299}}',
        '{"paramters": {}}',
        "[]",
    ]
    done = run_fovea("kernel", "try", "attention", "--level", "wmma", "--batch", input="\n".join(lines) + "\n")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["failed_at"] for answer in told] == ["legal", "question", "legal"] + ["question"] * 5
    assert told[0]["change"] == {"warps": 3} and told[2]["change"] == {"stages": 9}
    assert "no tuning parameter 'no'" in told[3]["reason"]
    assert "whole numbers" in told[4]["reason"] and "whole numbers" in told[5]["reason"]
    assert "paramters" in told[6]["reason"]
