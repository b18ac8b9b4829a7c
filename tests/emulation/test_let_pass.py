"""`fovea emulate`: what it lets pass if asked."""

import json

import pytest

HEAD = """
.version 9.0
.target sm_90a
.address_size 64
"""

# A lane writes 32 bytes of a box of 8 rows of 128, at `%s` of shared memory; lane 0 stores the box.
STORE_BOX = (
    HEAD
    + """
.visible .entry store(.param .align 64 .b8 map[128])
{
  .reg .pred %%p<2>;
  .reg .b32 %%r<8>;
  .reg .b64 %%rd<4>;
  .shared .align 1024 .b8 tile[2048];
  mov.b64 %%rd1, map;
  cvta.param.u64 %%rd2, %%rd1;
  mov.u32 %%r1, %%tid.x;
  mov.u32 %%r2, tile;
  add.s32 %%r2, %%r2, %s;
  shl.b32 %%r3, %%r1, 5;
  add.s32 %%r4, %%r2, %%r3;
  st.shared.v4.u32 [%%r4], {%%r1, %%r1, %%r1, %%r1};
  st.shared.v4.u32 [%%r4+16], {%%r1, %%r1, %%r1, %%r1};
  fence.proxy.async.shared::cta;
  bar.sync 0;
  setp.ne.s32 %%p1, %%r1, 0;
  @%%p1 bra DONE;
  mov.u32 %%r5, 0;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%%rd2, {%%r5, %%r5}], [%%r2];
  cp.async.bulk.commit_group;
  %s
DONE:
  ret;
}
"""
)


@pytest.mark.parametrize(
    ("place", "wait", "option", "kind"),
    [
        (128, "cp.async.bulk.wait_group.read 0;", "--any-swizzle-start", "misaligned"),
        (0, "", "--late-stores", "lifetime"),
    ],
)
def test_what_hardware_does_not_mind_can_be_let_pass(emulate, place, wait, option, kind):
    launch = {
        "buffers": {"x": {"type": "bf16", "shape": [8, 64]}},
        "launch": {
            "grid": 1,
            "block": 32,
            "arguments": [{"tensor_map": {"buffer": "x", "box": [64, 8], "swizzle": "128B"}}],
        },
    }
    right = STORE_BOX % (0, "cp.async.bulk.wait_group.read 0;")
    assert emulate(right, launch, "--schedules", "20")["clean"]
    wrong = STORE_BOX % (place, wait)
    report = emulate(wrong, launch, "--schedules", "20", "--all", code=1)
    assert {finding["kind"] for found in report["found"] for finding in found["findings"]} == {kind}
    assert len(report["found"]) == 20
    assert emulate(wrong, launch, "--schedules", "20", option)["clean"]


# A warp stores in tensor memory what another one loads.
HAND_OVER = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry hand_over()
{
  .reg .pred %%p<3>;
  .reg .b32 %%r<4>;
  .shared .align 4 .b8 slot[4];
  mov.u32 %%r1, %%tid.x;
  setp.lt.u32 %%p1, %%r1, 32;
  setp.lt.u32 %%p2, %%r1, 128;
  @!%%p1 bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
ALLOCATED:
  bar.sync 0;
  ld.shared.u32 %%r2, [slot];
  @!%%p1 bra STORED;
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%%r2], {%%r1};
  tcgen05.wait::st.sync.aligned;
STORED:
  %s
  bar.sync 0;
  %s
  @%%p2 bra LOADED;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%%r3}, [%%r2];
  tcgen05.wait::ld.sync.aligned;
LOADED:
  bar.sync 0;
  @!%%p1 bra DONE;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %%r2, 32;
DONE:
  ret;
}
"""


def test_fences_of_tensor_memory_can_be_let_pass(emulate):
    launch = {"launch": {"grid": 1, "block": 160, "arguments": []}}
    right = HAND_OVER % ("tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;")
    assert emulate(right, launch, "--schedules", "20")["clean"]
    wrong = HAND_OVER % ("", "")
    report = emulate(wrong, launch, "--schedules", "20", "--all", code=1)
    assert {finding["kind"] for found in report["found"] for finding in found["findings"]} == {"no tensor fence"}
    assert len(report["found"]) == 20
    assert emulate(wrong, launch, "--schedules", "20", "--no-tensor-fences")["clean"]


# A warp loads from tensor memory, and uses the registers before it waits, or behind that.
EARLY_USE = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry early_use(.param .u64 y)
{
  .reg .b32 %%r<6>;
  .reg .b64 %%rd<4>;
  .shared .align 4 .b8 slot[4];
  ld.param.u64 %%rd1, [y];
  mov.u32 %%r1, %%tid.x;
  mul.wide.u32 %%rd2, %%r1, 8;
  add.u64 %%rd3, %%rd1, %%rd2;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
  bar.sync 0;
  ld.shared.u32 %%r2, [slot];
  add.u32 %%r3, %%r1, 100;
  tcgen05.st.sync.aligned.32x32b.x2.b32 [%%r2], {%%r1, %%r3};
  tcgen05.wait::st.sync.aligned;
  tcgen05.ld.sync.aligned.32x32b.x2.b32 {%%r4, %%r5}, [%%r2];
  %s
  tcgen05.wait::ld.sync.aligned;
  %s
  st.global.v2.u32 [%%rd3], {%%r4, %%r5};
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %%r2, 32;
  ret;
}
"""


