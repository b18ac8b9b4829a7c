"""Faults of copies beside the warps, mbarriers and rings: groups, phases, counts, and the asynchronous proxy."""

import numpy

from .table import X, fault, total

V = X[:64]
SUM = total(X[:256].reshape(4, 64)[:, ::-1], 0)
RING = """
__shared__ unsigned s[2][64]; unsigned sum = 0;
copy(&s[0][i], x + i); commit();
for (int k = 0; k < 4; ++k) {
  if (k < 3) copy(&s[(k + 1) %% 2][i], x + (k + 1) * 64 + i);
  commit(); %s __syncthreads(); sum += s[k %% 2][63 - i]; %s
}
y[i] = sum;"""

fault("stage_that_is_under_way", "race", RING % ("{MEND};", "__syncthreads();"), "await_copies<2>()", "await_copies<1>()",
      SUM)  # fmt: skip
fault("stage_is_filled_while_it_is_read", "race", RING % ("await_copies<1>();", "{MEND}"), "", "__syncthreads();",
      SUM)  # fmt: skip
fault("barrier_before_the_wait", "race", RING % ("{MEND}", "__syncthreads();"),
      "__syncthreads(); await_copies<1>(); if (k < 0)", "await_copies<1>();", SUM)  # fmt: skip
fault("copies_are_not_committed", "race", """
__shared__ unsigned s[64]; copy(&s[i], x + i); {MEND} await_copies<0>(); __syncthreads(); y[i] = s[63 - i];""",
      "", "commit();", V[::-1])  # fmt: skip
fault("copies_of_sixteen_bytes_to_odd_rows", "misaligned", r"""
__shared__ __align__(16) unsigned s[16 * 8]; const int stride = {MEND};
if (i < 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at(s + i * stride)), "l"(x + i * 4) : "memory");
asm volatile("cp.async.wait_all;" ::: "memory"); __syncthreads(); y[i] = s[i / 4 * stride + i % 4];""", "5", "8",
      V)  # fmt: skip
fault("copies_beyond_the_end", "out of bounds", r"""
__shared__ unsigned s[64]; const int n = 500, at_x = 448 + i, bytes = at_x < n ? 4 : 0;
asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(at(s + i)), "l"(x + at_x + 64 * {MEND}), "r"(bytes) : "memory");
asm volatile("cp.async.wait_all;" ::: "memory"); y[i] = s[i];""", "(i > 40)", "0", numpy.where(numpy.arange(64) < 52,
      X[448:], 0))  # fmt: skip
FILLED = """
__shared__ unsigned s[64]; __shared__ Barrier bar; if (i == 0) start(&bar, {0}); {1}
s[i] = x[i]; arrive(&bar); await(&bar, 0); y[i] = s[63 - i];"""
fault("mbarrier_is_used_before_it_is_there", "barrier misuse",
      FILLED.replace("{0}", "64").replace("{1}", "{MEND}"), "", "__syncthreads();", V[::-1])  # fmt: skip
fault("mbarrier_awaits_warps", "race", FILLED.replace("{0}", "{MEND}").replace("{1}", "__syncthreads();"), "32", "64",
      V[::-1])  # fmt: skip
fault("mbarrier_awaits_more", "no progress", FILLED.replace("{0}", "{MEND}").replace("{1}", "__syncthreads();"), "65", "64",
      V[::-1])  # fmt: skip
HANDED = """
__shared__ unsigned s[32]; __shared__ Barrier full, empty; unsigned sum = 0;
if (i == 0) { start(&full, 32); start(&empty, 32); } __syncthreads();
for (int k = 0; k < 4; ++k) {
  if (warp == 0) { %s s[lane] = x[k * 32 + lane]; arrive(&full); }
  else { await(&full, %s); %s }
}
if (warp == 1) y[lane] = sum;"""
HANDED_SUM = total(X[:128].reshape(4, 32)[:, ::-1], 0)
fault("phase_that_is_not_flipped", "race", HANDED % ("await(&empty, 1 - k % 2);", "{MEND}", "sum += s[31 - lane]; arrive(&empty);"),
      "0", "k % 2", HANDED_SUM)  # fmt: skip
fault("producer_begins_with_the_other_phase", "no progress",
      HANDED % ("await(&empty, {MEND});", "k % 2", "sum += s[31 - lane]; arrive(&empty);"), "k % 2", "1 - k % 2",
      HANDED_SUM)  # fmt: skip
fault("consumer_frees_before_it_reads", "race", HANDED % ("await(&empty, 1 - k % 2);", "k % 2", "{MEND}"),
      "arrive(&empty); sum += s[31 - lane];", "sum += s[31 - lane]; arrive(&empty);", HANDED_SUM)  # fmt: skip
fault("producer_does_not_wait", "race", HANDED % ("{MEND}", "k % 2", "sum += s[31 - lane]; arrive(&empty);"), "",
      "await(&empty, 1 - k % 2);", HANDED_SUM)  # fmt: skip

LOADED = """
__shared__ __align__(128) unsigned s[64]; __shared__ Barrier bar;
if (i == 0) { start(&bar, 1); fence_start(); } __syncthreads();
%s"""
ONE = "if (i == 0) { expect(&bar, 256); load(s, x, 256, &bar); }\n"
HOPPER = {"architecture": "sm_90a"}
fault("one_thread_waits_for_all", "race", LOADED % (ONE + "{MEND}\ny[i] = s[63 - i];"),
      "if (i == 0) await(&bar, 0); __syncwarp();", "await(&bar, 0);", V[::-1], **HOPPER)  # fmt: skip
