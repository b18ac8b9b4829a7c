"""`fovea emulate -- PROGRAM`: whole programs, with the emulator in the place of the CUDA runtime and driver."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

SOURCES = pathlib.Path(__file__).with_name("programs")


@pytest.fixture(scope="session")
def compile_program(tmp_path_factory):
    """compile(nvcc, "name", *flags): path of the program."""
    folder = tmp_path_factory.mktemp("programs")
    made = {}

    def compile(nvcc, name, *flags):
        key = (name, *flags)
        if key not in made:
            to = folder / f"{name}{len(made)}"
            flags = flags or ("-arch=sm_90",)
            if not any(flag.startswith("-cudart") for flag in flags):
                flags = ("-cudart=shared", *flags)
            subprocess.run([nvcc, "-w", "-o", to, SOURCES / f"{name}.cu", *flags], check=True)
            made[key] = to
        return made[key]

    return compile


@pytest.fixture
def run(run_fovea, compile_program, nvcc, tmp_path):
    """run("name", *arguments, flags=(), options=(), code=0): what it printed, its errors, and the command's JSON."""

    def run(name, *arguments, flags=(), options=(), code=0):
        program = compile_program(nvcc, name, *flags)
        report = tmp_path / "report.json"
        done = run_fovea("emulate", *options, f"--json={report}", "--overwrite", "--", program, *arguments, code=code)
        return done.stdout, done.stderr, json.loads(report.read_text())

    return run


@pytest.fixture
def driver(fovea_bin):
    """Flags for a program that is linked with the driver: there need not be another one than the emulator's."""
    (library,) = fovea_bin.parent.parent.glob("lib*/**/libfovea_cuda.so")
    return ("-arch=sm_90", "-Xlinker", str(library.with_name("libcuda.so.1")), "-Xlinker", str(library))


@pytest.mark.parametrize("mode", ["none", "speed", "size"])
def test_vector_addition_with_each_compression_of_the_fat_binary(run, mode):
    out, errors, report = run("vector_add", flags=("-arch=sm_90", f"-compress-mode={mode}"))
    assert out.splitlines() == ["9.0 32 8 232448 232448", "2997000 2 1 cudaSuccess"]
    assert report["clean"] and report["launches"] == 2 and report["kernels"] == ["add<float>"]
    assert "no findings" in errors


def test_shared_pitched_managed_and_page_locked_memory(run):
    out, errors, report = run("matrices", options=("--schedules", "5"))
    assert out.splitlines() == ["transpose right", "cudaErrorInvalidValue", "3", "product right"]
    assert "cudaFuncSetAttribute with MaxDynamicSharedMemorySize" in errors
    assert report["clean"] and report["launches"] == 2 and report["schedules_run"] == 10


def test_a_forgotten_barrier_is_found_and_the_program_goes_on(run):
    out, errors, report = run("matrices", flags=("-arch=sm_90", "-lineinfo", "-DFORGOTTEN"), code=1)
    assert out.splitlines()[0] == "transpose right" and out.splitlines()[-1].startswith("product")
    finding = next(found for found in report["found"] if found["kind"] == "race")
    assert all(found["kernel"].startswith("multiply") for found in report["found"])
    assert finding["launch"] == 2 and "matrices.cu" in finding["source"] and finding["other"]["line"] > 0
    assert "launch 2, seed 0: multiply: race" in errors


def test_an_access_out_of_bounds_fails_like_on_a_gpu(run):
    out, errors, report = run("wrong", "1", code=1)
    assert out.splitlines() == ["cudaSuccess", "cudaErrorIllegalAddress", "cudaErrorIllegalAddress"]
    assert report["found"][0]["kind"] == "out of bounds"
    assert "0 bytes behind the end of the program's allocation 1, which has 1024 bytes" in errors


@pytest.mark.parametrize(
    ("case", "printed", "told"),
    [
        ("2", "cudaErrorInvalidValue", "a memset writes 1028 bytes at byte 0 of 1024"),
        ("3", "cudaErrorInvalidValue", "cudaMemcpyHostToDevice is asked for"),
        ("4", "cudaErrorInvalidValue", "is freed, but no allocation begins there"),
        ("9", "cudaErrorInvalidConfiguration", "1024 threads"),
    ],
)
def test_wrong_calls_say_what_is_wrong(run, case, printed, told):
    out, errors, report = run("wrong", case)
    assert out.strip() == printed
    assert told in errors and report["notes"]