def test_registers_of_tensor_loads_before_the_wait_can_be_let_pass(emulate):
    change = "add.u32 %r4, %r4, 1; mov.b32 %r5, %r4;"
    launch = {
        "buffers": {
            "y": {
                "type": "u32",
                "shape": [32, 2],
                "compare": {"values": [lane + 1 for lane in range(32) for _ in range(2)]},
            }
        },
        "launch": {"grid": 1, "block": 32, "arguments": [{"buffer": "y"}]},
    }
    assert emulate(EARLY_USE % ("", change), launch, "--schedules", "20")["clean"]
    wrong = EARLY_USE % (change, "")
    report = emulate(wrong, launch, "--schedules", "20", "--all", code=1)
    assert len(report["found"]) == 20
    assert all(found["findings"][0]["kind"] == "uninitialised" for found in report["found"])
    assert emulate(wrong, launch, "--schedules", "20", "--no-tensor-waits")["clean"]


# A warp copies the same bytes again and again, and two wait for each copy: at a barrier, too, or alone.
COPY_AGAIN = (
    HEAD
    + """
.visible .entry copy_again(.param .u64 x)
{
  .reg .pred %%p<4>;
  .reg .b32 %%r<4>;
  .reg .b64 %%rd<2>;
  .shared .align 16 .b8 copy[64];
  .shared .align 8 .b8 full[8];
  ld.param.u64 %%rd1, [x];
  mov.u32 %%r1, %%tid.x;
  mov.u32 %%r2, 0;
  setp.ne.u32 %%p1, %%r1, 0;
  @%%p1 bra BEGUN;
  mbarrier.init.shared::cta.b64 [full], 1;
  fence.mbarrier_init.release.cluster;
BEGUN:
  bar.sync 0;
LAP:
  @%%p1 bra COPIED;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 64;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [copy], [%%rd1], 64, [full];
COPIED:
  and.b32 %%r3, %%r2, 1;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %%p2, [full], %%r3;
  @!%%p2 bra WAIT;
  %s
  add.u32 %%r2, %%r2, 1;
  setp.lt.u32 %%p3, %%r2, 20;
  @%%p3 bra LAP;
  ret;
}
"""
)


def test_warps_can_be_prompt(emulate):
    launch = {
        "buffers": {"x": {"type": "u32", "shape": [16], "content": "ones"}},
        "launch": {"grid": 1, "block": 64, "arguments": [{"buffer": "x"}]},
    }
    assert emulate(COPY_AGAIN % "bar.sync 0;", launch, "--schedules", "40")["clean"]
    report = emulate(COPY_AGAIN % "", launch, "--schedules", "40", "--all", code=1)
    assert {finding["kind"] for found in report["found"] for finding in found["findings"]} == {"deadlock"}
    assert emulate(COPY_AGAIN % "", launch, "--schedules", "40", "--prompt-warps")["clean"]


# A thread of a pair tells both blocks of a stage and then of all: who waits for both, or for the second alone?
COMMIT_TWICE = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry commit_twice()
{
  .reg .pred %%p<4>;
  .reg .b16 %%rs<2>;
  .reg .b32 %%r<6>;
  .shared .align 8 .b8 stage[8];
  .shared .align 8 .b8 full[8];
  mov.u32 %%r1, %%tid.x;
  setp.ne.u32 %%p1, %%r1, 0;
  @%%p1 bra BEGUN;
  mbarrier.init.shared::cta.b64 [stage], 1;
  mbarrier.init.shared::cta.b64 [full], 1;
  fence.mbarrier_init.release.cluster;
BEGUN:
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  mov.u32 %%r2, %%cluster_ctarank;
  or.b32 %%r3, %%r1, %%r2;
  setp.ne.u32 %%p2, %%r3, 0;
  @%%p2 bra COMMITTED;
  mov.u32 %%r4, stage;
  mov.u32 %%r5, full;
  mov.u16 %%rs1, 3;
  tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%%r4], %%rs1;
  tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%%r5], %%rs1;
COMMITTED:
  mbarrier.try_wait.parity.shared::cta.b64 %%p3, [full], 0;
  @!%%p3 bra COMMITTED;
  %s
  ret;
}
"""


def test_commits_can_be_prompt(emulate):
    launch = {"launch": {"grid": 2, "cluster": 2, "block": 32, "arguments": []}}
    right = COMMIT_TWICE % "STAGE: mbarrier.try_wait.parity.shared::cta.b64 %p3, [stage], 0; @!%p3 bra STAGE;"
    assert emulate(right, launch, "--schedules", "20")["clean"]
    wrong = COMMIT_TWICE % ""
    report = emulate(wrong, launch, "--schedules", "20", "--all", code=1)
    assert {finding["kind"] for found in report["found"] for finding in found["findings"]} == {"lifetime"}
    assert len(report["found"]) == 20
    assert emulate(wrong, launch, "--schedules", "100", "--prompt-commits")["clean"]


# Thread i writes word i and, without a barrier, reads word 127 - i.
RACE = (
    HEAD
    + """
