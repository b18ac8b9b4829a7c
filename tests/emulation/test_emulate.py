"""`fovea emulate`: kernels of other projects, launched as a JSON file says."""

import json
import pathlib
import re
import shutil
import subprocess

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/emulate"

HEAD = """
.version 9.0
.target sm_90a
.address_size 64
"""

# Thread i writes i to shared memory, and what thread 127 - i wrote to global memory.
REVERSE = (
    HEAD
    + """
.visible .entry reverse(.param .u64 to)
{
  .reg .b32 %%r<8>;
  .reg .b64 %%rd<4>;
  .shared .align 4 .b8 numbers[512];
  ld.param.u64 %%rd1, [to];
  mov.u32 %%r1, %%tid.x;
  shl.b32 %%r2, %%r1, 2;
  mov.u32 %%r3, numbers;
  add.s32 %%r4, %%r3, %%r2;
  st.shared.u32 [%%r4], %%r1;
  %s
  sub.s32 %%r5, 508, %%r2;
  add.s32 %%r6, %%r3, %%r5;
  ld.shared.u32 %%r7, [%%r6];
  mul.wide.u32 %%rd2, %%r1, 4;
  add.s64 %%rd3, %%rd1, %%rd2;
  st.global.u32 [%%rd3], %%r7;
  ret;
}
"""
)

# The second grid copies what the first one writes, after both may run.
PAIR = (
    HEAD
    + """
.visible .entry make(.param .u64 to)
{
  .reg .b32 %%r<4>;
  .reg .b64 %%rd<4>;
  ld.param.u64 %%rd1, [to];
  griddepcontrol.launch_dependents;
  mov.u32 %%r1, %%tid.x;
  mul.wide.u32 %%rd2, %%r1, 4;
  add.s64 %%rd3, %%rd1, %%rd2;
  add.s32 %%r2, %%r1, 7;
  st.global.u32 [%%rd3], %%r2;
  ret;
}
.visible .entry copy(.param .u64 from, .param .u64 to)
{
  .reg .b32 %%r<4>;
  .reg .b64 %%rd<8>;
  ld.param.u64 %%rd1, [from];
  ld.param.u64 %%rd2, [to];
  mov.u32 %%r1, %%tid.x;
  mul.wide.u32 %%rd3, %%r1, 4;
  add.s64 %%rd4, %%rd1, %%rd3;
  add.s64 %%rd5, %%rd2, %%rd3;
  %s
  ld.global.u32 %%r2, [%%rd4];
  st.global.u32 [%%rd5], %%r2;
  ret;
}
"""
)

# Writes its two fields, a number and the number at an address, to where the third one says.
FIELDS = (
    HEAD
    + """
.visible .entry fields(.param .align 8 .b8 values[24])
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u32 %r1, [values];
  ld.param.u64 %rd1, [values+8];
  ld.param.u64 %rd2, [values+16];
  ld.global.u32 %r2, [%rd1];
  add.s32 %r3, %r1, %r2;
  st.global.u32 [%rd2], %r3;
  ret;
}
"""
)

# Loads the box of 32 columns and 4 rows at (8, 2) by the TMA, and writes it out as it lies in shared memory.
LOAD_BOX = (
    HEAD
    + """
.visible .entry load_box(.param .align 64 .b8 map[128], .param .u64 to)
{
  .reg .pred %p<4>;
  .reg .b32 %r<12>;
  .reg .b64 %rd<8>;
  .shared .align 128 .b8 box[512];
  .shared .align 8 .b64 done;
  mov.b64 %rd1, map;
  cvta.param.u64 %rd1, %rd1;
  ld.param.u64 %rd2, [to];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, box;
  mov.u32 %r3, done;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $wait;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
  mov.u32 %r4, 8;
  mov.u32 %r5, 2;
  mov.u32 %r6, 0;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
  cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r4, %r5, %r6}], [%r3];
$wait:
  bar.sync 0;
$again:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra $again;
  shl.b32 %r7, %r1, 2;
  add.s32 %r8, %r2, %r7;
  ld.shared.u32 %r9, [%r8];
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r9;
  ret;
}
"""
)

REVERSED = {"type": "u32", "shape": [128], "compare": {"iota": {"start": 127, "step": -1}}}


def reverse(barrier, **buffer):
    launch = {"grid": 1, "block": 128, "arguments": [{"buffer": "y"}]}
    return REVERSE % barrier, {"buffers": {"y": REVERSED | buffer}, "launch": launch}


