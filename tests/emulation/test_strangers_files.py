"""`fovea emulate` on PTX and launch files that strangers wrote: what they may read, write and take."""

import os
import resource

import numpy
import pytest

HEAD = """
.version 9.0
.target sm_90a
.address_size 64
"""

# Thread i copies number i; `%s` comes before, and `%s` is what is added to where it stores.
COPY = (
    HEAD
    + """
.visible .entry copy(.param .u64 from, .param .u64 to)
{
  .reg .b32 %%r<4>;
  .reg .b64 %%rd<8>;
  .reg .pred %%p<2>;
  %s
  ld.param.u64 %%rd1, [from];
  ld.param.u64 %%rd2, [to];
  mov.u32 %%r1, %%tid.x;
  mul.wide.u32 %%rd3, %%r1, 4;
  add.s64 %%rd4, %%rd1, %%rd3;
  add.s64 %%rd5, %%rd2, %%rd3;
  ld.global.u32 %%r2, [%%rd4];
  st.global.u32 [%%rd5%s], %%r2;
  ret;
}
"""
)
PLAIN = COPY % ("", "")


def launch_of(x=None, y=None):
    return {
        "buffers": {"x": {"type": "u32", "shape": [8, 4]} | (x or {}), "y": {"type": "u32", "shape": [32]} | (y or {})},
        "launch": {"grid": 1, "block": 32, "arguments": [{"buffer": "x"}, {"buffer": "y"}]},
    }


ZEROS = {"content": "zeros"}


@pytest.fixture
def elsewhere(tmp_path_factory):
    """A folder with numbers of somebody else."""
    folder = tmp_path_factory.mktemp("elsewhere")
    numpy.save(folder / "secret.npy", numpy.arange(32, dtype=numpy.uint32).reshape(8, 4))
    return folder


@pytest.mark.parametrize("key", ["read", "write"])
def test_a_launch_file_names_files_below_its_folder_alone(emulate, elsewhere, tmp_path, key):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/link").symlink_to(elsewhere)
    (tmp_path / "in/linked.npy").symlink_to(elsewhere / "secret.npy")
    up = os.path.relpath(elsewhere, tmp_path)

    def launch(name):
        if key == "read":
            return launch_of({"content": {"file": name}})
        return launch_of(ZEROS, {"write": name})

    names = {
        f"{elsewhere}/secret.npy": "is not below the launch file's folder",
        f"{up}/secret.npy": "is not below the launch file's folder",
        "in/../../secret.npy": "is not below the launch file's folder",
        "in/link/secret.npy": "in/link",
        "in/absent/secret.npy": "there is no such folder",
        "in/": "is not the name of a file",
    }
    for name, told in names.items():
        message = emulate(PLAIN, launch(name), code=2)
        assert told in message and "internal error" not in message, (name, message)
    if key == "read":
        assert "is a link" in emulate(PLAIN, launch("in/linked.npy"), code=2)
    else:
        assert emulate(PLAIN, launch("in/y.npy"))["clean"]
        assert (numpy.load(tmp_path / "in/y.npy") == 0).all()
    assert sorted(path.name for path in elsewhere.iterdir()) == ["secret.npy"]
    assert numpy.load(elsewhere / "secret.npy")[7, 3] == 31


def test_a_launch_replaces_nothing_but_such_arrays(emulate, tmp_path):
    """What `write` names: told before a kernel runs."""
    photo = b"\xff\xd8\xff" + bytes(500)
    (tmp_path / "photo").write_bytes(photo)
    (tmp_path / "other.npy").write_text("notes")
    numpy.save(tmp_path / "x.npy", numpy.arange(32, dtype=numpy.uint32).reshape(8, 4))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.npy").symlink_to("photo")
    for name in ("photo", "other.npy"):
        message = emulate(PLAIN, launch_of(ZEROS, {"write": name}), code=2)
        assert f"buffers.y.write: {tmp_path / name}: exists and is not an array" in message
    assert "is an image, and outputs never replace images" in emulate(
        PLAIN, launch_of(ZEROS, {"write": "photo"}), "--overwrite", code=2
    )
    assert (tmp_path / "photo").read_bytes() == photo and (tmp_path / "other.npy").read_text() == "notes"
    for name in ("pipe", "link.npy"):
        for more in ((), ("--overwrite",)):
            assert f"{tmp_path / name}: is not a regular file" in emulate(
                PLAIN, launch_of(ZEROS, {"write": name}), *more, code=2
            )
    assert (tmp_path / "link.npy").is_symlink() and (tmp_path / "photo").read_bytes() == photo
    read = launch_of({"content": {"file": "x.npy"}}, {"write": "x.npy"})
    assert "x.npy: is an input of this command" in emulate(PLAIN, read, "--overwrite", code=2)
    for _ in range(2):  # its own it replaces
        assert emulate(PLAIN, launch_of(ZEROS, {"write": "y.npy"}))["clean"]
    assert emulate(PLAIN, launch_of(ZEROS, {"write": "other.npy"}), "--overwrite")["clean"]
    assert (numpy.load(tmp_path / "other.npy") == 0).all()


def test_any_path_lets_it_name_files_elsewhere(emulate, elsewhere):
    launch = launch_of({"content": {"file": str(elsewhere / "secret.npy")}}, {"write": str(elsewhere / "y.npy")})
    assert emulate(PLAIN, launch, "--any-path")["clean"]
    assert (numpy.load(elsewhere / "y.npy") == numpy.arange(32)).all()


