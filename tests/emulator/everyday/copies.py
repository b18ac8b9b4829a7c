"""Kernels of copies beside the warps: cp.async, pipelines, bulk copies that an mbarrier counts, and mbarriers alone."""

import numpy

from .table import BITS, INDEX, add, out

FAMILY = "copies"
HEADERS = ("cuda_pipeline.h", "cuda/barrier", "cuda/pipeline", "cooperative_groups.h")
SIMPLE = "const unsigned* x, unsigned* y"
ADDRESS = "__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }\n"


def copy(name, body, wanted, lowest=80, **more):
    add(FAMILY, name, SIMPLE, "int i = threadIdx.x;\n" + body, [BITS, out(wanted, kind="u4")], headers=HEADERS,
        before=ADDRESS, lowest=lowest, **more)  # fmt: skip


WAIT = 'asm volatile("cp.async.commit_group;\\n\\tcp.async.wait_group 0;" ::: "memory"); __syncthreads();\n'
for size in (4, 8, 16):
    many = size // 4
    copy(f"async_copy_{size}", f"__shared__ __align__(16) unsigned s[64]; if (i < {64 // many})\n"
         f'asm volatile("cp.async.ca.shared.global [%0], [%1], {size};" :: "r"(at(s + i * {many})), "l"(x + i * {many}) : "memory");\n'
         + WAIT + "y[i] = s[63 - i];", BITS[::-1])  # fmt: skip
copy("async_copy_cg", "__shared__ __align__(16) unsigned s[64]; if (i < 16)\n"
     'asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" :: "r"(at(s + i * 4)), "l"(x + i * 4) : "memory");\n'
     + WAIT + "y[i] = s[63 - i];", BITS[::-1])  # fmt: skip