def pair(wait, dependent=True):
    launches = [
        {"kernel": "make", "grid": 1, "block": 64, "arguments": [{"buffer": "x"}]},
        {
            "kernel": "copy",
            "grid": 1,
            "block": 64,
            "dependent": dependent,
            "arguments": [{"buffer": "x"}, {"buffer": "y"}],
        },
    ]
    buffers = {
        "x": {"type": "u32", "shape": [64]},
        "y": {"type": "u32", "shape": [64], "compare": {"iota": {"start": 7}}},
    }
    return PAIR % wait, {"buffers": buffers, "launches": launches}


@pytest.fixture
def example(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "example")
    return tmp_path / "example"


def test_the_example_runs_and_writes_its_output(run_fovea, example):
    done = run_fovea("emulate", example / "saxpy.ptx", "--launch", example / "launch.json", "--schedules", "20")
    assert "20 of 20 schedules clean" in done.stdout
    assert (numpy.load(example / "y.npy") == numpy.arange(1, 1001, dtype="f4")).all()


def test_the_examples_ptx_is_what_the_compiler_makes_of_its_source(example, tmp_path, nvcc):
    made = tmp_path / "made.ptx"
    subprocess.run([nvcc, "-ptx", "-arch=sm_90", example / "saxpy.cu", "-o", made], check=True)
    words = [re.sub(r"//.*", "", path.read_text()).split() for path in (made, example / "saxpy.ptx")]
    assert words[0] == words[1]


def test_files_are_read_and_written(run_fovea, example):
    random = numpy.random.default_rng(3)
    x, y = random.standard_normal((2, 1000), dtype="f4")
    numpy.save(example / "x.npy", x)
    y.tofile(example / "y.bin")
    launch = json.loads((example / "launch.json").read_text())
    launch["buffers"] = {
        "x": {"content": {"file": "x.npy"}},
        "y": {"type": "f32", "content": {"file": "y.bin"}, "write": "out.bin"},
    }
    (example / "launch.json").write_text(json.dumps(launch))
    run_fovea("emulate", example / "saxpy.ptx", "--launch", example / "launch.json")
    wanted = (x.astype("f8") * 2 + y).astype("f4")
    assert (numpy.fromfile(example / "out.bin", "f4") == wanted).all()
    launch["buffers"]["x"]["type"] = "f16"
    (example / "launch.json").write_text(json.dumps(launch))
    done = run_fovea("emulate", example / "saxpy.ptx", "--launch", example / "launch.json", code=2)
    assert (
        "launch.json: buffers.x.content.file: " in done.stderr
        and "the file's elements are <f4 instead of f16" in done.stderr
    )


@pytest.mark.parametrize("first", [0, 1000, 123456])
def test_a_missing_barrier_is_found_and_its_seed_replays_it(emulate, first):
    clean = emulate(*reverse("bar.sync 0;"), "--seed", str(first), "--schedules", "50")
    assert clean["clean"] and clean["schedules_run"] == 50
    report = emulate(*reverse(""), "--seed", str(first), "--schedules", "50", code=1)
    (found,) = report["found"]
    for threads in ("1", "3"):  # the first one, however many run at once
        again = emulate(*reverse(""), "--seed", str(first), "--schedules", "50", "--threads", threads, code=1)
        assert again["found"] == [found]
    alone = emulate(*reverse(""), *found["replay"].split(), code=1)
    assert alone["found"] == [found]
    if found["findings"][0]["kind"] == "mismatch":
        assert found["findings"][0]["buffer"] == "y" and found["findings"][0]["wrong"] > 0


def test_all_schedules_are_told(emulate):
    report = emulate(*reverse(""), "--schedules", "40", "--all", "--policy", "uniform", code=1)
    assert report["schedules_run"] == 40
    seeds = [found["seed"] for found in report["found"]]
    assert len(seeds) > 1 and seeds == sorted(seeds)
    assert {found["policy"] for found in report["found"]} == {"uniform"}
    for found in report["found"][:3]:
        assert found["replay"] == f"--seed {found['seed']} --policy uniform"
        assert emulate(*reverse(""), *found["replay"].split(), code=1)["found"] == [found]


