"""fovea.emu: CUDA kernels on the CPU, with NumPy arrays."""

import importlib.metadata
import os
import pathlib
import pickle
import re
import shutil
import types

import fovea
import numpy as np
import pytest
from fovea import emu

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SAXPY = ROOT / "examples/emulate/saxpy.ptx"
pytest_plugins = ["pytester"]

# Thread 0 writes a number to shared memory, which all others read; with a barrier between the two, or without.
TURNS = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry turns(.param .u64 to, .param .align 8 .b8 pair[16])
{
  .reg .b32 %%r<6>;
  .reg .b64 %%rd<4>;
  .shared .align 4 .b8 number[4];
  ld.param.u64 %%rd1, [to];
  ld.param.u32 %%r4, [pair+8];
  mov.u32 %%r1, %%tid.x;
  mov.u32 %%r2, number;
  setp.ne.u32 %%p1, %%r1, 0;
  @%%p1 bra $behind;
  st.shared.u32 [%%r2], %%r4;
$behind:
  %s
  ld.shared.u32 %%r3, [%%r2];
  mul.wide.u32 %%rd2, %%r1, 4;
  add.s64 %%rd3, %%rd1, %%rd2;
  st.global.u32 [%%rd3], %%r3;
  ret;
}
""".replace(".reg .b32", ".reg .pred %%p<2>;\n  .reg .b32")


@pytest.fixture(autouse=True)
def the_program(monkeypatch):
    if "site-packages" not in pathlib.Path(fovea.__file__).parts:
        monkeypatch.setenv("FOVEA_BIN", os.environ.get("FOVEA_BIN", str(ROOT / "build/release/bin/fovea")))


def saxpy_arrays(count=1000):
    return np.arange(count, dtype=np.float32), np.ones(count, np.float32)


def turns(barrier, to, **options):
    return emu.run(TURNS % barrier, "turns", 1, 64, to, np.array([1, 7], np.uint64).tobytes(), **options)


def test_a_kernel_computes_and_writes_arrays_back():
    x, y = saxpy_arrays()
    report = emu.check(SAXPY, "saxpy", 4, 256, np.int32(1000), np.float32(2), x, y, schedules=5)
    assert report.is_clean and report.schedules == 5 and report.operations > 0
    assert (y == 2 * np.arange(1000) + 1).all()
    assert (x == np.arange(1000)).all()


def test_the_source_is_text_as_well():
    x, y = saxpy_arrays(32)
    emu.check(SAXPY.read_text(), "", 1, 32, np.int32(32), np.float32(0.5), x, y)
    assert y[31] == 16.5
    assert emu.kernels(SAXPY) == ["saxpy(int, float, float const*, float*)"]


def test_a_race_names_both_accesses():
    to = np.zeros(64, np.uint32)
    assert turns("bar.sync 0;", emu.out(to)).is_clean
    assert (to == 7).all()
    report = turns("", to, seed=3, allow=["unwritten-stores"])
    finding = next(found for found in report.findings if found.kind == "race")
    assert finding.kernel == "turns" and finding.seed >= 3
    assert {finding.instruction, finding.other.instruction} == {"st.shared.u32", "ld.shared.u32"}
    assert finding.line > 0 and finding.other.line > 0 and {finding.warp, finding.other.warp} == {0, 1}
    assert "the other access" in str(finding)


def test_an_option_that_ignores_nothing_is_a_warning():
    options = ["--ignore", "lifetime@7", "--ignore", "race"]
    with pytest.warns(UserWarning, match="^--ignore lifetime@7 left out nothing$") as caught:
        assert turns("", np.zeros(64, np.uint32), allow=["unwritten-stores"], options=options).is_clean
    (warning,) = caught
    assert warning.filename == __file__


def test_results_are_judged_in_every_schedule():
    wanted = np.full(64, 7, np.uint32)
    to = np.zeros(64, np.uint32)
    assert turns("bar.sync 0;", emu.out(to), expect=wanted).is_clean
    options = ["--no-races", "--unwritten-stores"]
    report = turns("", to, expect={0: wanted}, options=options, schedules=50)
    (finding,) = report.findings
    assert finding.kind == "mismatch" and re.match(r"buffer b0: \d+ of 64 elements are wrong", finding.message)
    assert str(finding) == f"mismatch: {finding.message} [seed {finding.seed}]"
    assert (to != wanted).any()  # it is what that schedule has computed
    with pytest.raises(emu.FindingsError, match="mismatch: buffer b1: 1 of 1000 elements are wrong"):
        x, y = saxpy_arrays()
        wanted = 2 * x + 1
        wanted[3] += 1
        emu.check(SAXPY, "saxpy", 4, 256, np.int32(1000), np.float32(2), x, y, expect={3: wanted})


def test_results_may_differ_as_much_as_is_said():
    def is_clean(**options):
        x, y = saxpy_arrays(32)
        return emu.run(SAXPY, "saxpy", 1, 32, np.int32(32), np.float32(2), x, y, **options).is_clean

    wanted = 2 * np.arange(32, dtype=np.float32) + 1
    assert is_clean(expect={3: wanted}) and not is_clean(expect={3: wanted + 0.25})
    assert is_clean(expect={3: wanted + 0.25}, atol=0.25) and not is_clean(expect={3: wanted + 0.25}, atol=0.125)
    assert is_clean(expect={3: wanted * 1.01}, rtol=0.01) and not is_clean(expect={3: wanted * 1.02}, rtol=0.01)


@pytest.mark.parametrize(
    ("expect", "error", "message"),
    [
        (np.zeros(32), ValueError, "expect: several arguments are arrays"),
        ({1: np.zeros(32)}, TypeError, "expect: there is no argument 1 that is an array"),
        ({4: np.zeros(32)}, TypeError, "expect: there is no argument 4 that is an array"),
        ({3: np.zeros(31)}, ValueError, r"expect: argument 3 has the shape \(32,\), not \(31,\)"),
    ],
)
def test_expectations_that_fit_no_argument(expect, error, message):
    with pytest.raises(error, match=message):
        emu.run(SAXPY, "saxpy", 1, 32, np.int32(32), np.float32(2), *saxpy_arrays(32), expect=expect)


def test_unknown_options_are_named():
    with pytest.raises(TypeError, match="unknown options: schedule; expected schedules, seed"):
        turns("", np.zeros(64, np.uint32), schedule=3)


def test_check_raises_the_findings():
    x, y = saxpy_arrays()
    with pytest.raises(emu.FindingsError, match="out of bounds") as caught:
        emu.check(SAXPY, "saxpy", 4, 256, np.int32(1001), np.float32(2), x, y)
    assert isinstance(caught.value, (fovea.Error, AssertionError))
    assert pickle.loads(pickle.dumps(caught.value)).findings == caught.value.findings


def test_what_has_no_content_must_not_be_read():
    x, y = saxpy_arrays()
    report = emu.run(SAXPY, "saxpy", 4, 256, np.int32(1000), np.float32(2), x, emu.out(y))
    assert report.findings[0].kind == "uninitialised"
    assert emu.run(
        SAXPY, "saxpy", 4, 256, np.int32(1000), np.float32(2), x, emu.out(y), allow=["unwritten-stores"]
    ).is_clean


def test_an_array_that_is_given_twice_is_one_buffer():
    x = np.ones(32, np.float32)
    emu.check(SAXPY, "saxpy", 1, 32, np.int32(32), np.float32(3), x, x)
    assert (x == 4).all()


def test_several_launches_share_their_arrays():
    x, y = saxpy_arrays(64)
    launch = emu.Launch("saxpy", 1, (64, 1, 1), [np.int32(64), np.float32(1), x, y])
    assert emu.run_launches(SAXPY, [launch, launch]).is_clean
    assert (y == 1 + 2 * np.arange(64)).all()


# Thread i reads the i-th address, and doubles the number there.
DOUBLE_EACH = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry double_each(.param .u64 list)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [list];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 8;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u64 %rd4, [%rd3];
  ld.global.u32 %r2, [%rd4];
  add.u32 %r2, %r2, %r2;
  st.global.u32 [%rd4], %r2;
  ret;
}
"""


