"""Faults around products of Hopper's tensor cores: fences of registers and proxies, groups, operands written again."""

import numpy

from .table import fault

PRODUCT = r"""
__shared__ __align__(1024) unsigned a[512], b[64];
float d[4];
for (int k = i; k < 512; k += 128) a[k] = 0x3f803f80; if (i < 64) b[i] = 0x3f803f80;
%s __syncthreads();
const unsigned long long first = at(a) >> 4 | 8ull << 16 | 16ull << 32, second = at(b) >> 4 | 8ull << 16 | 16ull << 32;
for (int k = 0; k < 4; ++k) d[k] = x[0] + 1;
%s
asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%%0, %%1, %%2, %%3}, %%4, %%5, 1, 1, 1, 0, 0;\n\t"
             "wgmma.commit_group.sync.aligned;"
             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(first), "l"(second) : "memory");
%s
for (int k = 0; k < 4; ++k) y[i * 4 + k] = (unsigned)d[k];
%s"""
REGISTERS = '"+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])'
FENCE = f'asm volatile("wgmma.fence.sync.aligned;" : {REGISTERS} :: "memory");'
WAIT = 'asm volatile("wgmma.wait_group.sync.aligned {0};" : ' + REGISTERS + ' :: "memory");'
GOOD = ["fence_proxy();", FENCE, WAIT.replace("{0}", "0"), ""]
SUM = numpy.full(512, 17)
WARPGROUP = {"block": 128, "architecture": "sm_90a"}


def product(name, kind, place, wrong, right, text="{MEND}"):
    parts = [text if k == place else part for k, part in enumerate(GOOD)]
    fault(name, kind, PRODUCT % tuple(parts), wrong, right, SUM, **WARPGROUP)


product("operands_are_not_fenced", "no proxy fence", 0, "", "fence_proxy();")
product("accumulators_are_not_fenced", "register race", 1, "", FENCE)
product("products_are_awaited_but_one", "uninitialised", 2, "1", "0", WAIT.replace("{0}", "{MEND}"))
product("operand_is_written_while_it_is_read", "race", 2, "a[i] = 0; " + GOOD[2], GOOD[2] + " a[i] = 0;")