def test_a_mismatch_says_where_and_what(emulate):
    ptx, launch = reverse("bar.sync 0;", compare={"iota": {"start": 127, "step": -1}})
    launch["buffers"]["y"]["shape"] = [2, 64]
    emulate(ptx, launch)
    wanted = list(range(127, -1, -1))
    wanted[70] = 60
    launch["buffers"]["y"]["compare"] = {"values": wanted}
    (found,) = emulate(ptx, launch, code=1)["found"]
    (finding,) = found["findings"]
    assert finding["kind"] == "mismatch" and finding["index"] == "[1, 6]" and finding["wrong"] == 1
    assert (finding["is"], finding["wanted"]) == ("57", "60")
    launch["buffers"]["y"]["compare"]["absolute"] = 2.5
    assert emulate(ptx, launch, code=1)["found"]
    launch["buffers"]["y"]["compare"]["absolute"] = 3
    assert emulate(ptx, launch)["clean"]
    launch["buffers"]["y"]["compare"] = {"values": wanted, "relative": 0.049}
    assert emulate(ptx, launch, code=1)["found"]
    launch["buffers"]["y"]["compare"]["relative"] = 0.051
    assert emulate(ptx, launch)["clean"]


def test_a_finding_names_the_line(emulate):
    ptx, launch = reverse("bar.sync 0;")
    launch["launch"]["arguments"][0]["offset"] = 4
    (found,) = emulate(ptx, launch, code=1)["found"]
    (finding,) = found["findings"]
    line = ptx.splitlines().index("  st.global.u32 [%rd3], %r7;") + 1
    assert (finding["kind"], finding["line"], finding["kernel"]) == ("out of bounds", line, "reverse")
    assert finding["instruction"] == "st.global.u32" and finding["block"] == [0, 0, 0] and finding["lanes"]


def test_a_grid_that_depends_on_another(emulate):
    assert emulate(*pair("griddepcontrol.wait;"), "--schedules", "50")["clean"]
    assert emulate(*pair("", dependent=False), "--schedules", "50")["clean"]
    assert emulate(*pair(""), "--schedules", "50", code=1)["found"]


def test_structs(emulate):
    fields = [{"at": 0, "u32": 5}, {"at": 8, "buffer": "x", "offset": 8}, {"at": 16, "buffer": "y"}]
    launch = {
        "buffers": {
            "x": {"type": "u32", "content": {"values": [1, 2, 30]}},
            "y": {"type": "u32", "shape": [], "compare": {"values": [35]}},
        },
        "launch": {"grid": 1, "block": 1, "arguments": [{"struct": fields}]},
    }
    assert emulate(FIELDS, launch)["clean"]
    fields[2]["at"] = 17
    message = emulate(FIELDS, launch, code=2)
    assert "launch.json: launch.arguments[0].struct[2]: the member ends beyond the 24 bytes of the struct" in message


def test_a_trace_says_what_ran(run_fovea, emulate, tmp_path):
    trace = tmp_path / "trace.txt"
    emulate(*pair("griddepcontrol.wait;"), "--seed", "5", "--trace", trace)
    lines = trace.read_text().splitlines()
    assert [line for line in lines if line[0] == "#"] == ["# grid 1: make", "# grid 2: copy"]
    pattern = r"\d+ grid ([12]) block 0,0,0 warp ([01]) lanes ffffffff line \d+ (\S+?)(: waits|: resumes)?"
    events = [re.fullmatch(pattern, line).groups() for line in lines if line[0] != "#"]
    ran = [event[:3] for event in events if event[3] is None]
    for grid, name, operations in (("1", "st.global.u32", 8), ("2", "ld.global.u32", 10)):
        for warp in "01":
            assert ran.count((grid, warp, name)) == 1
            assert len([event for event in ran if event[:2] == (grid, warp)]) == operations
    turns = [int(line.split()[0]) for line in lines if line[0] != "#"]
    assert turns == sorted(turns)
    first = trace.read_bytes()
    emulate(*pair("griddepcontrol.wait;"), "--seed", "5", "--trace", trace)
    assert trace.read_bytes() == first
    emulate(*pair("griddepcontrol.wait;"), "--seed", "6", "--trace", trace)
    assert trace.read_bytes() != first
    done = run_fovea("emulate", tmp_path / "kernels.ptx", "--trace", trace, "--schedules", "2", code=2)
    assert "--schedules cannot be used with --trace" in done.stderr


def test_a_kernel_that_never_ends(emulate):
    ptx = HEAD + ".visible .entry forever()\n{\n$again:\n  bra $again;\n  ret;\n}\n"
    (found,) = emulate(ptx, {"launch": {"grid": 1, "block": 32}}, "--most-operations", "10000", code=1)["found"]
    assert found["findings"][0]["kind"] == "no progress"
    assert found["findings"][0]["message"].endswith("; --most-operations allows more")


