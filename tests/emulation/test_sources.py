"""What `fovea emulate` takes for kernels: PTX of several kernels, CUDA sources, other files; what kernels print."""

import json
import subprocess

import numpy
import pytest

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
COPY = HEAD + ".entry copy(.param .u64 to, .param .f32 by) { ret; }\n"
SOURCE = r"""
#include <cassert>
#include <cstdio>
#ifndef FACTOR
#define FACTOR 2
#endif
__constant__ float offsets[2] = {1, 10};
__noinline__ __device__ float scale(float x) { return x * FACTOR; }
__global__ void work(const float* x, float* y, int n, int limit) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(i < limit);
  if (i < n) y[i] = scale(x[i]) + offsets[i & 1];
  if (i == 3) printf("%d %s %u\n", i, "three", (unsigned)x[i]);
}
"""


def launch_of(factor, limit=64):
    x = numpy.arange(8, dtype="f4")
    wanted = x * factor + numpy.where(numpy.arange(8) % 2, 10, 1)
    return {
        "buffers": {
            "x": {"type": "f32", "content": {"values": x.tolist()}, "shape": [8]},
            "y": {"type": "f32", "shape": [8], "compare": {"values": wanted.tolist()}},
        },
        "launch": {"grid": 1, "block": 8, "arguments": [{"buffer": "x"}, {"buffer": "y"}, {"s32": 8}, {"s32": limit}]},
    }


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(100), "is machine code (a cubin, or a program)"),
        (b"\x50\xed\x55\xba\x01\x00\x10\x00" + bytes(100), "is a fatbin"),
        (b"\xef\xbb\xbf" + COPY.encode(), "byte order mark"),
        (COPY.encode("utf-16"), "is UTF-16"),
        (b"", "is empty; expected PTX"),
        (b" \n\n", "is empty; expected PTX"),
        (b"#include <cstdio>\n__global__ void f() {}\n", "has a name that ends in .cu"),
        (b"PK\x03\x04" + bytes(30), "is an archive"),
        (b"hello", "unsupported directive"),
    ],
)
def test_other_files_are_named(run_fovea, tmp_path, content, told):
    path = tmp_path / "kernels.ptx"
    path.write_bytes(content)
    message = run_fovea("emulate", path, code=2).stderr
    assert told in message and str(path) in message


def test_a_kernel_is_refused_alone(run_fovea, emulate, tmp_path):
    ptx = COPY + ".entry other() { frobnicate.u32 %r1; ret; }\n"
    (tmp_path / "kernels.ptx").write_text(ptx)
    assert [kernel["name"] for kernel in json.loads(run_fovea("emulate", tmp_path / "kernels.ptx", "--json").stdout)["kernels"]] == [
        "copy",
        "other",
    ]  # fmt: skip
    launch = {"buffers": {"y": {"shape": [4]}}, "launch": {"kernel": "copy", "grid": 1, "block": 1}}
    launch["launch"]["arguments"] = [{"buffer": "y"}, {"f32": 1}]
    assert emulate(ptx, launch)["clean"]
    launch["launch"] |= {"kernel": "other", "arguments": []}
    assert "line 5: frobnicate.u32: unsupported instruction" in emulate(ptx, launch, code=2)


def test_a_launch_file_is_written_for_a_kernel(run_fovea, emulate, tmp_path):
    ptx = HEAD + (
        ".entry work(.param .u64 .ptr .global .align 4 x, .param .f32 by, .param .align 4 .b8 s[12],\n"
        "  .param .align 64 .b8 map[128], .param .u16 n) .reqntid 64, 2, 1 .reqnctapercluster 2, 1, 1 { ret; }\n"
    )
    (tmp_path / "kernels.ptx").write_text(ptx)
    launch = json.loads(run_fovea("emulate", tmp_path / "kernels.ptx", "--template").stdout)
    assert launch["launch"]["block"] == [64, 2, 1] and launch["launch"]["cluster"] == [2, 1, 1]
    assert [next(iter(argument)) for argument in launch["launch"]["arguments"]] == [
        "buffer", "f32", "bytes", "tensor_map", "u16",
    ]  # fmt: skip
    launch["buffers"]["buffer_3"]["shape"] = [4, 64]
    launch["launch"]["arguments"][3]["tensor_map"]["box"] = [64, 4]
    assert emulate(ptx, launch)["clean"]


