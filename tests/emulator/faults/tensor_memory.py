"""Faults around Blackwell's tensor memory: allocation, waits, fences, and products that nobody awaits."""

import numpy

from .table import X, fault

BLACKWELL = {"architecture": "sm_100a"}
V = X[:32]
ALLOCATED = "__shared__ unsigned slot; if (warp == 0) allocate(&slot); %s const unsigned columns = slot;\n"
ONE_WARP = ALLOCATED % "__syncwarp();"
ALL = ALLOCATED % "__syncthreads();"
fault("tensor_memory_is_kept", "lifetime", ONE_WARP + """
put(columns, x[i]); await_puts(); const unsigned v = get(columns); await_gets(); y[i] = v; {MEND}""", "",
      "deallocate(columns);", V, block=32, **BLACKWELL)  # fmt: skip
fault("address_is_read_before_the_allocation", "race", ALLOCATED % "{MEND}" + """
put(columns, x[i]); await_puts(); const unsigned v = get(columns); await_gets(); y[i] = v;
__syncthreads(); if (warp == 0) deallocate(columns);""", "__syncwarp();", "__syncthreads();", X[:64], **BLACKWELL)  # fmt: skip
fault("stores_to_tensor_memory_are_not_awaited", "race", ONE_WARP + """
put(columns, x[i]); {MEND} const unsigned v = get(columns); await_gets(); y[i] = v; await_puts(); deallocate(columns);""",
      "", "await_puts();", V, block=32, **BLACKWELL)  # fmt: skip
fault("second_allocation_after_the_permit", "illegal operand", """
__shared__ unsigned slot[2]; allocate(slot); {MEND} __syncwarp();
const unsigned first = slot[0], second = slot[1];
put(first, x[i]); put(second, x[i + 32]); await_puts();
const unsigned v = get(first) + 0; await_gets(); const unsigned w = get(second); await_gets(); y[i] = v + w;
deallocate(first); deallocate(second);""", "relinquish(); allocate(slot + 1);", "allocate(slot + 1); relinquish();",
      V + X[32:64], block=32, **BLACKWELL)  # fmt: skip
fault("lanes_of_another_warp", "illegal operand", ALL + """
const unsigned own = columns + ({MEND} << 16);
put(own, x[i]); await_puts(); const unsigned v = get(own); await_gets(); y[i] = v;
__syncthreads(); if (warp == 0) deallocate(columns);""", "((warp + 1) * 32)", "(warp * 32)", X[:64], **BLACKWELL)  # fmt: skip
MULTIPLIED = (
    """
__shared__ __align__(1024) unsigned a[1024], b[128]; __shared__ Barrier done;
for (int k = i; k < 1024; k += 128) a[k] = 0x3f803f80; b[i] = 0x3f803f80;
if (i == 0) { start(&done, 1); fence_start(); } %s fence_before(); """
    + ALL
    + """
fence_after();
%s
%s
const unsigned v = get(columns + (warp * 32 << 16)); await_gets(); y[i] = __uint_as_float(v);
fence_before(); __syncthreads(); %s"""
)
GOOD = ["fence_proxy();", "if (i == 0) { multiply(columns, a, b); commit_products(&done); }",
        "await(&done, 0); fence_after();", "if (warp == 0) deallocate(columns);"]  # fmt: skip


def multiplied(name, kind, place, wrong, right):
    parts = ["{MEND}" if k == place else part for k, part in enumerate(GOOD)]
    fault(name, kind, MULTIPLIED % tuple(parts), wrong, right, numpy.full(128, 16), block=128, **BLACKWELL)


multiplied("operands_of_tensor_cores_are_not_fenced", "no proxy fence", 0, "", GOOD[0])
multiplied("product_is_not_committed", "deadlock", 1, GOOD[1].replace("commit_products(&done);", ""), GOOD[1])
multiplied("product_is_committed_too_early", "race", 1,
           "if (i == 0) { commit_products(&done); multiply(columns, a, b); }", GOOD[1])  # fmt: skip
multiplied("product_is_not_awaited", "race", 2, "fence_after();", GOOD[2])
multiplied("no_fence_behind_the_wait", "no tensor fence", 2, "await(&done, 0);", GOOD[2])
multiplied("operand_is_written_before_the_product", "race", 2, "a[i] = 0; " + GOOD[2], GOOD[2] + " a[i] = 0;")
multiplied("product_of_every_warp", "race", 1, GOOD[1].replace("i == 0", "lane == 0"), GOOD[1])
multiplied("tensor_memory_is_given_back_by_two", "illegal operand", 3, "if (warp < 2) deallocate(columns);", GOOD[3])
