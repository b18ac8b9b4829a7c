"""Faults within a warp: memory that is shared without a barrier, masks of lanes that are not there."""

import numpy

from .table import X, fault, total

V = X[:32]
LANES = numpy.arange(32)

fault("last_warp_runs_in_step", "race", """
__shared__ unsigned s[64]; s[i] = x[i]; __syncthreads();
if (i < 32) for (int k = 32; k > 0; k /= 2) {
  const unsigned v = s[i] + s[(i + k) % 64]; {MEND} s[i] = v; {MEND2}
}
if (i == 0) y[0] = s[0];""".replace("{MEND2}", "__syncwarp();"), "", "__syncwarp();", total(X[:64]))  # fmt: skip
fault("base_of_a_queue", "race", """
__shared__ unsigned base, next; if (lane == 0) next = 5; __syncwarp();
const unsigned takes = __ballot_sync(~0u, x[lane] & 1);
if (lane == 0) base = atomicAdd(&next, (unsigned)__popc(takes));
{MEND}
y[lane] = base + __popc(takes & ((1u << lane) - 1));""", "", "__syncwarp();",
      5 + numpy.cumsum(V & 1) - (V & 1), block=32)  # fmt: skip
fault("shuffle_where_some_have_left", "divergent", """
if (i >= 24) return;
unsigned v = x[i] % 100; for (int k = 0; k < 2; ++k) v += __shfl_xor_sync({MEND}, v, 1 << k);
y[i] = v;""", "0xffffffffu", "0x00ffffffu",
      numpy.repeat((X[:24] % 100).reshape(6, 4).sum(1), 4), block=32)  # fmt: skip
fault("shuffle_in_a_branch", "divergent", """
unsigned v = x[i], w = 0;
{MEND} w = __shfl_down_sync(0xffffffffu, v, 1);
y[i] = i < 20 ? w : 7;""", "if (i < 20)", "", numpy.where(LANES < 20, X[1:33], 7), block=32)  # fmt: skip
fault("ballot_of_the_whole_warp", "divergent", """
y[i] = 0;
if (x[i] & 2) { const unsigned mask = {MEND}; y[i] = __popc(__ballot_sync(mask, x[i] & 1)); }""",
      "0xffffffffu", "__activemask()", numpy.where(V & 2, ((V & 3) == 3).sum(), 0), block=32)  # fmt: skip
fault("matrix_of_others_rows", "race", r"""
__shared__ __align__(16) unsigned s[32]; s[lane] = x[lane]; {MEND}
unsigned v;
asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(at(s + lane % 8 * 4)) : "memory");
y[lane] = v;""", "", "__syncwarp();", V, block=32)  # fmt: skip
fault("staged_rows_are_read_across", "race", """
__shared__ unsigned s[2][32]; unsigned sum = 0;
for (int k = 0; k < 4; ++k) { s[warp][lane] = x[k * 64 + i]; __syncwarp(); sum += s[warp][31 - lane]; {MEND} }
y[i] = sum;""", "", "__syncwarp();", total(X[:256].reshape(4, 2, 32)[:, :, ::-1], 0).ravel())  # fmt: skip
