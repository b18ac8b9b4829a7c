"""`fovea emulate --same-stores`: stores of the same value that nothing orders are let pass, and nothing else is."""

import pytest

KERNEL = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 memory)
{
  .reg .pred %%p<4>;
  .reg .b16 %%rs<4>;
  .reg .b32 %%r<8>;
  .reg .b64 %%rd<4>;
  .shared .align 16 .b32 x[4];
  ld.param.u64 %%rd1, [memory];
  mov.u32 %%r1, %%tid.x;
  mul.wide.u32 %%rd2, %%r1, 4;
  add.s64 %%rd3, %%rd1, %%rd2;
  mov.u32 %%r2, 7;
  shr.u32 %%r6, %%r1, 5;
%s
  ret;
}
"""
USE = "bar.sync 0; ld.shared.u32 %r3, [x]; st.global.u32 [%rd3], %r3;"
AGAIN = """
  mov.u32 %r4, 0;
AGAIN:
  st.shared.u32 [x], %r2;
  st.shared.u32 [x+4], %r2;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p1, %r4, 4;
  @%p1 bra AGAIN;
"""
# Lanes 0 and 1 store one after the other.
LANES = """
  setp.eq.u32 %p1, %r1, 0;
  setp.eq.u32 %p2, %r1, 1;
  @%p1 st.shared.u32 [x], %r2;
  @%p2 st.shared.u32 [x], """
# Warps 0 and 1 store 7, and warp 2 comes after warp 1 alone.
AFTER_ONE = """
  setp.eq.u32 %p1, %r6, 2;
  @%p1 bra SECOND;
  st.shared.u32 [x], %r2;
  setp.eq.u32 %p2, %r6, 0;
  @%p2 bra DONE;
SECOND:
  bar.sync 1, 64;
  mov.u32 %r5, 9;
"""


@pytest.fixture
def races(emulate):
    """races(body, *options): in how many of ten schedules of the body there are findings, all of which are races."""

    def run(body, *options, threads=64, blocks=1):
        launch = {
            "buffers": {"memory": {"type": "u32", "shape": [256], "content": "zeros"}},
            "launch": {"grid": blocks, "block": threads, "arguments": [{"buffer": "memory"}]},
        }
        command = (KERNEL % body, launch, "--schedules", "10", "--all", *options)
        clean = emulate(*command, "--ignore", "race")
        assert clean["clean"]
        found = sum(clean["ignored"])
        return len(emulate(*command, code=1)["found"]) if found else 0

    return run


@pytest.mark.parametrize(
    ("body", "threads", "blocks"),
    [
        ("st.shared.u32 [x], %r2;" + USE, 64, 1),
        ("st.shared.v4.u32 [x], {%r2, 8, 9, %r2};" + USE, 64, 1),
        ("mov.u16 %rs1, 7; st.shared.u8 [x+1], %rs1;", 64, 1),
        (AGAIN + USE, 128, 1),
        (LANES + "%r2;" + USE, 32, 1),
        ("st.global.u32 [%rd1], %r2;", 64, 3),
    ],
)
def test_the_same_value_may_be_stored(races, body, threads, blocks):
    assert races(body, threads=threads, blocks=blocks) == 10
    assert races(body, "--same-stores", threads=threads, blocks=blocks) == 0
    assert races(body, "--as-hardware", threads=threads, blocks=blocks) == 0


@pytest.mark.parametrize(
    ("body", "threads", "blocks"),
    [
        ("st.shared.u32 [x], %r6;" + USE, 64, 1),  # other values
        ("mov.u32 %r4, %ctaid.x; st.global.u32 [%rd1], %r4;", 32, 2),
        (LANES + "%r1;" + USE, 32, 1),
        ("st.shared.u32 [x], %r2; ld.shared.u32 %r3, [x];", 64, 1),  # reads between the stores
        ("st.global.u32 [%rd1], %r2; ld.global.u32 %r3, [%rd1];", 32, 2),
        (LANES + "%r2; ld.shared.u32 %r3, [x];", 32, 1),
        (AFTER_ONE + "@%p1 st.shared.u32 [x], %r5; DONE:", 96, 1),  # order with one of the stores alone
        (AFTER_ONE + "@%p1 ld.shared.u32 %r5, [x]; DONE:", 96, 1),
        # A store and an atomic operation.
        ("setp.eq.u32 %p1, %r6, 0; @%p1 st.shared.u32 [x], %r2; @!%p1 atom.shared.exch.b32 %r3, [x], %r2;", 64, 1),
    ],
)
def test_all_else_races(races, body, threads, blocks):
    assert races(body, "--same-stores", threads=threads, blocks=blocks) == 10