@pytest.mark.parametrize("option", [("--trace", "trace.txt"), ("--schedules", "5")])
def test_options_of_runs_need_a_launch(run_fovea, example, option):
    message = run_fovea("emulate", example / "saxpy.ptx", *option, code=2).stderr
    assert f"{option[0]} has no effect without --launch" in message
    listed = run_fovea("emulate", example / "saxpy.ptx", env={"FOVEA_SCHEDULES": "5"}).stdout
    assert listed.startswith("saxpy(")  # a variable is ignored where it does not apply


def test_kernels_are_listed_and_named(run_fovea, example, tmp_path):
    done = run_fovea("emulate", example / "saxpy.ptx")
    assert done.stdout.splitlines()[0] == "saxpy(int, float, float const*, float*)"
    (kernel,) = json.loads(run_fovea("emulate", example / "saxpy.ptx", "--json").stdout)["kernels"]
    assert [(p["offset"], p["bytes"]) for p in kernel["parameters"]] == [(0, 4), (4, 4), (8, 8), (16, 8)]
    ptx = HEAD + "".join(
        f".visible .entry {name}()\n{{\n  ret;\n}}\n"
        for name in ("_ZN1a4workILi1EEEvv", "_ZN1a4workILi2EEEvv", "other")
    )
    (tmp_path / "several.ptx").write_text(ptx)
    (tmp_path / "launch.json").write_text('{"launch": {"grid": 1, "block": 1}}')
    command = ("emulate", tmp_path / "several.ptx", "--launch", tmp_path / "launch.json")
    for name in ("_ZN1a4workILi2EEEvv", "a::work<1>", "other"):
        run_fovea(*command, "--kernel", name)
    for name, said in {
        "a::work": "2 kernels called a::work; choose one of",
        "": "has 3 kernels; choose one of a::work<1>",
        "othr": "did you mean other?",
    }.items():
        assert said in run_fovea(*command, "--kernel", name, code=2).stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"arguments": []}, "launch.arguments: got 0 arguments, but reverse has 1 parameters"),
        ({"arguments": [{"s32": 1}]}, "launch.arguments[0]: the argument has 4 bytes, but the parameter to has 8"),
        ({"kernel": "revers"}, "launch.kernel: "),
        ({"block": 2048}, "a block must have 1 to 1024 threads, got 2048"),
        ({"cluster": 2}, "1x1x1 blocks cannot be divided into clusters of 2x1x1"),
        ({"shared_bytes": 300000}, "bytes of shared memory, got "),
        (
            {"arguments": [{"tensor_map": {"buffer": "y", "box": [257]}}]},
            "launch.arguments[0]: the argument has 128 bytes",
        ),
    ],
)
def test_what_does_not_fit_the_kernel(emulate, change, said):
    ptx, launch = reverse("bar.sync 0;")
    launch["launch"] |= change
    message = emulate(ptx, launch, code=2)
    assert "launch.json: " in message and said in message


def test_a_tensor_map_that_the_driver_would_refuse(emulate):
    ptx = HEAD + ".visible .entry take(.param .align 64 .b8 map[128])\n{\n  ret;\n}\n"
    map_of = {"buffer": "x", "box": [64, 8], "swizzle": "128B"}
    launch = {
        "buffers": {"x": {"type": "bf16", "shape": [16, 128]}},
        "launch": {"grid": 1, "block": 32, "arguments": [{"tensor_map": map_of}]},
    }
    assert emulate(ptx, launch)["clean"]
    map_of["box"] = [128, 8]  # wider than the swizzle
    assert "launch.json: launch.arguments[0].tensor_map: " in emulate(ptx, launch, code=2)
    for swizzle in ("128B_ATOM_32B", "128B_ATOM_64B"):  # Blackwell's
        map_of |= {"box": [64, 8], "swizzle": swizzle}
        said = emulate(ptx, launch, code=2)
        assert "launch.arguments[0].tensor_map: its swizzle needs PTX for sm_100 or later, not for sm_90" in said
        assert emulate(ptx.replace("sm_90a", "sm_100a"), launch)["clean"]