.visible .entry race(.param .u64 to)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .shared .align 4 .b8 words[512];
  ld.param.u64 %rd1, [to];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, words;
  add.s32 %r4, %r3, %r2;
  st.shared.u32 [%r4], %r1;
  sub.s32 %r5, 508, %r2;
  add.s32 %r6, %r3, %r5;
  ld.shared.u32 %r7, [%r6];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  ret;
}
"""
)
RACE_LAUNCH = {
    "buffers": {"x": {"type": "u32", "shape": [128], "compare": {"iota": {"start": 0, "step": 5}}}},
    "launch": {"grid": 1, "block": 128, "arguments": [{"buffer": "x"}]},
}


def kinds(report):
    return {finding["kind"] for found in report["found"] for finding in found["findings"]}


def test_a_run_goes_on_behind_a_race_and_its_results_are_judged(emulate):
    report = emulate(RACE, RACE_LAUNCH, code=1)
    assert kinds(report) == {"race", "mismatch"}
    (found,) = report["found"]
    assert found["ended"] and found["ignored"] == 0
    assert sum(finding.get("count", 0) for finding in found["findings"]) > 1
    report = emulate(RACE, RACE_LAUNCH, "--most-findings", "1", code=1)
    assert kinds(report) == {"race"} and not report["found"][0]["ended"]


def test_findings_are_left_out_by_kind_and_line(emulate):
    launch = {**RACE_LAUNCH, "buffers": {"x": {"type": "u32", "shape": [128]}}}
    line = 1 + RACE[: RACE.index("ld.shared")].count("\n")
    for option in ("race", f"race@{line}"):
        assert emulate(RACE, launch, "--ignore", option)["clean"]
    assert emulate(RACE, launch, "--no-races")["clean"]
    for option in (f"race@{line + 1}", "lifetime"):
        assert kinds(emulate(RACE, launch, "--ignore", option, code=1)) == {"race"}
    assert emulate(RACE, launch, "--ignore", "lifetime", "--ignore", "race")["clean"]


def test_what_leaves_out_nothing_is_told(run_fovea, tmp_path):
    (tmp_path / "race.ptx").write_text(RACE)
    (tmp_path / "launch.json").write_text(json.dumps(RACE_LAUNCH))
    options = [word for each in ("race", "race@1", "lifetime") for word in ("--ignore", each)]
    command = ("emulate", "race.ptx", "--launch", "launch.json", *options)
    done = run_fovea(*command, "--json=report.json", code=1, cwd=tmp_path)
    assert done.stderr.splitlines() == [f"fovea: --ignore {each} left out nothing" for each in ("race@1", "lifetime")]
    counts = json.loads((tmp_path / "report.json").read_text())["ignored"]
    assert counts[0] > 0 and counts[1:] == [0, 0]
    # Where schedules are left, they might have left out something.
    done = run_fovea(*command, "--schedules", "1000", code=1, cwd=tmp_path)
    assert "left out nothing" not in done.stderr
    done = run_fovea(*command, "--schedules", "5", "--all", code=1, cwd=tmp_path)
    assert "--ignore lifetime left out nothing" in done.stderr


def test_races_are_listed_before_what_follows_from_them(emulate):
    # Each thread stores what it has never computed, and then races: the store comes first in time.
    ptx = RACE.replace("  st.shared.u32", "  st.global.u32 [%rd1], %r7;\n  st.shared.u32", 1)
    launch = {**RACE_LAUNCH, "buffers": {"x": {"type": "u32", "shape": [128]}}}
    report = emulate(ptx, launch, code=1)
    listed = [finding["kind"] for finding in report["found"][0]["findings"]]
    assert set(listed) == {"race", "uninitialised"}
    assert listed == sorted(listed)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("deadlock@3", "cannot go on"),
        ("speed", "no-proxy-fence"),
        ("race@", "line"),
        ("race@0", "line"),
        ("race@x.cu", "line"),
    ],
)
def test_what_cannot_be_left_out_is_an_error(emulate, option, message):
    assert message in emulate(RACE, RACE_LAUNCH, "--ignore", option, code=2)


def test_all_that_hardware_runs_can_be_let_pass(emulate):
    assert emulate(HAND_OVER % ("", ""), {"launch": {"grid": 1, "block": 160, "arguments": []}}, "--as-hardware")[
        "clean"
    ]
    assert kinds(emulate(RACE, RACE_LAUNCH, "--as-hardware", code=1)) == {"race", "mismatch"}
