"""Right kernels that look wrong: what a search for races must leave in peace."""

import numpy

from .table import X, innocent, total

V = X[:64]
HOPPER = {"architecture": "sm_90a"}
PAIR = {"grid": 2, "block": 32, "cluster": 2, **HOPPER}

innocent("relaxed_histogram", r"""
__shared__ unsigned bins[16]; if (i < 16) bins[i] = 0; __syncthreads();
for (int k = i; k < 512; k += 64) asm volatile("red.relaxed.cta.shared.add.u32 [%0], 1;" :: "r"(at(bins + x[k] % 16)) : "memory");
__syncthreads(); if (i < 16) atomicAdd(y + i, bins[i]);""", 2 * numpy.bincount(X % 16, minlength=16), grid=2)  # fmt: skip
innocent("warps_in_step_with_syncwarp", """
__shared__ unsigned s[64]; unsigned v = x[i]; s[i] = v; __syncwarp();
for (int k = 16; k > 0; k /= 2) { v += lane < k ? s[warp * 32 + lane + k] : 0; __syncwarp(); s[i] = v; __syncwarp(); }
if (lane == 0) y[warp] = v;""", total(V.reshape(2, 32), 1))  # fmt: skip
innocent("two_buffers_and_one_barrier", """
__shared__ unsigned s[2][64]; unsigned sum = 0;
for (int k = 0; k < 8; ++k) { s[k % 2][i] = x[k * 64 + i]; __syncthreads(); sum += s[k % 2][63 - i]; }
y[i] = sum;""", total(X.reshape(8, 64)[:, ::-1], 0))  # fmt: skip
innocent("last_block_with_threadfence", """
__shared__ bool last; z[blockIdx.x * 32 + i] = x[blockIdx.x * 32 + i]; __threadfence(); __syncthreads();
if (i == 0) last = atomicInc(&count, gridDim.x - 1) == gridDim.x - 1; __syncthreads();
if (last) { unsigned sum = 0; for (int k = 0; k < 4; ++k) sum += z[k * 32 + 31 - i]; y[i] = sum; }""",
         [total(X[:128].reshape(4, 32)[:, ::-1], 0), X[:128]], grid=4, block=32,
         before="__device__ unsigned count;\n")  # fmt: skip
innocent("flag_of_acquire_and_release", r"""
if (blockIdx.x == 1) {
  y[i] = x[i]; __syncthreads(); if (i == 0) asm volatile("st.release.gpu.u32 [%0], 1;" :: "l"(&ready) : "memory");
} else {
  unsigned f; do { asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(f) : "l"(&ready) : "memory"); } while (!f);
  y[i + 64] = y[63 - i];
}""", numpy.concatenate([V, V[::-1]]), grid=2, before="__device__ unsigned ready;\n")  # fmt: skip
innocent("relaxed_polls_and_one_fence", r"""
if (blockIdx.x == 0) {
  y[i] = x[i]; __threadfence(); __syncthreads(); if (i == 0) atomicAdd(&ready, 1u);
} else {
  if (i == 0) { unsigned f; do { asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(f) : "l"(&ready) : "memory"); } while (!f);
    __threadfence(); }
  __syncthreads(); y[i + 64] = y[63 - i];
}""", numpy.concatenate([V, V[::-1]]), grid=2, before="__device__ unsigned ready;\n")  # fmt: skip
innocent("ring_with_parity", """
__shared__ unsigned s[2][32]; __shared__ Barrier full[2], empty[2]; unsigned sum = 0;
if (i == 0) for (int k = 0; k < 2; ++k) { start(full + k, 32); start(empty + k, 32); }
__syncthreads();
for (int k = 0, at_k = 0, parity = 0; k < 7; ++k) {
  if (warp == 0) { await(empty + at_k, parity ^ 1); s[at_k][lane] = x[k * 32 + lane]; arrive(full + at_k); }
  else { await(full + at_k, parity); sum += s[at_k][31 - lane]; arrive(empty + at_k); }
  at_k ^= 1; parity ^= at_k == 0;
}
if (warp == 1) y[lane] = sum;""", total(X[:224].reshape(7, 32)[:, ::-1], 0))  # fmt: skip
innocent("stages_with_wait_group", """
__shared__ unsigned s[3][64]; unsigned sum = 0;
for (int k = 0; k < 2; ++k) { copy(&s[k][i], x + k * 64 + i); commit(); }
for (int k = 0; k < 8; ++k) {
  await_copies<1>(); __syncthreads();
  if (k + 2 < 8) copy(&s[(k + 2) % 3][i], x + (k + 2) * 64 + i);
  commit(); sum += s[k % 3][63 - i];
}
y[i] = sum;""", total(X.reshape(8, 64)[:, ::-1], 0))  # fmt: skip
innocent("own_copies_need_no_barrier", """
__shared__ unsigned s[64]; copy(s + i, x + i); commit(); await_copies<0>(); y[i] = s[i];""", V)  # fmt: skip
innocent("named_barriers_of_two_roles", """
__shared__ unsigned s[32]; unsigned sum = 0;
for (int k = 0; k < 5; ++k) {
  if (warp == 0) { if (k > 0) named_sync(2, 64); s[lane] = x[k * 32 + lane]; named_arrive(1, 64); }
  else { named_sync(1, 64); sum += s[31 - lane]; if (k < 4) named_arrive(2, 64); }
}
if (warp == 1) y[lane] = sum;""", total(X[:160].reshape(5, 32)[:, ::-1], 0))  # fmt: skip
innocent("barrier_in_a_branch_of_whole_warps", """
__shared__ unsigned s[64]; s[i] = x[i];
if (warp == 0) { __syncthreads(); y[i] = s[i + 32]; } else { __syncthreads(); y[i] = s[i - 32]; }""",
         V[numpy.arange(64) ^ 32])  # fmt: skip
