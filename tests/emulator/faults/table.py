"""Table of kernels with one planted fault: the text that is wrong, the one that mends it, and what must be found."""

import dataclasses

import numpy
from everyday.table import Case, out

# What each kernel is given: 512 numbers, all different.
X = (numpy.arange(512, dtype="u8") * 2654435761 % 2**32).astype("u4")
LOWEST = {"sm_80": 80, "sm_90a": 90, "sm_100a": 100}

# Functions that the kernels call.
BARRIERS = r"""
typedef unsigned long long Barrier;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void start(Barrier* bar, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(bar)), "r"(count) : "memory");
}
__device__ void arrive(Barrier* bar) {
  asm volatile("{\n.reg .b64 t;\nmbarrier.arrive.shared.b64 t, [%0];\n}" :: "r"(at(bar)) : "memory");
}
__device__ void await(Barrier* bar, unsigned parity) {
  unsigned done;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(at(bar)), "r"(parity) : "memory");
  } while (!done);
}
__device__ void copy(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(to)), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int most> __device__ void await_copies() { asm volatile("cp.async.wait_group %0;" :: "n"(most) : "memory"); }
__device__ void named_sync(int name, int count) {
  asm volatile("bar.sync %0, %1;" :: "r"(name), "r"(count) : "memory");
}
__device__ void named_arrive(int name, int count) {
  asm volatile("bar.arrive %0, %1;" :: "r"(name), "r"(count) : "memory");
}
"""
BULK = (
    BARRIERS.replace("test_wait", "try_wait")
    + r"""
__device__ void fence_start() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void fence_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void expect(Barrier* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(bar)), "r"(bytes) : "memory");
}
__device__ void load(void* to, const void* from, int bytes, Barrier* bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(at(to)), "l"(from), "r"(bytes), "r"(at(bar)) : "memory");
}
__device__ void store(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n\tcp.async.bulk.commit_group;"
               :: "l"(to), "r"(at(from)), "r"(bytes) : "memory");
}
__device__ void await_stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ void await_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ bool elected() {
  unsigned is;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, -1;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(is) :: "memory");
  return is;
}
__device__ unsigned rank() { unsigned r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ unsigned in_block(const void* p, unsigned rank) {
  unsigned a;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(at(p)), "r"(rank));
  return a;
}
__device__ unsigned read_at(unsigned a) {
  unsigned v;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(a) : "memory");
  return v;
}
__device__ void write_at(unsigned a, unsigned v) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(a), "r"(v) : "memory");
}
__device__ void arrive_at(unsigned a) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(a) : "memory");
}
__device__ void await_cluster(Barrier* bar, unsigned parity) {
  unsigned done;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(at(bar)), "r"(parity) : "memory");
  } while (!done);
}
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ void cluster_sync() { cluster_arrive(); cluster_wait(); }
"""
)
TENSOR = (
    BULK
    + r"""
__device__ void allocate(unsigned* slot) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(at(slot)) : "memory");
}
__device__ void deallocate(unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(columns) : "memory");
}
__device__ void relinquish() { asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory"); }
__device__ void put(unsigned columns, unsigned v) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(columns), "r"(v) : "memory");
}
__device__ unsigned get(unsigned columns) {
  unsigned v;
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(v) : "r"(columns) : "memory");
  return v;
}
__device__ void await_puts() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
__device__ void await_gets() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
__device__ void commit_products(Barrier* bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(at(bar)) : "memory");
}
__device__ unsigned long long matrix(const void* p) {  // core matrices of 8 rows, one behind the other
  return at(p) >> 4 | 8ull << 16 | 16ull << 32 | 1ull << 46;
}
__device__ void multiply(unsigned columns, const void* a, const void* b) {  // 128x16x16 of bfloat16
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, 0, 0;\n"
               "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}"
               :: "r"(columns), "l"(matrix(a)), "l"(matrix(b)), "r"(1 << 4 | 1 << 7 | 1 << 10 | 2 << 17 | 8 << 24)
               : "memory");
}
"""
)
FUNCTIONS = {"sm_80": BARRIERS, "sm_90a": BULK, "sm_100a": TENSOR}


@dataclasses.dataclass(frozen=True)
class Fault:
    """A kernel in two versions, and the kind of finding that tells the wrong one."""

    name: str
    kind: str
    architecture: str
    wrong: Case
    right: Case


@dataclasses.dataclass(frozen=True)
class Innocent:
    """A kernel that looks wrong and is right."""

    name: str
    architecture: str
    right: Case


FAULTS, INNOCENT = {}, {}


def case(name, body, architecture, wanted, before="", **more):
    for size in ("grid", "block", "cluster"):
        if size in more:
            more[size] = (more[size], 1, 1)
    outputs = [out(each, kind="u4") for each in (wanted if isinstance(wanted, list) else [wanted])]
    return Case(name, architecture, "const unsigned* x, unsigned* y" + ", unsigned* z" * (len(outputs) - 1),
                "const int i = threadIdx.x, lane = i % 32, warp = i / 32;\n" + body, [X, *outputs],
                before=FUNCTIONS[architecture] + before, lowest=LOWEST[architecture], **more)  # fmt: skip


def fault(name, kind, body, wrong, right, wanted, architecture="sm_80", **more):
    """Enters a kernel whose {MEND} stands for what is wrong or right. `wanted` is what the right one computes."""
    assert name not in FAULTS and body.count("{MEND}") == 1, name
    versions = [
        case(f"{name}_{version}", body.replace("{MEND}", text), architecture, wanted, **more)
        for version, text in (("wrong", wrong), ("right", right))
    ]
    FAULTS[name] = Fault(name, kind, architecture, *versions)


def innocent(name, body, wanted, architecture="sm_80", **more):
    """Enters a right kernel that looks wrong."""
    assert name not in INNOCENT, name
    INNOCENT[name] = Innocent(name, architecture, case(f"{name}_innocent", body, architecture, wanted, **more))


def total(values, axis=None):
    """Sum of 32-bit numbers, as they wrap around."""
    return numpy.atleast_1d(values.astype("u8").sum(axis) % 2**32).astype("u4")
