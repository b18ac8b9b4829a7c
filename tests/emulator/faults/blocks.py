"""Faults within a block: barriers that are missing or met by some, buffers that are used again, sizes and strides."""

import numpy

from .table import X, fault, total

V = X[:64]

fault("tree_reduction", "race", """
__shared__ unsigned s[64]; s[i] = x[i]; __syncthreads();
for (int k = 32; k > 0; k /= 2) { if (i < k) s[i] += s[i + k]; {MEND} }
if (i == 0) y[0] = s[0];""", "", "__syncthreads();", total(V))  # fmt: skip
fault("mean_is_broadcast", "race", """
__shared__ unsigned mean; unsigned sum = __reduce_add_sync(~0u, x[lane]);
if (i == 0) mean = sum / 32;
{MEND}
y[i] = x[i] - mean;""", "__syncwarp();", "__syncthreads();", V - total(X[:32]) // 32)  # fmt: skip
fault("transposed_tile", "race", """
__shared__ unsigned s[8][9]; s[i / 8][i % 8] = x[i]; {MEND} y[i] = s[i % 8][i / 8];""",
      "", "__syncthreads();", V.reshape(8, 8).T.ravel())  # fmt: skip
fault("tile_is_filled_again", "race", """
__shared__ unsigned s[64]; unsigned sum = 0;
for (int k = 0; k < 4; ++k) { s[i] = x[k * 64 + i]; __syncthreads(); sum += s[63 - i]; {MEND} }
y[i] = sum;""", "", "__syncthreads();", total(X[:256].reshape(4, 64)[:, ::-1], 0))  # fmt: skip
fault("scan_in_one_buffer", "race", """
__shared__ unsigned s[64]; s[i] = x[i]; __syncthreads();
for (int k = 1; k < 64; k *= 2) { unsigned v = i >= k ? s[i - k] : 0; {MEND} s[i] += v; __syncthreads(); }
y[i] = s[i];""", "", "__syncthreads();", numpy.cumsum(V, dtype="u8") % 2**32)  # fmt: skip
fault("barrier_for_some", "divergent", """
__shared__ unsigned s[64]; s[i] = 0; __syncthreads();
{MEND}
y[i] = s[63 - i];""", "if (i % 2) { s[i] = x[i]; __syncthreads(); }", "if (i % 2) s[i] = x[i]; __syncthreads();",
      numpy.where(numpy.arange(64) % 2 == 0, V[::-1], 0))  # fmt: skip
fault("histogram_is_not_zeroed", "uninitialised", """
__shared__ unsigned bins[128];
{MEND} bins[k] = 0;
__syncthreads(); atomicAdd(&bins[x[i] % 128], 1u); __syncthreads();
y[i] = bins[i]; y[i + 64] = bins[i + 64];""", "int k = i;", "for (int k = i; k < 128; k += 64)",
      numpy.bincount(V % 128, minlength=128))  # fmt: skip
fault("histogram_is_zeroed_late", "race", """
__shared__ unsigned bins[64]; bins[i] = 0; {MEND}
atomicAdd(&bins[x[i] % 64], 1u); __syncthreads(); y[i] = bins[i];""",
      "", "__syncthreads();", numpy.bincount(V % 64, minlength=64))  # fmt: skip
fault("histogram_is_flushed_early", "race", """
__shared__ unsigned bins[64]; bins[i] = 0; __syncthreads();
atomicAdd(&bins[x[i] % 64], 1u); {MEND} y[i] = bins[i];""",
      "", "__syncthreads();", numpy.bincount(V % 64, minlength=64))  # fmt: skip
fault("counter_is_not_atomic", "race", """
__shared__ unsigned count; if (i == 0) count = 0; __syncthreads();
if (x[i] & 4) {MEND};
__syncthreads(); if (i == 0) y[0] = count;""", "count = count + 1", "atomicAdd(&count, 1u)",
      numpy.array([(V & 4).astype(bool).sum()]))  # fmt: skip
fault("tail_is_not_guarded", "out of bounds", """
const int n = 60; {MEND} y[i] = x[i] + n;""", "", "if (i < n)", V[:60] + 60)  # fmt: skip
fault("vectors_of_odd_rows", "misaligned", """
const uint2 v = *(const uint2*)(x + {MEND} * i); y[i] = v.x + v.y;""", "3", "2",
      X[0:128:2] + X[1:128:2])  # fmt: skip
fault("bytes_for_elements", "out of bounds", """
extern __shared__ unsigned s[]; unsigned* t = s + {MEND}; s[i] = x[i]; t[i] = x[i + 64]; __syncthreads();
y[i] = s[63 - i] + t[63 - i];""", "64 * sizeof(unsigned)", "64", (V + X[64:128])[::-1], shared_bytes=512)  # fmt: skip
fault("strides_that_differ", "uninitialised", """
__shared__ unsigned s[8 * 9]; s[i / 8 * 9 + i % 8] = x[i]; __syncthreads();
y[i] = s[i % 8 * {MEND} + i / 8];""", "8", "9", V.reshape(8, 8).T.ravel())  # fmt: skip
fault("one_named_barrier_for_two_groups", "race", """
__shared__ unsigned s[128]; const int group = i / 64, j = i % 64;
if (group == 1) for (int k = 0; k < 2; ++k) named_sync({MEND}, 64);
s[i] = x[i]; named_sync(1 + group, 64); y[i] = s[group * 64 + 63 - j];""",
      "1", "2", X[:128].reshape(2, 64)[:, ::-1].ravel(), block=128)  # fmt: skip
fault("consumers_leave_before_the_buffer_is_free", "race", """
__shared__ unsigned s[32]; unsigned sum = 0;
for (int k = 0; k < 3; ++k) {
  if (warp == 0) { if (k > 0) { {MEND} } s[lane] = x[k * 32 + lane]; named_arrive(1, 64); }
  else { named_sync(1, 64); sum += s[31 - lane]; if (k < 2) named_arrive(2, 64); }
}
if (warp == 1) y[lane] = sum;""", "named_arrive(2, 64);", "named_sync(2, 64);",
      total(X[:96].reshape(3, 32)[:, ::-1], 0))  # fmt: skip
fault("maximum_of_the_next_row", "race", """
__shared__ unsigned top[2];
for (int k = 0; k < 3; ++k) {
  const unsigned v = x[k * 64 + i], m = __reduce_max_sync(~0u, v);
  if (lane == 0) top[warp] = m;
  __syncthreads(); y[k * 64 + i] = max(top[0], top[1]) - v; {MEND}
}""", "", "__syncthreads();", (X[:192].reshape(3, 64).max(1)[:, None] - X[:192].reshape(3, 64)).ravel())  # fmt: skip