innocent("warps_that_leave_early", """
if (warp == 1) { y[i] = 3; return; }
__shared__ unsigned s[32]; s[i] = x[i]; __syncthreads(); y[i] = s[31 - i];""",
         numpy.concatenate([V[:32][::-1], numpy.full(32, 3)]))  # fmt: skip
innocent("padding_is_read_and_masked", """
__shared__ unsigned s[64]; if (i < 50) s[i] = x[i]; __syncthreads(); unsigned v = s[63 - i]; y[i] = 63 - i < 50 ? v : 0;""",
         numpy.where(numpy.arange(64) < 50, V, 0)[::-1])  # fmt: skip
innocent("spin_lock_with_fences", """
if (i == 0) {
  while (atomicCAS(&lock, 0u, 1u) != 0) { } __threadfence();
  y[0] = y[0] + x[blockIdx.x]; __threadfence(); atomicExch(&lock, 0u);
}""", total(X[:6]), grid=6, block=32, before="__device__ unsigned lock;\n")  # fmt: skip
innocent("elected_lane_behind_syncwarp", """
__shared__ __align__(128) unsigned s[2][32]; s[warp][lane] = x[i]; fence_proxy(); __syncwarp();
if (elected()) { store(y + warp * 32, s[warp], 128); await_stores_read(); }""", V, **HOPPER)  # fmt: skip
innocent("cluster_exchange", """
__shared__ unsigned s[32]; const int own = blockIdx.x * 32 + i; s[i] = x[own]; cluster_arrive();
const unsigned v = x[own + 64]; cluster_wait(); y[own] = read_at(in_block(s + i, rank() ^ 1)) + v; cluster_sync();""",
         V[numpy.arange(64) ^ 32] + X[64:128], **PAIR)  # fmt: skip
innocent("store_from_two_buffers", """
__shared__ __align__(128) unsigned s[2][64];
for (int k = 0; k < 4; ++k) {
  if (i == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
  __syncthreads(); s[k % 2][i] = x[k * 64 + i] + 1; fence_proxy(); __syncthreads();
  if (i == 0) store(y + k * 64, s[k % 2], 256);
}
if (i == 0) await_stores_read();""", X[:256] + 1, **HOPPER)  # fmt: skip
innocent("bulk_ring_with_leaders", """
__shared__ __align__(128) unsigned s[2][64]; __shared__ Barrier full[2], empty[2]; unsigned sum = 0;
if (i == 0) { for (int k = 0; k < 2; ++k) { start(full + k, 1); start(empty + k, 2); } fence_start(); } __syncthreads();
if (warp == 2) {
  if (elected()) for (int k = 0; k < 8; ++k) {
    await(empty + k % 2, 1 - k / 2 % 2); expect(full + k % 2, 256); load(s[k % 2], x + k * 64, 256, full + k % 2);
  }
} else {
  for (int k = 0; k < 8; ++k) {
    await(full + k % 2, k / 2 % 2); sum += s[k % 2][63 - i]; __syncwarp(); if (lane == 0) arrive(empty + k % 2);
  }
  y[i] = sum;
}""", total(X.reshape(8, 64)[:, ::-1], 0), block=96, **HOPPER)  # fmt: skip
innocent("load_over_what_was_read_needs_no_fence", """
__shared__ __align__(128) unsigned s[64]; __shared__ Barrier bar; unsigned sum = 0;
if (i == 0) { start(&bar, 1); fence_start(); } __syncthreads();
for (int k = 0; k < 4; ++k) {
  if (i == 0) { expect(&bar, 256); load(s, x + k * 64, 256, &bar); }
  await(&bar, k % 2); sum += s[63 - i]; __syncthreads();
}
y[i] = sum;""", total(X[:256].reshape(4, 64)[:, ::-1], 0), **HOPPER)  # fmt: skip
innocent("tensor_memory_is_handed_over", """
__shared__ unsigned slot; if (warp == 0) { allocate(&slot); relinquish(); } __syncthreads(); const unsigned columns = slot;
const unsigned own = columns + (warp * 32 << 16);
put(own, x[i]); await_puts(); const unsigned v = get(own); await_gets(); y[i] = v;
fence_before(); __syncthreads(); fence_after();
if (warp == 1) deallocate(columns);""", V, architecture="sm_100a")  # fmt: skip
innocent("tensor_memory_of_four_warps_and_eight", """
__shared__ unsigned slot; if (warp == 0) allocate(&slot); __syncthreads(); const unsigned columns = slot;
const unsigned own = columns + (warp % 4 * 32 << 16);
if (warp < 4) { put(own, x[i]); await_puts(); fence_before(); }
__syncthreads();
if (warp >= 4) { fence_after(); const unsigned v = get(own); await_gets(); y[i - 128] = v; }
__syncthreads(); if (warp == 0) deallocate(columns);""", X[:128], architecture="sm_100a", block=256)  # fmt: skip