def test_findings_name_the_buffer_and_the_element(emulate):
    def finding(ptx, launch):
        return emulate(ptx, launch, code=1)["found"][0]["findings"][0]

    assert finding(COPY % ("", "+64"), launch_of(ZEROS))["place"] == "0 bytes behind the end of y, which has 128 bytes"
    assert finding(COPY % ("", "+-4"), launch_of(ZEROS))["place"] == "4 bytes before the beginning of y"
    assert finding(COPY % ("", "+2"), launch_of(ZEROS))["place"] == "y[0]"
    unwritten = finding(PLAIN, launch_of())
    assert "uninitialised value" in unwritten["message"] and unwritten["place"] == "y[0]"


def test_an_input_that_nobody_has_filled_is_found(emulate):
    [finding] = emulate(PLAIN, launch_of(), code=1)["found"][0]["findings"]
    assert finding["kind"] == "uninitialised"
    assert emulate(PLAIN, launch_of(), "--unwritten-stores")["clean"]
    assert emulate(PLAIN, launch_of(ZEROS))["clean"]


# What grows while a kernel runs: groups that nobody waits for.
ENDLESS = COPY % ("AGAIN:\n  cp.async.commit_group;\n  bra AGAIN;", "")


def hold_to_little_more():
    """What takes more memory than a gigabyte and the program's own gets none, and says so in other words."""
    resource.setrlimit(resource.RLIMIT_DATA, (int(1.3 * 2**30),) * 2)


def test_what_a_stranger_sends_takes_no_more_than_a_gigabyte(emulate):
    """Each is refused in a sentence, before or while it takes its memory."""
    large = {"shape": [1 << 34]}
    cases = {
        "a buffer": (PLAIN, launch_of(ZEROS | large), "buffers.x"),
        "one without content": (PLAIN, launch_of(large), "buffers.x"),
        "registers": (COPY % (".reg .b64 %a<9000000>;" * 9, ""), launch_of(ZEROS), "MiB of memory"),
        "local memory": (
            COPY % (".local .b8 own[524288];", ""),
            launch_of(ZEROS) | {"launch": launch_of()["launch"] | {"grid": 64, "block": 1024}},
            "a run takes",
        ),
    }

    for name, (ptx, launch, told) in cases.items():
        message = emulate(ptx, launch, "--threads", "1", code=2, preexec_fn=hold_to_little_more)
        assert told in message and "--most-memory" in message and "internal error" not in message, (name, message)
    message = emulate(ENDLESS, launch_of(ZEROS), "--threads", "1", "--most-memory", "64M", code=2)
    assert "needs more than 64 MiB of memory; --most-memory raises the limit" in message
    small = launch_of(ZEROS | {"shape": [1 << 22]})
    small["launch"]["arguments"] = [{"buffer": "x"}, {"buffer": "y"}]
    assert "--most-memory allows more" in emulate(PLAIN, small, "--most-memory", "12M", code=2)
    assert emulate(PLAIN, small, "--most-memory", "128M")["clean"]
    # A variable of a module is counted once, 80 MB and as many to say which of them were written, and once more in a
    # run's copy.
    variable = PLAIN.replace(".visible", ".visible .global .align 4 .b8 large[80000000];\n.visible", 1)
    assert emulate(variable, launch_of(ZEROS), "--most-memory", "400M")["clean"]
    assert "--most-memory allows more" in emulate(variable, launch_of(ZEROS), "--most-memory", "240M", code=2)


def test_strides_of_a_tensor_map_do_not_wrap(emulate):
    launch = launch_of(ZEROS)
    launch["launch"]["arguments"][0] = {"tensor_map": {"buffer": "x", "dims": [1 << 32, 1 << 32, 4], "box": [4, 1, 1]}}
    message = emulate(PLAIN, launch, code=2)
    assert '"strides" is required' in message


# What a kernel does without end: it prints, calls itself, and takes memory on its stack.
FUNCTIONS = """
.extern .func (.param .b32 count) vprintf(.param .b64 format, .param .b64 values);
.global .align 1 .b8 text[3] = {37, 115, 0};
.func (.param .b32 result) deeper(.param .b32 n)
{
  .param .b32 a, b;
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [n];
  st.param.b32 [a], %r1;
  call (b), deeper, (a);
  ld.param.b32 %r2, [b];
  st.param.b32 [result], %r2;
  ret;
}
"""
PRINT = """
  .local .align 8 .b64 values[1];
  .reg .b64 %%v<3>;
AGAIN:
  { .param .b64 a, b; .param .b32 c;
    mov.u64 %%v1, text; mov.u64 %%v2, values; st.local.u64 [%%v2], %%v1; cvta.local.u64 %%v2, %%v2;
    st.param.b64 [a], %%v1; st.param.b64 [b], %%v2; call (c), vprintf, (a, b); }
  bra AGAIN;"""


def test_kernels_without_end_end(emulate):
    def found(body, *options):
        report = emulate((COPY % (body.replace("%%", "%"), "")).replace(HEAD, HEAD + FUNCTIONS), launch_of(ZEROS), "--threads", "1", *options, code=1)  # fmt: skip
        [finding] = report["found"][0]["findings"]
        return finding["kind"], report["printed"]

    kind, printed = found(PRINT, "--most-operations", "2000000")
    assert kind == "no progress"
    assert printed.startswith("%s%s") and len(printed) <= 2**20 + 100 and "more than 1 MiB is printed" in printed
    assert found("{ .param .b32 a, b; st.param.b32 [a], 1; call (b), deeper, (a); }")[0] == "out of bounds"
    kind, _ = found(".reg .b64 %%v<2>;\nAGAIN: mov.u64 %%v0, 4096; alloca.u64 %%v1, %%v0; bra AGAIN;")
    assert kind == "out of bounds"