def test_addresses_of_arrays_are_an_array():
    x, y = np.array([3], np.uint32), np.array([4], np.uint32)
    emu.check(DOUBLE_EACH, "", 1, 2, emu.pointers(x, y))
    assert (x[0], y[0]) == (6, 8)
    with pytest.raises(emu.FindingsError, match="out of bounds"):
        emu.check(DOUBLE_EACH, "", 1, 3, emu.pointers(x, y))
    with pytest.raises(emu.FindingsError, match="uninitialised"):
        emu.check(DOUBLE_EACH, "", 1, 2, emu.pointers(x, emu.out(y)))


# Doubles a number, whose address is at byte 8 of a struct, and writes it to the address at byte 24.
DOUBLE = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry double_it(.param .align 8 .b8 of[32])
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u32 %r1, [of];
  ld.param.u64 %rd1, [of+8];
  ld.param.u64 %rd2, [of+24];
  ld.global.u32 %r2, [%rd1];
  mul.lo.u32 %r2, %r1, %r2;
  st.global.u32 [%rd2], %r2;
  ret;
}
"""


def test_structs_have_addresses_of_arrays():
    x, y = np.array([3], np.uint32), np.zeros(1, np.uint32)
    inner = emu.struct(emu.out(y))
    emu.check(DOUBLE, "", 1, 1, emu.struct(np.int32(2), x, np.int16(1), inner))
    assert y[0] == 6
    with pytest.raises(fovea.Error, match="beyond the 32 bytes of the struct"):
        emu.run(DOUBLE, "", 1, 1, emu.struct(np.int32(2), x, y, y, y))
    fields = emu.struct(b"abc", np.int16(1), emu.struct(b"a", x), emu.TensorMap(x, [1])).fields()
    assert [offset for offset, _ in fields] == [0, 4, 8, 64]


def test_cooperative_launches_run_all_blocks_at_a_time():
    # Each of 8 blocks counts, and waits until all have: more than run at a time otherwise.
    wait = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry meet(.param .u64 count)
{
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [count];
  atom.global.gpu.add.u32 %r1, [%rd1], 1;
$again:
  ld.relaxed.gpu.global.u32 %r2, [%rd1];
  setp.lt.u32 %p1, %r2, 8;
  @%p1 bra $again;
  ret;
}
"""
    options = {"schedules": 2, "options": ["--most-operations", "20000"]}
    emu.check(wait, "", 8, 1, np.zeros(1, np.uint32), cooperative=True, **options)
    with pytest.raises(emu.FindingsError, match="no progress"):
        emu.check(wait, "", 8, 1, np.zeros(1, np.uint32), **options)


