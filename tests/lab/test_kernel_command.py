"""`fovea kernel` on machines without a GPU, and without the tools it runs."""

import os
import shutil
import subprocess
import threading

import pytest

has_gpu = shutil.which("nvidia-smi") is not None


@pytest.fixture
def with_kernels(run_fovea):
    if "without the CUDA compiler" in run_fovea("kernel", "resources", code=None).stderr:
        pytest.skip("built without the CUDA compiler")


def test_list_names_cards_and_their_cases(run_fovea):
    cards = run_fovea("kernel", "list").stdout
    assert "layer_norm" in cards and "mutants" not in cards
    listed = run_fovea("kernel", "list", "-v").stdout
    assert "mutants" in listed and "bench" in listed


def test_list_of_one_card(run_fovea):
    listed = run_fovea("kernel", "list", "layer_norm", "-v").stdout.splitlines()
    assert [line.split()[0] for line in listed if not line.startswith(" ")] == ["layer_norm"]
    assert len(listed) > 1


@pytest.mark.skipif(has_gpu, reason="this machine has a GPU")
@pytest.mark.parametrize("command", [["check"], ["bench"], ["run", "layer_norm"]])
def test_without_a_driver_the_message_says_so(run_fovea, command):
    result = run_fovea("kernel", *command, code=1)
    assert result.stderr.startswith("fovea: ")
    assert "NVIDIA driver" in result.stderr
    assert "passed" not in result.stdout


def test_unknown_cards_are_answered_with_the_nearest(run_fovea):
    message = run_fovea("kernel", "check", "layernorm", code=1).stderr
    assert "no kernel card 'layernorm'; did you mean layer_norm?" in message
    assert "did you mean" not in run_fovea("kernel", "check", "no_such_kernel", code=1).stderr


def test_unknown_cases_are_found_before_the_gpu(run_fovea):
    for command in ("check", "bench", "run", "profile"):
        message = run_fovea("kernel", command, "layer_norm", "--case", "rows1_widht8", code=1).stderr
        assert "rows1_widht8" in message and "NVIDIA" not in message


def test_usage_errors_exit_2(run_fovea):
    run_fovea("kernel", code=2)
    run_fovea("kernel", "check", "--no-such-option", code=2)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["no_such_kernel"], "no_such_kernel"),
        (["attention", "--level", "fast"], "no level 'fast'; there are: scalar, wmma, mma, wgmma"),
        (["attention", "--level", "fast", "--gate"], "no gate for level 'fast'"),
        (["layer_norm", "--gate"], "no gates"),
        (["layer_norm", "--level", "mma"], "layer_norm has no levels"),
        (["layer_norm", "--case", "b1"], "`fovea kernel list -v layer_norm`"),
    ],
)
def test_profile_looks_at_its_arguments_before_the_machine(run_fovea, tmp_path, arguments, told):
    assert told in run_fovea("kernel", "profile", *arguments, code=1, env={"PATH": str(tmp_path)}).stderr
    if "--gate" not in arguments:
        assert told in run_fovea("kernel", "run", *arguments, code=1).stderr


@pytest.mark.skipif(has_gpu, reason="this machine has a GPU")
@pytest.mark.parametrize("options", [[], ["--gate"]])
def test_profile_without_a_gpu_says_so_before_it_looks_for_ncu(run_fovea, tmp_path, options):
    message = run_fovea("kernel", "profile", "attention", *options, code=1, env={"PATH": str(tmp_path)}).stderr
    assert "NVIDIA driver" in message


@pytest.fixture
def with_gpu(fovea_bin):
    """The environment in which there is a GPU, or what stands in for its driver."""
    if has_gpu:
        return {}
    driver = fovea_bin.parents[1] / "tests/fakes"
    if not (driver / "libcuda.so.1").exists():
        pytest.skip("no GPU, and the stand-in for its driver was not built")
    return {"LD_LIBRARY_PATH": str(driver)}


def test_profile_without_ncu_says_what_is_missing(run_fovea, with_gpu, tmp_path):
    message = run_fovea("kernel", "profile", "layer_norm", code=1, env=with_gpu | {"PATH": str(tmp_path)}).stderr
    assert "ncu is neither on the PATH" in message


def test_profile_is_of_one_launch_whatever_the_environment_says(run_fovea, with_gpu, tool, tmp_path):
    env = tool("ncu", f'echo "$@" > {tmp_path}/arguments; exit 1') | with_gpu | {"FOVEA_TIMES": "3"}
    run_fovea("kernel", "profile", "layer_norm", code=1, env=env)
    assert "kernel run layer_norm --gpu 0 --times 1" in (tmp_path / "arguments").read_text()


def test_resources_of_one_card_are_within_its_limits(run_fovea, with_kernels):
    printed = run_fovea("kernel", "resources", "layer_norm").stdout
    assert "within their limits" in printed
    assert "gemm" not in printed


@pytest.mark.skipif(os.path.exists("/usr/local/cuda/bin/nvdisasm"), reason="CUDA is installed")
def test_sass_without_a_disassembler_says_what_is_missing(fovea_bin, with_kernels, tmp_path):
    """In another folder, because the disassembler of the build is found from the program's."""
    program = shutil.copy(fovea_bin, tmp_path)
    env = {"PATH": str(tmp_path)}
    done = subprocess.run([program, "kernel", "sass", "layer_norm"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "nvdisasm is neither on the PATH nor in" in done.stderr


@pytest.fixture
def tool(tmp_path):
    """tool(name, script): a program of that name, found before all others; returns the environment for it."""

    def make(name, script):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        return {"PATH": f"{path.parent}:{os.environ['PATH']}"}

    return make


def test_sass_prints_kernels_as_they_are_read(run_fovea, fovea_bin, with_kernels, tool, tmp_path):
    """The disassembler stands still at the last architecture until the first kernel was printed."""
    kernels = [line.split()[:2] for line in run_fovea("kernel", "resources", "layer_norm").stdout.splitlines()[1:-1]]
    kernels.sort(key=lambda kernel: int(kernel[1].removeprefix("sm_")))
    last = kernels[-1][1]
    assert last != kernels[0][1]
    env = tool("nvdisasm", f"""
for code; do :; done
case " $* " in *" {last.replace('sm_', 'SM')} "*) while ! [ -e {tmp_path}/read ]; do sleep 0.05; done ;; esac
at=0
size=$(stat -c %s "$code")
while [ $at -lt $size ]; do
  printf '/*%04x*/ LDG.E.128 R4 ;\\n/*%04x*/ STG.E.128 R4 ;\\n' $at $((at + 16))
  at=$((at + 32))
done
""")
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