def test_host_memory_is_registered_once(run):
    out, errors, _ = run("wrong", "13")
    twice = "cudaErrorHostMemoryAlreadyRegistered"
    assert out.splitlines() == [
        "cudaSuccess", twice, "cudaSuccess", "cudaSuccess", "cudaErrorHostMemoryNotRegistered", "cudaSuccess",
        "cudaErrorInvalidValue", "cudaErrorInvalidValue",
    ]  # fmt: skip
    assert "are registered or page-locked already" in errors and "are no memory of the program" in errors


def test_a_cooperative_launch_counts_the_blocks_of_clusters(run):
    out, errors, _ = run("wrong", "14", flags=("-arch=sm_90",), code=None)
    assert out.splitlines() == ["cudaSuccess", "cudaErrorCooperativeLaunchTooLarge"]
    assert "a cooperative launch has 66 blocks" in errors


def test_what_kernels_print_has_no_decimal_comma(run, tmp_path, monkeypatch):
    locale = "de_DE.UTF-8"
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", tmp_path / locale], capture_output=True)
    if made.returncode != 0:
        pytest.skip("there is no locale with a decimal comma here, and localedef does not make one")
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    monkeypatch.setenv("LC_ALL", locale)
    assert run("wrong", "12")[0].splitlines() == ["0,50", "0.25", "cudaSuccess"]


def test_an_absent_function_is_named(run):
    out, errors, report = run("wrong", "5", code=2)
    assert out.strip() == "cudaErrorNotSupported"
    assert report["refused"] == ["cudaGraphCreate: the emulator has no such function"]


def test_kernels_print_and_assert(run):
    assert run("wrong", "10")[0].splitlines() == ["before", "thread 0", "thread 1", "cudaSuccess"]
    out, errors, report = run("wrong", "11", code=1)
    assert out.splitlines()[-1] == "cudaErrorAssert"
    assert report["found"][0]["kind"] == "assertion"


def test_exit_codes(run):
    assert run("wrong", "6", code=1)[0].strip() == "cudaSuccess"
    assert "has launched no kernel" in run("wrong", "7", code=7)[1]


def test_the_launches_that_run_in_many_schedules(run):
    schedules = ("--schedules", "6")
    assert run("wrong", "8", options=schedules, code=1)[2]["launches"] == 4
    by_kernel = run("wrong", "8", options=(*schedules, "--kernel", "fill"), code=1)[2]
    assert by_kernel["schedules_run"] == 3 * 6 + 1
    by_number = run("wrong", "8", options=(*schedules, "--launch-number", "2"), code=1)[2]
    assert by_number["schedules_run"] == 6 + 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--kernel", "filll"), "no launch of a kernel filll; launched: add<float>"),
        (("--launch-number", "9"), "no launch 9; launched: 2 launches"),
        (("--launch-number", "2,9"), "no launch 9: the program has made 2 launches"),
        (("--launch-number", "9", "--kernel", "add"), "no launch 9 of a kernel add; launched: add<float>"),
    ],
)
def test_what_was_to_be_searched_and_is_not_launched_is_told(run, options, told):
    assert told in run("vector_add", options=options, code=2)[1]
    assert "no launch" not in run("vector_add", options=("--kernel", "add", "--launch-number", "2"))[1]


def test_launches_with_several_findings_are_counted_once(run):
    _, errors, report = run("matrices", flags=("-arch=sm_90", "-lineinfo", "-DFORGOTTEN"), code=1)
    counted = re.search(r"(\d+) findings, in 1 launch\n", errors)
    assert counted and 1 < int(counted[1]) < len(report["found"])  # those of the same lines of the source are one


def test_clusters_dependent_launches_and_tensor_maps(run):
    out, errors, report = run("clusters", flags=("-arch=sm_90",))
    assert out.splitlines() == ["0", "0 1 0 1", "0", "64", "0 1 0", "0 36 155"]
    assert report["clean"] and "multiple of 16" in errors


def test_a_forgotten_wait_for_the_grid_before_is_found(run):
    report = run("clusters", flags=("-arch=sm_90", "-DFORGOTTEN"), code=1)[2]
    assert [(found["kind"], found["kernel"].split("(")[0]) for found in report["found"]] == [("race", "second")]


BLACKWELL = ("-gencode", "arch=compute_100a,code=compute_100a")


def test_blocks_take_over_the_work_of_others(run):
    options = ("--target", "sm_100a", "--schedules", "20")
    out, _, report = run("take_over", flags=BLACKWELL, options=options)
    assert out.splitlines() == ["cudaSuccess", "0 wrong", "some were taken over"]
    assert report["clean"] and report["schedules_run"] == 20


def test_an_answer_that_is_still_read_when_the_next_one_is_asked_for_is_found(run):
    options = ("--target", "sm_100a", "--schedules", "20")
    report = run("take_over", flags=(*BLACKWELL, "-DFORGOTTEN"), options=options, code=1)[2]
    assert "race" in {found["kind"] for found in report["found"]}


