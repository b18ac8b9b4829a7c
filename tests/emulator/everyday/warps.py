"""Kernels in which the lanes of a warp work together: shuffles, votes, matches, reductions, masks."""

import numpy

from .table import BITS, COUNT, INDEX, NEAR, add, lanewise, out

FAMILY = "warps"
HEADERS = ("cuda_fp16.h",)
LANE, WARP = INDEX % 32, INDEX // 32 * 32
ALL = "0xffffffffu"


def warp(name, expression, wanted, x=BITS, **more):
    lanewise(FAMILY, name, expression, wanted, [x], headers=HEADERS, **more)


warp("shuffle", f"__shfl_sync({ALL}, v, (i * 7 + 3) & 31)", BITS[WARP + (INDEX * 7 + 3) % 32])
warp("shuffle_up", f"__shfl_up_sync({ALL}, v, 3)", BITS[numpy.where(LANE >= 3, INDEX - 3, INDEX)])
warp("shuffle_down", f"__shfl_down_sync({ALL}, v, 5)", BITS[numpy.where(LANE + 5 < 32, INDEX + 5, INDEX)])
warp("shuffle_xor", f"__shfl_xor_sync({ALL}, v, 21)", BITS[INDEX ^ 21])
warp("shuffle_width", f"__shfl_down_sync({ALL}, v, 2, 8)", BITS[numpy.where(INDEX % 8 + 2 < 8, INDEX + 2, INDEX)])
warp("shuffle_float", f"__shfl_xor_sync({ALL}, v, 1)", NEAR[INDEX ^ 1], NEAR)
warp("shuffle_double", f"__shfl_sync({ALL}, v, 31 - (i & 31))", NEAR.astype("f8")[WARP + 31 - LANE], NEAR.astype("f8"))
warp("shuffle_half", f"__shfl_xor_sync({ALL}, v, 2)", NEAR.astype("f2")[INDEX ^ 2], NEAR.astype("f2"))
warp("shuffle_some_lanes", "y[i] = v; if (i & 1) y[i] = __shfl_xor_sync(0xaaaaaaaau, v, 2);",
     BITS[numpy.where(INDEX & 1, INDEX ^ 2, INDEX)])  # fmt: skip
warp("reduce_by_shuffle", f"for (int k = 16; k; k /= 2) v = __fadd_rn(v, __shfl_xor_sync({ALL}, v, k)); y[i] = v;",
     numpy.repeat(NEAR.reshape(2, 32).sum(1), 32).astype("f4"), NEAR)  # fmt: skip
warp("scan_by_shuffle",
     f"for (int k = 1; k < 32; k *= 2) {{ unsigned o = __shfl_up_sync({ALL}, v, k); if ((i & 31) >= k) v += o; }} y[i] = v;",
     numpy.cumsum(BITS.reshape(2, 32), 1, dtype="u4").ravel())  # fmt: skip


