"""Kernels in which blocks and warps tell each other: fences, volatile, flags, last block, acquire and release."""

import numpy

from .table import BITS, COUNT, INDEX, add, lanewise, out

FAMILY = "order"
HEADERS = ("cuda/atomic", "cuda/barrier")
TOTAL = BITS.astype("u8").sum() % 2**32
AT = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"

lanewise(FAMILY, "threadfence", "y[i] = v; __threadfence();", BITS, [BITS], headers=HEADERS)
lanewise(FAMILY, "threadfence_block", "y[i] = v; __threadfence_block();", BITS, [BITS], headers=HEADERS)
lanewise(FAMILY, "threadfence_system", "y[i] = v; __threadfence_system();", BITS, [BITS], headers=HEADERS)
lanewise(FAMILY, "volatile_global", "volatile unsigned* p = y + i; *p = v; y[i] = *p + 1;", BITS + 1, [BITS],
         headers=HEADERS)  # fmt: skip
add(FAMILY, "flag_between_blocks", "const unsigned* x, unsigned* y",
    "if (blockIdx.x == 0) {\n  y[threadIdx.x] = x[threadIdx.x] + 1; __syncthreads();\n"
    "  if (threadIdx.x == 0) { __threadfence(); atomicExch(&ready, 1u); }\n} else {\n"
    "  if (threadIdx.x == 0) { while (atomicAdd(&ready, 0u) == 0) { } __threadfence(); } __syncthreads();\n"
    "  y[32 + threadIdx.x] = *(volatile unsigned*)&y[threadIdx.x] * 2;\n}",
    [BITS, out(numpy.concatenate([BITS[:32] + 1, (BITS[:32] + 1) * 2]))], grid=2, block=COUNT // 2,
    before="__device__ unsigned ready;")  # fmt: skip
add(FAMILY, "flag_by_volatile", "const unsigned* x, unsigned* y",
    "volatile unsigned* flag = &ready;\nif (blockIdx.x == 0) {\n  y[threadIdx.x] = x[threadIdx.x]; __threadfence();\n"
    "  __syncthreads(); if (threadIdx.x == 0) *flag = 1;\n} else {\n"
    "  if (threadIdx.x == 0) { while (*flag == 0) { } } __syncthreads(); __threadfence();\n"
    "  y[32 + threadIdx.x] = ((volatile unsigned*)y)[threadIdx.x] ^ 5;\n}",
    [BITS, out(numpy.concatenate([BITS[:32], BITS[:32] ^ 5]))], grid=2, block=COUNT // 2,
    before="__device__ unsigned ready;")  # fmt: skip
add(FAMILY, "flag_by_acquire", "const unsigned* x, unsigned* y",
    "cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(ready);\n"
    "if (blockIdx.x == 0) {\n  y[threadIdx.x] = x[threadIdx.x]; __syncthreads();\n"
    "  if (threadIdx.x == 0) flag.store(1, cuda::memory_order_release);\n} else {\n"
    "  if (threadIdx.x == 0) { while (flag.load(cuda::memory_order_acquire) == 0) { } } __syncthreads();\n"
    "  y[32 + threadIdx.x] = y[threadIdx.x] ^ 9;\n}",
    [BITS, out(numpy.concatenate([BITS[:32], BITS[:32] ^ 9]))], grid=2, block=COUNT // 2, headers=HEADERS,
    before="__device__ unsigned ready;")  # fmt: skip
add(FAMILY, "acquire_and_release_in_ptx", "const unsigned* x, unsigned* y",
    "unsigned* flag = &ready, seen;\nif (blockIdx.x == 0) {\n  y[threadIdx.x] = x[threadIdx.x]; __syncthreads();\n"
    '  if (threadIdx.x == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" :: "l"(flag) : "memory");\n} else {\n'
    "  if (threadIdx.x == 0) do {\n"
    '    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");\n'
    "  } while (seen == 0);\n  __syncthreads(); y[32 + threadIdx.x] = y[threadIdx.x] + 3;\n}",
    [BITS, out(numpy.concatenate([BITS[:32], BITS[:32] + 3]))], grid=2, block=COUNT // 2,
    before="__device__ unsigned ready;")  # fmt: skip