def test_the_place_of_a_finding_is_the_first_line_of_its_source():
    source = "/my code/a.cu:12 (inlined at /my code/b.cu:34) (inside /cuda/crt/mma.hpp:56)"
    first = emu.Finding("k", "ld.shared.u32", 5, source, (0, 0, 0), 1, "race", "it reads", 1, 0)
    assert first.source_line == "/my code/a.cu:12" and first.file == "/my code/a.cu"
    assert "at /my code/a.cu:12 (inlined at /my code/b.cu:34): it reads" in str(first)
    same = emu.Finding("k", "ld.shared.u32", 9, source, (0, 0, 0), 1, "race", "it reads", 1, 0, count=2)
    other = emu.Finding("k", "ld.shared.u32", 9, "", (0, 0, 0), 1, "race", "it reads", 1, 0)
    lines = str(emu.FindingsError((first, same, other))).splitlines()
    assert len(lines) == 2 and lines[0].endswith("(3 times)")


def test_a_missing_program_is_told_before_a_source_is_compiled(monkeypatch, tmp_path):
    monkeypatch.setenv("FOVEA_BIN", str(tmp_path / "absent"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    source = "__global__ void work() {}"
    with pytest.raises(fovea.Error, match="absent is missing.*FOVEA_BIN"):
        emu.run(source, "work", 1, 1)
    with pytest.raises(fovea.Error, match="absent is missing.*FOVEA_BIN"):
        emu.kernels(source)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([3], TypeError, "argument 0 is a int; expected"),
        ([np.zeros((4, 4), np.float32).T], ValueError, "argument 0: the array must be C-contiguous"),
        ([emu.out([1])], TypeError, "takes a NumPy array"),
        ([np.int32(1)], fovea.Error, "got 1 arguments"),
        ([np.int64(1), np.float32(1), np.zeros(4), np.zeros(4)], fovea.Error, "8 bytes"),
    ],
)
def test_arguments_that_no_kernel_takes(arguments, error, message):
    with pytest.raises(error, match=message):
        emu.run(SAXPY, "saxpy", 1, 32, *arguments)


def test_ptx_that_cannot_be_run_names_the_line():
    with pytest.raises(fovea.Error, match="line 19.*fancy"):
        turns("fancy.u32 %r1;", np.zeros(64, np.uint32))
    with pytest.raises(fovea.Error, match="no kernel"):
        emu.run(SAXPY, "absent", 1, 1)


def test_cuda_is_compiled(tmp_path, monkeypatch):
    if not shutil.which("nvcc"):
        pytest.skip("no CUDA compiler compiles the source of this test: scripts/setup installs nvcc")
    x, y = saxpy_arrays()
    report = emu.run(SAXPY.with_suffix(".cu"), "saxpy", 4, 256, np.int32(1001), np.float32(2), x, y, arch="sm_90")
    assert report.findings[0].source.endswith("saxpy.cu:5") and report.findings[0].file.endswith("saxpy.cu")
    with pytest.raises(fovea.Error, match="nvcc cannot compile"):
        emu.compile("__global__ void broken( {")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(fovea.Error, match="cannot find nvcc"):
        emu.compile("__global__ void other() {}")