def test_a_template_has_the_names_and_types_of_the_source(run_fovea, tmp_path):
    symbols = ("_Z4workIdEvPKT_PiP6__halfPf", "_Z4restv", "_Z4restPj", "_Z5batchPPKdPKPf")
    parameters = ("a", "b", "c", "d"), (), ("a",), ("a", "b")
    (tmp_path / "kernels.ptx").write_text(
        HEAD
        + "".join(
            f".entry {symbol}({', '.join(f'.param .u64 {name}' for name in names)}) {{ ret; }}\n"
            for symbol, names in zip(symbols, parameters, strict=True)
        )
    )

    def template(kernel):
        return json.loads(run_fovea("emulate", tmp_path / "kernels.ptx", "--template", "--kernel", kernel).stdout)

    work = template("work")
    assert work["launch"]["kernel"] == "work<double>"
    assert [buffer["type"] for buffer in work["buffers"].values()] == ["f64", "s32", "f16", "f32"]
    rest = template("_Z4restPj")  # another kernel has its name
    assert rest["launch"]["kernel"] == "rest(unsigned int*)"
    assert [buffer["type"] for buffer in rest["buffers"].values()] == ["u32"]
    batch = template("batch")["buffers"]  # arrays of pointers
    assert {name: buffer["type"] for name, buffer in batch.items()} == {
        "buffer_0": "u64", "buffer_0_0": "f64", "buffer_1": "u64", "buffer_1_0": "f32",
    }  # fmt: skip
    assert batch["buffer_1"]["content"] == {"addresses": [{"buffer": "buffer_1_0"}]}
    (tmp_path / "launch.json").write_text(json.dumps(template("batch")))
    run_fovea("emulate", tmp_path / "kernels.ptx", "--launch", tmp_path / "launch.json")


def test_a_source_that_is_not_there(run_fovea, tmp_path):
    message = run_fovea("emulate", tmp_path / "nope.cu", code=2).stderr
    assert "nope.cu: cannot open" in message and "fatal" not in message


def test_a_cuda_source_is_compiled(run_fovea, tmp_path, nvcc):
    (tmp_path / "work.cu").write_text(SOURCE)
    launch = tmp_path / "launch.json"
    launch.write_text(json.dumps(launch_of(2)))
    said = run_fovea("emulate", tmp_path / "work.cu", "--launch", launch).stdout
    assert said.splitlines()[0] == "3 three 3"
    launch.write_text(json.dumps(launch_of(3)))
    run_fovea("emulate", tmp_path / "work.cu", "--launch", launch, code=1)
    report = json.loads(
        run_fovea("emulate", tmp_path / "work.cu", "--launch", launch, "--nvcc-flag=-DFACTOR=3", "--json").stdout
    )
    assert report["clean"] and report["printed"] == "3 three 3\n"
    assert "template" not in run_fovea("emulate", tmp_path / "work.cu").stdout
    # An assertion names its place, and a source with an error is the compiler's to refuse.
    launch.write_text(json.dumps(launch_of(2, limit=5)))
    found = run_fovea("emulate", tmp_path / "work.cu", "--launch", launch, code=1).stdout
    assert "assertion" in found and "work.cu:11: " in found and "`i < limit`" in found
    (tmp_path / "work.cu").write_text("__global__ void f() { nonsense; }")
    message = run_fovea("emulate", tmp_path / "work.cu", code=2).stderr
    assert "nonsense" in message and "internal error" not in message
    assert len(message.splitlines()) > 2 and "\\x0a" not in message
    assert "has no effect without a .cu" in run_fovea(
        "emulate", tmp_path / "x.ptx", "--nvcc-flag=-G", code=2
    ).stderr  # fmt: skip


@pytest.mark.parametrize("flags", [[], ["-G"], ["-Xcicc", "-O0"]], ids=["plain", "debug", "O0"])
def test_calls_of_unoptimised_code(emulate, tmp_path, nvcc, flags):
    (tmp_path / "work.cu").write_text(SOURCE)
    made = tmp_path / "work.ptx"
    subprocess.run([nvcc, "-ptx", "-arch=sm_90a", *flags, "-o", made, tmp_path / "work.cu"], check=True)
    assert emulate(made.read_text(), launch_of(2))["clean"]


def test_control_characters_of_kernels_stay_off_the_terminal(run_fovea, tmp_path):
    text = ", ".join(str(byte) for byte in b"a\x1b[31mb\tc\nd\0")
    ptx = (
        HEAD
        + f"""
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.global .align 1 .b8 text[12] = {{{text}}};
.entry work() {{
  .reg .b64 %rd<3>;
  mov.u64 %rd1, text;
  mov.u64 %rd2, 0;
  {{ .param .b64 a, b; .param .b32 c; st.param.b64 [a], %rd1; st.param.b64 [b], %rd2; call (c), vprintf, (a, b); }}
  ret;
}}
"""
    )
    (tmp_path / "k.ptx").write_text(ptx)
    (tmp_path / "l.json").write_text(json.dumps({"buffers": {}, "launch": {"grid": 1, "block": 1, "arguments": []}}))
    said = run_fovea("emulate", tmp_path / "k.ptx", "--launch", tmp_path / "l.json").stdout
    assert "\x1b" not in said and said.splitlines()[1] == "d"