def masks(of):
    """Masks of the lanes of each warp for which something holds, one for each thread."""
    return numpy.uint32([sum(1 << k for k in range(32) if of(i, i // 32 * 32 + k)) for i in range(COUNT)])


warp("ballot", f"__ballot_sync({ALL}, v & 1)", masks(lambda i, k: BITS[k] & 1))
warp("any_and_all", f"__any_sync({ALL}, i == 40) + 2 * __all_sync({ALL}, i < 32) + 4 * __any_sync({ALL}, v == 77u)",
     numpy.where(INDEX < 32, 2, 1).astype("u4"))  # fmt: skip
warp("match_any", f"__match_any_sync({ALL}, v >> 29)", masks(lambda i, k: BITS[k] >> 29 == BITS[i] >> 29))
warp("match_any_long", f"__match_any_sync({ALL}, (unsigned long long)(v & 3) << 40)",
     masks(lambda i, k: BITS[k] & 3 == BITS[i] & 3))  # fmt: skip
warp("match_all", f"int same; unsigned m = __match_all_sync({ALL}, i / 32, &same); y[i] = m + same + i;",
     INDEX)  # fmt: skip
warp("active_mask", "__activemask()", numpy.full(COUNT, 2**32 - 1, "u4"))
warp("ballot_in_a_branch", "y[i] = 0; if ((i & 31) < 12) y[i] = __ballot_sync(0xfffu, v & 2);",
     numpy.where(LANE < 12, masks(lambda i, k: k % 32 < 12 and BITS[k] & 2), 0).astype("u4"))  # fmt: skip
for name, of in {"add": numpy.add, "min": numpy.minimum, "max": numpy.maximum}.items():
    warp(f"reduce_{name}", f"__reduce_{name}_sync({ALL}, v)",
         numpy.repeat(of.reduce(BITS.reshape(2, 32), 1).astype("u4"), 32), lowest=80)  # fmt: skip
for name, of in {"and": numpy.bitwise_and, "or": numpy.bitwise_or, "xor": numpy.bitwise_xor}.items():
    warp(f"reduce_{name}", f"__reduce_{name}_sync({ALL}, v | 3)",
         numpy.repeat(of.reduce((BITS | 3).reshape(2, 32), 1), 32), lowest=80)  # fmt: skip
warp("reduce_max_signed", f"(unsigned)__reduce_max_sync({ALL}, (int)v)",
     numpy.repeat(BITS.view("i4").reshape(2, 32).max(1), 32).view("u4"), lowest=80)  # fmt: skip
warp("lane_masks", 'unsigned a, b, c; asm("mov.u32 %0, %%lanemask_lt;" : "=r"(a)); asm("mov.u32 %0, %%lanemask_ge;" : "=r"(b));\n'
     'asm("mov.u32 %0, %%lanemask_eq;" : "=r"(c)); y[i] = (a ^ b) + c + a;',
     (2**32 - 1 + (1 << LANE.astype("u8")) + (1 << LANE.astype("u8")) - 1).astype("u4"))  # fmt: skip
warp("leader_of_a_warp",
     "unsigned chosen; asm volatile(\"{\\n.reg .pred p;\\nelect.sync _|p, 0xffffffff;\\nselp.u32 %0, 1, 0, p;\\n}\" : \"=r\"(chosen));\n"
     f"y[i] = __popc(__ballot_sync({ALL}, chosen));", numpy.ones(COUNT, "u4"), lowest=90)  # fmt: skip
warp("aggregated_atomic",
     f"if (i < 4) y[i] = 0; __syncthreads(); bool takes = v & 1; unsigned m = __ballot_sync({ALL}, takes);\n"
     "if (takes && __popc(m & ((1u << (i & 31)) - 1)) == 0) atomicAdd(&y[0], (unsigned)__popc(m));",
     numpy.where(INDEX == 0, (BITS & 1).sum(), 0).astype("u4"))  # fmt: skip
add(FAMILY, "exchange_in_a_warp", "const unsigned* x, unsigned* y",
    "__shared__ unsigned s[64]; int i = threadIdx.x; s[i] = x[i]; __syncwarp(); y[i] = s[i ^ 31];",
    [BITS, out(BITS[INDEX ^ 31])])  # fmt: skip
add(FAMILY, "block_reduction", "const unsigned* x, unsigned* y",
    "__shared__ unsigned s[2]; int i = threadIdx.x; unsigned v = x[i];\n"
    f"for (int k = 16; k; k /= 2) v += __shfl_down_sync({ALL}, v, k);\n"
    "if ((i & 31) == 0) s[i / 32] = v; __syncthreads(); if (i == 0) y[0] = s[0] + s[1];",
    [BITS, out([BITS.astype("u8").sum() % 2**32], kind="u4")])  # fmt: skip
add(FAMILY, "tree_in_shared_memory", "const float* x, float* y",
    "__shared__ float s[64]; int i = threadIdx.x; s[i] = x[i]; __syncthreads();\n"
    "for (int k = 32; k > 0; k /= 2) { if (i < k) s[i] += s[i + k]; __syncthreads(); } if (i == 0) y[0] = s[0];",
    [NEAR, out([NEAR.sum()], kind="f4")])  # fmt: skip