def test_the_pytest_fixture(pytester):
    pytester.makepyfile(
        f"""
        import numpy as np, pytest

        def launch(emu):
            y = np.ones(32, np.float32)
            return emu.check({str(SAXPY)!r}, "saxpy", 1, 32, np.int32(32), np.float32(1), y, y).schedules

        def test_plain(emu):
            assert launch(emu) == 10

        @pytest.mark.emu(schedules=3)
        def test_marked(emu):
            assert launch(emu) == 3
        """
    )
    options = ["--strict-markers"]
    if not importlib.metadata.entry_points(group="pytest11", name="fovea"):  # the package is not installed
        options += ["-p", "pytest_fovea"]
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=2)
    pytester.runpytest_subprocess(*options, "--emu-schedules=5").assert_outcomes(failed=2)


def compiled_by_triton(scratch=2, **metadata):
    """What triton.compile would return for saxpy, with as many addresses of scratch memory as it is told."""
    text = SAXPY.read_text()
    name = re.search(r"\.entry (\w+)\(", text)[1]
    text = re.sub(
        rf"(\.param [^)]*{name}_param_3)",
        r"\1" + "".join(f",\n.param .u64 more_{i}" for i in range(scratch)),
        text,
        count=1,
    )
    known = {"name": name, "num_warps": 8, "shared": 0, "global_scratch_size": 16}
    signature = {"n": "i32", "a": "fp32", "x": "*fp32", "y": "*fp32", "BLOCK": "constexpr"}
    return types.SimpleNamespace(
        asm={"ptx": text},
        metadata=types.SimpleNamespace(**known | metadata),
        src=types.SimpleNamespace(signature=signature),
    )


def test_kernels_of_triton_take_plain_numbers():
    x, y = saxpy_arrays()
    assert emu.check_triton(compiled_by_triton(), 4, 1000, 2, x, y, schedules=3).schedules == 3
    assert (y == 2 * np.arange(1000) + 1).all()
    assert emu.run_triton(compiled_by_triton(scratch=0), (4, 1), np.int64(1000), 2.0, x, y).is_clean
    with pytest.raises(emu.FindingsError, match="out of bounds"):
        emu.check_triton(compiled_by_triton(), 4, 1001, 2, x, y)


def test_launches_of_triton():
    kernel = compiled_by_triton(num_ctas=2, launch_pdl=True, shared=64)
    launch = emu.triton_launch(kernel, (4, 3), [1, 2, np.zeros(1), np.zeros(1)])
    assert (launch.grid, launch.block, launch.cluster, launch.shared, launch.dependent) == ([8, 3], 256, 2, 64, True)
    assert launch.arguments[4].array.nbytes == 16 * 24 and launch.arguments[5] == 0  # scratch memory, and none
    # A tensor descriptor is a map, the sizes and the steps; on GPUs without the TMA a pointer and more.
    kernel = compiled_by_triton(scratch=5, tensordesc_meta=[{"swizzle": 3, "block_size": [64, 32]}])
    kernel.src.signature["x"] = "tensordesc<fp16[64, 32]>"
    array = np.zeros((8, 16), np.float16)
    words = emu.triton_launch(kernel, 1, [1, 2, array, np.zeros(1)]).arguments
    assert (words[2].box, words[2].swizzle, words[2].array is array) == ([32, 64], "128B", True)
    assert [word.item() for word in words[3:7]] == [8, 16, 16, 1] and words[3].nbytes == 4 and words[5].nbytes == 8
    kernel = compiled_by_triton(scratch=10)
    kernel.src.signature["x"] = "tensordesc<fp16[64, 32]>"
    words = emu.triton_launch(kernel, 1, [1, 2, array, np.zeros(1)]).arguments
    assert words[2] is array and [word.item() for word in words[3:13]] == [8, 16, 16, 1, False, False, 8, 16, 16, 1]


@pytest.mark.parametrize(
    ("scratch", "arguments", "message"),
    [
        (2, [1], r"takes 4 arguments \(n, a, x, y\), not 1"),
        (2, [1, 2, 3, np.zeros(1)], r"x has the type \*fp32 in Triton"),
        (3, [1, 2, np.zeros(1), np.zeros(1)], "has 3 parameters more than the 4 known ones"),
    ],
)
def test_arguments_that_no_kernel_of_triton_takes(scratch, arguments, message):
    with pytest.raises(TypeError, match=message):
        emu.triton_launch(compiled_by_triton(scratch), 1, arguments)


def test_the_example_of_triton(pytester):
    pytest.importorskip("triton", reason="triton, whose kernels the example compiles, is not installed")
    example = ROOT / "examples/emulate/test_triton.py"
    options = [] if importlib.metadata.entry_points(group="pytest11", name="fovea") else ["-p", "pytest_fovea"]
    pytester.runpytest_subprocess(*options, example).assert_outcomes(passed=3)