def test_a_tensor_map_is_loaded_through(emulate, tmp_path):
    x = numpy.arange(1 * 5 * 36, dtype="u4").reshape(1, 5, 36)
    numpy.save(tmp_path / "x.npy", x)
    box = numpy.zeros((4, 32), "u4")  # a row and 4 columns lie outside of the tensor
    box[:3, :28] = x[0, 2:5, 8:36]
    numpy.save(tmp_path / "box.npy", box)
    map_of = {"buffer": "x", "box": [32, 4, 1]}
    launch = {
        "buffers": {
            "x": {"content": {"file": "x.npy"}},
            "y": {"type": "u32", "shape": [4, 32], "compare": {"file": "box.npy"}},
        },
        "launch": {"grid": 1, "block": 128, "arguments": [{"tensor_map": map_of}, {"buffer": "y"}]},
    }
    assert emulate(LOAD_BOX, launch, "--schedules", "30")["clean"]
    trace = tmp_path / "trace.txt"
    emulate(LOAD_BOX, launch, "--trace", trace)
    events = [line for line in trace.read_text().splitlines() if "cp.async.bulk.tensor" in line]
    assert events[0].endswith(".mbarrier::complete_tx::bytes") and "lanes 00000001" in events[0]
    assert events[1].endswith(": works") and events[-1].endswith(": ends")
    map_of |= {"dims": [36, 4, 1], "strides": [144, 720]}  # the last row is outside, too
    (finding,) = emulate(LOAD_BOX, launch, code=1)["found"][0]["findings"]
    assert (finding["kind"], finding["index"], finding["is"], finding["wrong"]) == ("mismatch", "[2, 0]", "0", 28)
    box[2] = 0
    numpy.save(tmp_path / "box.npy", box)
    assert emulate(LOAD_BOX, launch)["clean"]


def test_ptx_that_is_wrong_and_files_that_are_not_there(run_fovea, emulate, tmp_path):
    ptx, launch = reverse("frobnicate.u32 %r1, %r2;")
    message = emulate(ptx, launch, code=2)
    assert "kernels.ptx: " in message and f"line {ptx.splitlines().index('  frobnicate.u32 %r1, %r2;') + 1}" in message
    assert "none.ptx" in run_fovea("emulate", tmp_path / "none.ptx", code=2).stderr
    assert "FILE" in run_fovea("emulate", code=2).stderr


def test_a_kernel_of_this_project(emulate, tmp_path, nvcc):
    """What the compiler makes of a whole kernel, which takes a struct: the norms of rows, as NumPy has them."""
    defines = ["-DFOVEA_ENTRY=row_norm", "-DFOVEA_INPUT_F32=0", "-DFOVEA_CHUNKS=3"]
    made = tmp_path / "row_norm.ptx"
    subprocess.run(
        [
            nvcc,
            "-ptx",
            "-lineinfo",
            "-arch=sm_90a",
            "-std=c++20",
            f"-I{ROOT}",
            *defines,
            ROOT / "kernels/norm/row_norm.cu",
            "-o",
            made,
        ],
        check=True,
    )
    rows, width = 37, 768
    rounded = numpy.random.default_rng(1).standard_normal((rows, width), dtype="f4").view("u4") >> 16
    numpy.save(tmp_path / "x.npy", rounded.astype("u2"))
    x = (rounded << 16).view("f4").astype("f8")
    scale = 1 / numpy.sqrt(x.var(axis=1) + 1e-6)
    numpy.save(tmp_path / "norms.npy", numpy.stack([scale, -x.mean(axis=1) * scale], axis=1).astype("f4"))
    fields = [
        {"at": 0, "buffer": "x"},
        {"at": 24, "buffer": "norms"},
        {"at": 40, "s64": rows},
        {"at": 48, "s32": width},
        {"at": 56, "f32": [1 / width, 1e-6]},
    ]
    launch = {
        "buffers": {
            "x": {"type": "bf16", "content": {"file": "x.npy"}},
            "norms": {
                "type": "f32",
                "shape": [rows, 2],
                "compare": {"file": "norms.npy", "absolute": 1e-6, "relative": 1e-5},
            },
        },
        "launch": {"grid": 3, "block": 128, "arguments": [{"struct": fields}]},
    }
    report = emulate(made.read_text(), launch, "--schedules", "5")
    assert report["clean"] and report["operations"] > 1000
    launch["buffers"]["norms"]["shape"] = [rows - 1, 2]  # and the last row's norms go beyond it
    del launch["buffers"]["norms"]["compare"]
    (found,) = emulate(made.read_text(), launch, code=1)["found"]
    (finding,) = found["findings"]
    assert finding["kind"] == "out of bounds" and "norm/row_norm.cu:" in finding["source"]