add(FAMILY, "atomic_acquire_release", "const unsigned* x, unsigned* y",
    "cuda::atomic_ref<unsigned, cuda::thread_scope_device> turn(ready);\n"
    "if (threadIdx.x == 0) {\n  while (turn.load(cuda::memory_order_acquire) != blockIdx.x) { }\n"
    "  y[0] = y[0] * 3 + x[blockIdx.x]; turn.fetch_add(1, cuda::memory_order_acq_rel);\n}",
    [BITS, out([sum(3 ** (3 - k) * int(BITS[k]) for k in range(4)) % 2**32], kind="u4")], grid=4, block=32,
    headers=HEADERS, before="__device__ unsigned ready;")  # fmt: skip
add(FAMILY, "last_block", "const unsigned* x, unsigned* parts, unsigned* y",
    AT + "__shared__ unsigned sum; __shared__ bool last;\nif (threadIdx.x == 0) sum = 0; __syncthreads();\n"
    "atomicAdd(&sum, x[i]); __syncthreads();\n"
    "if (threadIdx.x == 0) {\n  parts[blockIdx.x] = sum; __threadfence();\n"
    "  last = atomicAdd(&count, 1u) == gridDim.x - 1;\n}\n__syncthreads();\n"
    "if (last && threadIdx.x == 0) {\n  __threadfence(); unsigned all = 0;\n"
    "  for (int k = 0; k < gridDim.x; ++k) all += ((volatile unsigned*)parts)[k];\n  y[0] = all; count = 0;\n}",
    [BITS, out(BITS.astype("u8").reshape(4, 16).sum(1) % 2**32, kind="u4"), out([TOTAL], kind="u4")],
    grid=4, block=16, before="__device__ unsigned count;")  # fmt: skip
add(FAMILY, "volatile_shared", "const unsigned* x, unsigned* y",
    "__shared__ volatile unsigned s[32]; int i = threadIdx.x; s[i] = x[i]; __syncwarp();\n"
    "for (int k = 16; k > 0; k /= 2) { unsigned other = i < k ? s[i + k] : 0; __syncwarp(); s[i] += other; __syncwarp(); }\n"
    "y[i] = i == 0 ? s[0] : 0;",
    [BITS, out(numpy.where(INDEX[:32] == 0, BITS[:32].astype("u8").sum() % 2**32, 0), kind="u4")], block=32)  # fmt: skip
add(FAMILY, "block_barrier", "const unsigned* x, unsigned* y",
    "__shared__ cuda::barrier<cuda::thread_scope_block> barrier; __shared__ unsigned s[64]; int i = threadIdx.x;\n"
    "if (i == 0) init(&barrier, blockDim.x);\n__syncthreads(); s[i] = x[i];\n"
    "barrier.arrive_and_wait(); y[i] = s[63 - i];",
    [BITS, out(BITS[::-1])], headers=HEADERS, lowest=80)  # fmt: skip
add(FAMILY, "named_barriers", "const unsigned* x, unsigned* y",
    "__shared__ unsigned s[64]; int i = threadIdx.x;\n"
    'if (i < 32) { s[i] = x[i]; asm volatile("bar.arrive 1, 64;" ::: "memory"); y[i] = 0; }\n'
    'else { asm volatile("bar.sync 1, 64;" ::: "memory"); y[i] = s[i - 32] + x[i]; }',
    [BITS, out(numpy.concatenate([BITS[:32] * 0, BITS[:32] + BITS[32:]]))])  # fmt: skip
add(FAMILY, "barrier_without_aligned", "const unsigned* x, unsigned* y",
    "__shared__ unsigned s[64]; int i = threadIdx.x; s[i] = x[i];\n"
    'if (i & 1) asm volatile("barrier.sync 0;" ::: "memory"); else asm volatile("barrier.sync 0;" ::: "memory");\n'
    "y[i] = s[i ^ 33];",
    [BITS, out(BITS[INDEX ^ 33])])  # fmt: skip
for name, call, wanted in [
    ("syncthreads_count", "__syncthreads_count(x[i] & 1)", (BITS & 1).sum()),
    ("syncthreads_and", "__syncthreads_and(x[i] != 5) != 0", 1),
    ("syncthreads_or", "(__syncthreads_or(x[i] == 5) != 0) + 3", 3),
]:
    add(FAMILY, name, "const unsigned* x, unsigned* y", f"int i = threadIdx.x; y[i] = {call};",
        [BITS, out(numpy.full(COUNT, wanted, "u4"))])  # fmt: skip