@pytest.mark.parametrize("form", ["-ptx", "-fatbin"])
def test_a_program_on_the_driver(run, driver, nvcc, tmp_path, form):
    subprocess.run([nvcc, form, "-arch=sm_90", SOURCES / "scale.cu", "-o", tmp_path / "module"], check=True)
    out, _, report = run("driver", tmp_path / "module", flags=driver)
    assert out.splitlines() == ["500", "0", "0", "3 3", "9 3"]
    assert report["launches"] == 2


def test_machine_code_alone_is_refused_with_the_option_that_helps(run, driver, nvcc, tmp_path):
    out, errors, _ = run("wrong", "1", flags=("-gencode", "arch=compute_90,code=sm_90"), code=2)
    assert "-gencode arch=compute_90,code=compute_90" in errors
    assert "cudaError" in out
    subprocess.run([nvcc, "-cubin", "-arch=sm_90", SOURCES / "scale.cu", "-o", tmp_path / "module"], check=True)
    out, errors, _ = run("driver", tmp_path / "module", flags=driver, code=3)
    assert out.strip() == "CUDA_ERROR_INVALID_IMAGE" and "machine code (a cubin)" in errors


def test_ptx_for_another_gpu_is_refused(run):
    flags = ("-gencode", "arch=compute_100a,code=compute_100a")
    assert "--target" in run("wrong", "8", flags=flags, code=2)[1]
    assert run("wrong", "8", flags=flags, options=("--target", "sm_100a"), code=1)[2]["launches"] == 4


def test_the_static_runtime_is_refused_with_the_option_that_helps(run):
    assert "-cudart shared" in run("wrong", "8", flags=("-cudart=static", "-arch=sm_90"), code=None)[1]


def test_what_ignores_nothing_is_told(run):
    _, errors, report = run("wrong", "6", options=("--ignore", "race", "--ignore", "lifetime@3"), code=7)
    assert report["clean"] and report["ignored"][0] > 0
    assert "--ignore lifetime@3 left out nothing" in errors and "--ignore race left" not in errors


@pytest.mark.parametrize("flags", [("-arch=sm_90", "-lineinfo"), ("-arch=sm_90",)])
def test_findings_are_written_as_those_of_kernels_are(run_fovea, compile_program, nvcc, tmp_path, flags):
    program = compile_program(nvcc, "wrong", *flags)
    command = ("emulate", "--format", "gnu", "--sarif", tmp_path / "out.sarif", "--", program, "6")
    errors = run_fovea(*command, code=1, cwd=SOURCES.parent).stderr
    (run,) = json.loads((tmp_path / "out.sarif").read_text())["runs"]
    races = [result for result in run["results"] if result["ruleId"] == "race"]
    assert races
    (place,) = races[0]["locations"]
    where = place["physicalLocation"]
    if "-lineinfo" in flags:
        assert re.search(r"^\S*programs/wrong\.cu:\d+: error: .*\[race\]$", errors, re.MULTILINE)
        assert where["artifactLocation"]["uri"] == "programs/wrong.cu" and where["region"]["startLine"] > 1
    else:
        assert f"{program}:1: error: " in errors and "of the PTX" in races[0]["message"]["text"]
        assert where["artifactLocation"]["uri"] == f"file://{program}" and where["region"]["startLine"] == 1


def test_all_schedules_are_run_if_that_is_asked_for(run):
    options = ("--schedules", "7", "--kernel", "last_wins")
    assert run("wrong", "6", options=options, code=1)[2]["schedules_run"] < 7
    assert run("wrong", "6", options=(*options, "--all"), code=1)[2]["schedules_run"] == 7


def test_a_journal_that_the_program_has_spoilt(run_fovea):
    spoil = """import json, os
journal = json.loads(os.environ["FOVEA_EMULATED_PROGRAM"])["journal"]
open(journal, "a").write(json.dumps({"event": "launch", "seconds": "long"}) + chr(10))"""
    message = run_fovea("emulate", "--", sys.executable, "-c", spoil, code=2).stderr
    assert "the journal of the program is malformed: line 1: " in message and "terminate" not in message


def test_usage(run_fovea):
    assert "after --" in run_fovea("emulate", "saxpy.ptx", "more", code=2).stderr
    assert "expected either FILE" in run_fovea("emulate", code=2).stderr
    assert (
        "--launch has no effect with a program"
        in run_fovea("emulate", "--launch", "x.json", "--", "true", code=2).stderr
    )
    assert "cannot start" in run_fovea("emulate", "--", "/nowhere/program", code=2).stderr
    assert run_fovea("emulate", "--", "sh", "-c", "exit 5", code=5).stdout == ""
