"""Faults between blocks: fences, scopes and flags, locks, and outputs that two blocks write."""

import numpy

from .table import X, fault, total

READY = "__device__ unsigned ready, count, sum;\n"
PAIR = {"grid": 2, "block": 32, "before": READY}
TOLD = [numpy.concatenate([X[:32] + 1, (X[:32] + 1) * 2])]
FLAG = """
if (blockIdx.x == 0) {
  y[i] = x[i] + 1; __syncthreads();
  if (i == 0) { %s }
} else {
  if (i == 0) { %s } __syncthreads();
  y[32 + i] = y[i] * 2;
}"""
SPIN = "while (atomicAdd(&ready, 0u) == 0) { } __threadfence();"
PTX = 'unsigned f; do { asm volatile("%s.global.u32 %%0, [%%1];" : "=r"(f) : "l"(&ready) : "memory"); } while (!f);'
TELL = 'asm volatile("%s.global.u32 [%%0], 1;" :: "l"(&ready) : "memory");'

fault("flag_without_a_fence", "race", FLAG % ("{MEND} atomicExch(&ready, 1u);", SPIN), "", "__threadfence();",
      TOLD[0], **PAIR)  # fmt: skip
fault("fence_of_the_block", "race", FLAG % ("{MEND}(); atomicExch(&ready, 1u);", SPIN),
      "__threadfence_block", "__threadfence", TOLD[0], **PAIR)  # fmt: skip
fault("flag_is_read_relaxed", "race", FLAG % (TELL % "st.release.gpu", PTX % "{MEND}"),
      "ld.relaxed.gpu", "ld.acquire.gpu", TOLD[0], **PAIR)  # fmt: skip
fault("flag_is_written_relaxed", "race", FLAG % (TELL % "{MEND}", PTX % "ld.acquire.gpu"),
      "st.relaxed.gpu", "st.release.gpu", TOLD[0], **PAIR)  # fmt: skip
fault("flag_is_released_to_the_block", "race", FLAG % (TELL % "{MEND}", PTX % "ld.acquire.gpu"),
      "st.release.cta", "st.release.gpu", TOLD[0], **PAIR)  # fmt: skip
fault("flag_before_the_others_have_written", "race", """
if (blockIdx.x == 0) {
  y[i] = x[i] + 1; {MEND}
  if (i == 0) { __threadfence(); atomicExch(&ready, 1u); }
} else {
  if (i == 0) { while (atomicAdd(&ready, 0u) == 0) { } __threadfence(); } __syncthreads();
  y[64 + i] = y[i] * 2;
}""", "", "__syncthreads();", numpy.concatenate([X[:64] + 1, (X[:64] + 1) * 2]), grid=2, block=64,
      before=READY)  # fmt: skip
fault("last_block_without_a_fence", "race", """
__shared__ bool last; if (i == 0) {
  z[blockIdx.x] = x[blockIdx.x]; {MEND} last = atomicAdd(&count, 1u) == gridDim.x - 1;
}
__syncthreads();
if (last && i == 0) { __threadfence(); unsigned all = 0; for (int k = 0; k < 4; ++k) all += z[k]; y[0] = all; }""",
      "", "__threadfence();", [total(X[:4]), X[:4]], grid=4, block=32, before=READY)  # fmt: skip
fault("sum_is_not_atomic", "race", "if (i == 0) {MEND};", "y[0] += x[blockIdx.x]", "atomicAdd(y, x[blockIdx.x])",
      total(X[:4]), grid=4, block=32)  # fmt: skip
fault("atomic_of_the_block", "race", "if (i == 0) {MEND}(y, x[blockIdx.x]);", "atomicAdd_block", "atomicAdd",
      total(X[:4]), grid=4, block=32)  # fmt: skip
fault("rows_of_two_blocks", "race", "y[blockIdx.x * {MEND} + i] = x[blockIdx.x * 32 + i];", "31", "32", X[:64], grid=2,
      block=32)  # fmt: skip
fault("lock_is_freed_without_a_fence", "race", """
if (i == 0) {
  while (atomicCAS(&ready, 0u, 1u) != 0) { } __threadfence();
  y[0] = y[0] + x[blockIdx.x]; {MEND} atomicExch(&ready, 0u);
}""", "", "__threadfence();", total(X[:4]), grid=4, block=32, before=READY)  # fmt: skip
fault("lock_is_taken_without_a_fence", "race", """
if (i == 0) {
  while (atomicCAS(&ready, 0u, 1u) != 0) { } {MEND}
  y[0] = y[0] + x[blockIdx.x]; __threadfence(); atomicExch(&ready, 0u);
}""", "", "__threadfence();", total(X[:4]), grid=4, block=32, before=READY)  # fmt: skip
fault("lookback_reads_a_value_of_a_relaxed_flag", "race", """
if (i == 0) {
  unsigned before = 0;
  if (blockIdx.x > 0) {
    unsigned f; do { asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(f) : "l"(z + blockIdx.x - 1) : "memory"); } while (!f);
    before = y[blockIdx.x - 1];
  }
  y[blockIdx.x] = before + x[blockIdx.x];
  asm volatile("{MEND}.gpu.u32 [%0], 1;" :: "l"(z + blockIdx.x) : "memory");
}""", "st.relaxed", "st.release", [numpy.cumsum(X[:4], dtype="u8") % 2**32, numpy.ones(4)], grid=4, block=32)  # fmt: skip
fault("phases_of_a_grid", "race", """
const int at = blockIdx.x * 32 + i; z[at] = x[at]; {MEND}; y[at] = z[127 - at];""",
      "__syncthreads()", "cooperative_groups::this_grid().sync()", [X[:128][::-1], X[:128]], grid=4, block=32,
      cooperative=True, headers=("cooperative_groups.h",))  # fmt: skip
fault("read_only_load_of_what_was_written", "race", """
y[i] = x[i]; __syncthreads(); const unsigned v = {MEND}; __syncthreads(); y[i] = v;""", "__ldg(y + 63 - i)", "y[63 - i]",
      X[:64][::-1])  # fmt: skip
