"""Faults between the blocks of a cluster: shared memory of others before it is there, after it has gone, or under way."""

import numpy

from .table import X, fault

V = X[:64]
PAIR = {"grid": 2, "block": 32, "cluster": 2, "architecture": "sm_90a"}
FROM = "const int own = blockIdx.x * 32 + i; const unsigned other = rank() ^ 1;\n"
OTHERS = V[numpy.arange(64) ^ 32]

fault("others_memory_before_it_is_written", "race", FROM + """
__shared__ unsigned s[32]; s[i] = x[own]; {MEND}; y[own] = read_at(in_block(s + i, other)); cluster_sync();""",
      "__syncthreads()", "cluster_sync()", OTHERS, **PAIR)  # fmt: skip
fault("others_memory_is_written_over", "race", FROM + """
__shared__ unsigned s[32]; s[i] = 0; {MEND}; write_at(in_block(s + i, other), x[own]); cluster_sync(); y[own] = s[i];""",
      "__syncthreads()", "cluster_sync()", OTHERS, **PAIR)  # fmt: skip
fault("arrival_at_the_cluster_is_not_awaited", "race", FROM + """
__shared__ unsigned s[32]; s[i] = x[own]; cluster_arrive(); {MEND} y[own] = v; cluster_sync();""",
      "const unsigned v = read_at(in_block(s + i, other)); cluster_wait();",
      "cluster_wait(); const unsigned v = read_at(in_block(s + i, other));", OTHERS, **PAIR)  # fmt: skip
fault("arrival_at_the_cluster_is_relaxed", "race", FROM + """
__shared__ unsigned s[32]; s[i] = x[own];
asm volatile("barrier.cluster.arrive{MEND}.aligned;" ::: "memory"); cluster_wait();
y[own] = read_at(in_block(s + i, other)); cluster_sync();""", ".relaxed", ".release", OTHERS, **PAIR)  # fmt: skip
fault("others_mbarrier_before_it_is_there", "barrier misuse", FROM + """
__shared__ unsigned s[32]; __shared__ Barrier bar; if (i == 0) { start(&bar, 32); fence_start(); } {MEND};
write_at(in_block(s + i, other), x[own]); arrive_at(in_block(&bar, other)); await_cluster(&bar, 0); y[own] = s[i];
cluster_sync();""", "__syncthreads()", "cluster_sync()", OTHERS, **PAIR)  # fmt: skip
fault("arrival_at_the_own_mbarrier", "race", FROM + """
__shared__ unsigned s[32]; __shared__ Barrier bar; if (i == 0) { start(&bar, 32); fence_start(); } cluster_sync();
write_at(in_block(s + i, other), x[own]); arrive_at(in_block(&bar, {MEND})); await_cluster(&bar, 0); y[own] = s[i];
cluster_sync();""", "rank()", "other", OTHERS, **PAIR)  # fmt: skip
fault("asynchronous_stores_of_fewer_bytes", "deadlock", FROM + r"""
__shared__ unsigned s[32]; __shared__ Barrier bar;
if (i == 0) { start(&bar, 1); fence_start(); expect(&bar, {MEND}); } cluster_sync();
asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
             :: "r"(in_block(s + i, other)), "r"(x[own]), "r"(in_block(&bar, other)) : "memory");
await_cluster(&bar, 0); y[own] = s[i];""", "256", "128", OTHERS, **PAIR)  # fmt: skip
fault("reader_of_the_cluster_leaves_nobody_behind", "lifetime", FROM + """
__shared__ unsigned s[32]; s[i] = x[own]; cluster_sync(); y[own] = read_at(in_block(s + i, other)); {MEND}""",
      "", "cluster_sync();", OTHERS, **PAIR)  # fmt: skip