fault("bytes_of_one_of_two_loads", "barrier misuse", LOADED % (
    "if (i == 0) { expect(&bar, {MEND}); load(s, x, 128, &bar); load(s + 32, x + 32, 128, &bar); }\n"
    "await(&bar, 0); y[i] = s[63 - i];"), "128", "256", V[::-1], **HOPPER)  # fmt: skip
fault("load_over_what_was_written", "no proxy fence", LOADED % (
    "s[i] = i; __syncthreads(); const unsigned v = s[i ^ 1]; {MEND} __syncthreads();\n" + ONE
    + "await(&bar, 0); y[i] = s[63 - i] + v;"), "", "fence_proxy();", V[::-1] + (numpy.arange(64) ^ 1), **HOPPER)  # fmt: skip
fault("load_over_what_is_read", "race", LOADED % (
    "s[i] = x[i]; fence_proxy(); __syncthreads(); const unsigned v = s[i ^ 1]; {MEND}\n"
    + ONE.replace("load(s, x,", "load(s, x + 64,") + "await(&bar, 0); y[i] = s[63 - i] + v;"), "", "__syncthreads();",
      X[64:128][::-1] + V[numpy.arange(64) ^ 1], **HOPPER)  # fmt: skip
fault("bytes_that_are_no_sixteen", "misaligned", LOADED % (
    "const int bytes = {MEND}; if (i == 0) { expect(&bar, bytes); load(s, x, bytes, &bar); }\n"
    "await(&bar, 0); y[i] = i < 60 ? s[i] : 0;"), "248", "240", numpy.where(numpy.arange(64) < 60, V, 0),
      **HOPPER)  # fmt: skip
STORED = "__shared__ __align__(128) unsigned s[64]; s[i] = x[i] + 1;\n"
fault("stores_are_awaited_by_another", "race", STORED + """
fence_proxy(); __syncthreads(); if (i == 0) store(y, s, 256);
{MEND}
__syncthreads(); s[i] = i; if (i == 0) await_stores();""", "if (i == 32) await_stores_read();",
      "if (i == 0) await_stores_read();", V + 1, **HOPPER)  # fmt: skip
fault("stores_are_read_back_too_early", "race", STORED + """
fence_proxy(); __syncthreads(); if (i == 0) { store(z, s, 256); {MEND}(); } __syncthreads();
y[i] = z[63 - i];""", "await_stores_read", "await_stores", [V[::-1] + 1, V + 1], **HOPPER)  # fmt: skip
fault("block_ends_before_its_store", "lifetime", STORED + """
fence_proxy(); __syncthreads(); if (i == 0) { store(y, s, 256); {MEND} }""", "", "await_stores_read();", V + 1,
      **HOPPER)  # fmt: skip
fault("fence_of_another_thread", "no proxy fence", STORED + """
{MEND} if (i == 0) { store(y, s, 256); await_stores_read(); }""",
      "if (i == 0) fence_proxy(); __syncthreads();", "fence_proxy(); __syncthreads();", V + 1, **HOPPER)  # fmt: skip
fault("sum_in_memory_is_not_fenced", "no proxy fence", STORED + r"""
{MEND} __syncthreads();
if (i == 0) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 256;\n\tcp.async.bulk.commit_group;"
               :: "l"(y), "r"(at(s)) : "memory");
  await_stores_read();
}""", "", "fence_proxy();", V + 1, **HOPPER)  # fmt: skip
BULK_RING = """
__shared__ __align__(128) unsigned s[2][64]; __shared__ Barrier full[2], empty[2]; unsigned sum = 0;
if (i == 0) { for (int k = 0; k < 2; ++k) { start(full + k, 1); start(empty + k, %s); } fence_start(); } __syncthreads();
if (warp == 2) {
  if (lane == 0) for (int k = 0; k < 6; ++k) {
    await(empty + k %% 2, 1 - k / 2 %% 2); expect(full + k %% 2, 256); load(s[k %% 2], x + k * 64, 256, full + k %% 2);
  }
} else {
  for (int k = 0; k < 6; ++k) { await(full + k %% 2, %s); sum += s[k %% 2][63 - i]; %s }
  y[i] = sum;
}"""
RING_SUM = total(X[:384].reshape(6, 64)[:, ::-1], 0)
LEADER = "__syncwarp(); if (lane == 0) arrive(empty + k % 2);"
RINGS = {"block": 96, **HOPPER}
fault("ring_counts_threads_where_leaders_arrive", "deadlock", BULK_RING % ("{MEND}", "k / 2 % 2", LEADER), "64", "2",
      RING_SUM, **RINGS)  # fmt: skip
fault("ring_is_freed_by_one_warp", "race", BULK_RING % ("{MEND}", "k / 2 % 2", LEADER), "1", "2", RING_SUM,
      **RINGS)  # fmt: skip
fault("ring_flips_with_each_stage", "deadlock", BULK_RING % ("2", "{MEND}", LEADER), "k % 2", "k / 2 % 2", RING_SUM,
      **RINGS)  # fmt: skip
fault("stage_is_freed_before_it_is_read", "race",
      (BULK_RING % ("2", "k / 2 % 2", "")).replace("sum += s[k % 2][63 - i];", "{MEND}"),
      LEADER + " sum += s[k % 2][63 - i];", "sum += s[k % 2][63 - i]; " + LEADER, RING_SUM, **RINGS)  # fmt: skip
fault("leader_frees_without_its_warp", "race", BULK_RING % ("2", "k / 2 % 2", "{MEND} if (lane == 0) arrive(empty + k % 2);"),
      "s[k % 2][63 - i] = sum;", "s[k % 2][63 - i] = sum; fence_proxy(); __syncwarp();", RING_SUM, **RINGS)  # fmt: skip