copy("async_copy_zeros", "__shared__ __align__(16) unsigned s[64]; if (i < 16)\n"
     'asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at(s + i * 4)), "l"(x + i * 4), "r"(4 * (i % 5)) : "memory");\n'
     + WAIT + "y[i] = s[i];", numpy.where(INDEX % 4 < INDEX // 4 % 5, BITS, 0))  # fmt: skip
copy("async_copy_stages", "__shared__ unsigned s[2][64];\n"
     'for (int k = 0; k < 2; ++k) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\\n\\tcp.async.commit_group;"\n'
     ':: "r"(at(&s[k][i])), "l"(x + (i + k) % 64) : "memory");\n'
     'asm volatile("cp.async.wait_group 1;" ::: "memory"); unsigned a = s[0][i];\n'
     'asm volatile("cp.async.wait_all;" ::: "memory"); y[i] = a + s[1][i];', BITS + numpy.roll(BITS, -1))  # fmt: skip
copy("async_copy_mbarrier", "__shared__ unsigned s[64]; __shared__ unsigned long long bar;\n"
     'if (i == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at(&bar)) : "memory"); __syncthreads();\n'
     'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(s + i)), "l"(x + i) : "memory");\n'
     'asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at(&bar)) : "memory");\n'
     "unsigned done; do { asm volatile(\"{\\n.reg .pred p;\\nmbarrier.test_wait.parity.shared.b64 p, [%1], 0;\\nselp.u32 %0, 1, 0, p;\\n}\"\n"
     ': "=r"(done) : "r"(at(&bar)) : "memory"); } while (!done);\ny[i] = s[63 - i];', BITS[::-1], lowest=80)  # fmt: skip
copy("pipeline_primitives", "__shared__ unsigned s[64]; __pipeline_memcpy_async(&s[i], x + i, 4); __pipeline_commit();\n"
     "__pipeline_wait_prior(0); __syncthreads(); y[i] = s[i ^ 40];", BITS[INDEX ^ 40])  # fmt: skip
copy("pipeline_of_a_thread", "__shared__ unsigned s[64]; auto pipe = cuda::make_pipeline(); pipe.producer_acquire();\n"
     "cuda::memcpy_async(&s[i], x + i, 4, pipe); pipe.producer_commit(); pipe.consumer_wait();\n"
     "__syncthreads(); y[i] = s[i ^ 9]; pipe.consumer_release();", BITS[INDEX ^ 9])  # fmt: skip
copy("barrier_tokens", "__shared__ cuda::barrier<cuda::thread_scope_block> bar; __shared__ unsigned s[64];\n"
     "if (i == 0) init(&bar, 64); __syncthreads(); unsigned r = 0;\n"
     "for (int k = 0; k < 3; ++k) { s[i] = x[i] + k; auto token = bar.arrive(); bar.wait(std::move(token));\n"
     "r += s[i ^ 33]; bar.arrive_and_wait(); }\ny[i] = r;", BITS[INDEX ^ 33] * 3 + 3)  # fmt: skip

TRY = ("unsigned done; do { asm volatile(\"{\\n.reg .pred p;\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\\nselp.u32 %0, 1, 0, p;\\n}\"\n"
       ': "=r"(done) : "r"(at(&bar)) : "memory"); } while (!done);\n')  # fmt: skip
BARRIER = ("__shared__ __align__(16) unsigned s[64]; __shared__ unsigned long long bar;\n"
           'if (i == 0) { asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\\n\\tfence.mbarrier_init.release.cluster;" :: "r"(at(&bar)) : "memory"); }\n'
           "__syncthreads();\n")  # fmt: skip
EXPECT = 'asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" :: "r"(at(&bar)) : "memory");\n'
LOAD = (
    'asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"\n'
    ':: "r"(at(s)), "l"(x), "r"(at(&bar)) : "memory");\n'
)
copy(
    "bulk_load", BARRIER + "if (i == 0) {\n" + EXPECT + LOAD + "}\n" + TRY + "y[i] = s[63 - i];", BITS[::-1], lowest=90
)
copy("bulk_prefetch", 'if (i == 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], 256;" :: "l"(x));\ny[i] = x[i];', BITS,
     lowest=90)  # fmt: skip
STORE = ('asm volatile("cp.async.bulk.{}.bulk_group{} [%0], [%1], 256;" :: "l"(y), "r"(at(s)) : "memory");\n'
         'asm volatile("cp.async.bulk.commit_group;\\n\\tcp.async.bulk.wait_group 0;" ::: "memory");\n')  # fmt: skip
FILL = ("__shared__ __align__(16) unsigned s[64]; s[i] = x[63 - i] * 3;\n"
        'asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); __syncthreads();\nif (i == 0) {\n')  # fmt: skip
copy("bulk_store", FILL + STORE.format("global.shared::cta", "") + "}", BITS[::-1] * 3, lowest=90)
copy("bulk_reduction", 'y[i] = i; asm volatile("fence.proxy.async;" ::: "memory");\n' + FILL
     + STORE.replace("cp.async.bulk.{}", "cp.reduce.async.bulk.{}").format("global.shared::cta", ".add.u32") + "}",
     BITS[::-1] * 3 + INDEX, lowest=90)  # fmt: skip
copy("bulk_barrier_of_libcu", "using bar_t = cuda::barrier<cuda::thread_scope_block>; __shared__ bar_t bar;\n"
     "__shared__ __align__(16) unsigned s[64]; if (i == 0) { init(&bar, 64); } __syncthreads();\n"
     "bar_t::arrival_token token; if (i == 0) { cuda::memcpy_async(s, x, cuda::aligned_size_t<16>(256), bar);\n"
     "token = bar.arrive(); } else token = bar.arrive();\nbar.wait(std::move(token)); y[i] = s[i ^ 63];",
     BITS[::-1], lowest=90)  # fmt: skip
copy("bulk_between_blocks", BARRIER
     + "unsigned rank; asm(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(rank)); __shared__ __align__(16) unsigned t[64];\n"
     "t[i] = x[i] + rank; if (i == 0) {\n" + EXPECT + "}\n"
     'asm volatile("fence.proxy.async.shared::cta;\\n\\tbarrier.cluster.arrive;\\n\\tbarrier.cluster.wait;" ::: "memory");\n'
     "if (i == 0) {\n  unsigned to, there;\n"
     '  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(at(s)), "r"(rank ^ 1));\n'
     '  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(&bar)), "r"(rank ^ 1));\n'
     '  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"\n'
     '  :: "r"(to), "r"(at(t)), "r"(there) : "memory");\n}\n' + TRY
     + 'y[64 * blockIdx.x + i] = s[i]; asm volatile("barrier.cluster.arrive;\\n\\tbarrier.cluster.wait;" ::: "memory");',
     numpy.concatenate([BITS + 1, BITS]), lowest=90, grid=2, cluster=2)  # fmt: skip
copy("remote_store_async", BARRIER
     + 'unsigned rank; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank)); if (i == 0) {\n' + EXPECT + "}\n"
     'asm volatile("barrier.cluster.arrive;\\n\\tbarrier.cluster.wait;" ::: "memory"); unsigned to, there;\n'
     'asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(at(s + i)), "r"(rank ^ 1));\n'
     'asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(&bar)), "r"(rank ^ 1));\n'
     'asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"\n'
     ':: "r"(to), "r"(x[i] + rank), "r"(there) : "memory");\n' + TRY
     + 'y[64 * blockIdx.x + i] = s[i]; asm volatile("barrier.cluster.arrive;\\n\\tbarrier.cluster.wait;" ::: "memory");',
     numpy.concatenate([BITS + 1, BITS]), lowest=90, grid=2, cluster=2)  # fmt: skip
