"""Kernels of atomics and reductions: every operation, type, scope and memory, and what is built of them."""

import numpy

from .table import BITS, COUNT, INDEX, LONG_BITS, NEAR, add, out

FAMILY = "atomics"
HEADERS = ("cuda_fp16.h", "cuda_bf16.h", "cuda/atomic")
SIGNED, LONG = BITS.view("i4"), LONG_BITS.view("i8")
FOUR = INDEX % 4  # each of four places takes 16 values


def spread(name, statement, x, wanted, initial=0, tolerance=0.0, before="", **more):
    """Enters a kernel of two blocks in which thread i combines v = x[i] into y[i % 4]."""
    kind = {"f4": "float", "f8": "double", "u4": "unsigned", "i4": "int", "u8": "unsigned long long", "i8": "long long",
            "f2": "__half"}[x.dtype.str[1:]]  # fmt: skip
    body = f"int i = blockIdx.x * blockDim.x + threadIdx.x; {kind} v = x[i]; {statement}"
    y = out(wanted, tolerance, initial, kind=x.dtype)
    add(FAMILY, name, f"const {kind}* x, {kind}* y", body, [x, y], grid=2, block=COUNT // 2, headers=HEADERS,
        before=before, **more)  # fmt: skip


def gathered(of, x, initial=0):
    return [of([initial, *(n for n, at in zip(x.tolist(), FOUR) if at == k)]) for k in range(4)]


def wrapped(numbers, kind):
    bits = 8 * numpy.dtype(kind).itemsize
    return numpy.array([n % 2**bits for n in numbers], f"u{bits // 8}").view(kind)


SMALL = (BITS >> 20) & 1023
spread("atomic_add_int", "atomicAdd(&y[i % 4], v);", SIGNED, wrapped(gathered(sum, SIGNED), "i4"))
spread("atomic_add_uint", "atomicAdd(&y[i % 4], v);", BITS, wrapped(gathered(sum, BITS), "u4"))
spread("atomic_add_ulong", "atomicAdd(&y[i % 4], v);", LONG_BITS, wrapped(gathered(sum, LONG_BITS), "u8"))
spread("atomic_add_float", "atomicAdd(&y[i % 4], v);", NEAR, gathered(sum, NEAR))  # exact: multiples of 1/16
spread("atomic_add_double", "atomicAdd(&y[i % 4], v);", NEAR.astype("f8") / 3, gathered(sum, NEAR.astype("f8") / 3),
       tolerance=1e-13)  # fmt: skip
spread("atomic_subtract", "atomicSub(&y[i % 4], v);", BITS, wrapped([-n for n in gathered(sum, BITS)], "u4"))
spread("atomic_min_int", "atomicMin(&y[i % 4], v);", SIGNED, gathered(min, SIGNED))
spread("atomic_max_uint", "atomicMax(&y[i % 4], v);", BITS, gathered(max, BITS))
spread("atomic_max_long", "atomicMax(&y[i % 4], v);", LONG, gathered(max, LONG))
spread("atomic_min_ulong", "atomicMin(&y[i % 4], v);", LONG_BITS, gathered(min, LONG_BITS[:], 2**63), initial=2**63)


def folded(of, start=0):
    def fold(numbers):
        result = start
        for n in numbers:
            result = of(result, n)
        return result

    return fold


spread("atomic_and", "atomicAnd(&y[i % 4], v | 0xff);", BITS,
       gathered(folded(lambda a, b: a & (b | 255), 2**32 - 1), BITS, 2**32 - 1), initial=2**32 - 1)  # fmt: skip
spread("atomic_or", "atomicOr(&y[i % 4], v & 0x11111);", BITS, gathered(folded(lambda a, b: a | b & 0x11111), BITS))
spread("atomic_xor_long", "atomicXor(&y[i % 4], v);", LONG_BITS, gathered(folded(lambda a, b: a ^ b), LONG_BITS))
spread("atomic_increment", "atomicInc(&y[i % 4], 9);", BITS, [16 % 10] * 4)
spread("atomic_decrement", "atomicDec(&y[i % 4], 9);", BITS, [(10 - 16) % 10] * 4)
spread("atomic_exchange", "atomicExch(&y[i % 4], (unsigned)(i % 4) * 3 + 1);", BITS, [1, 4, 7, 10])
spread("atomic_add_block", "atomicAdd_block(&y[2 * blockIdx.x + i % 2], v);", SMALL,
       [SMALL[16 * 2 * b + k : 32 * b + 32 : 2].sum() for b in range(2) for k in range(2)])  # fmt: skip
spread("atomic_add_system", "atomicAdd_system(&y[i % 4], v);", SMALL, gathered(sum, SMALL))
spread("atomic_max_system", "atomicMax_system(&y[i % 4], v);", SMALL, gathered(max, SMALL))
spread(
    "atomic_compare_and_swap",
    "unsigned old = 0, seen; do { seen = old; old = atomicCAS(&y[i % 4], seen, seen + v); } while (old != seen);",
    SMALL, gathered(sum, SMALL),
)  # fmt: skip
spread(
    "atomic_compare_and_swap_long",
    "unsigned long long old = 0, seen; do { seen = old; old = atomicCAS(&y[i % 4], seen, seen ^ v); } while (old != seen);",
    LONG_BITS, gathered(folded(lambda a, b: a ^ b), LONG_BITS),
)  # fmt: skip
spread(
    "atomic_compare_and_swap_short",
    "unsigned short* at = (unsigned short*)y + i % 8; unsigned short old = 0, seen;\n"
    "do { seen = old; old = atomicCAS(at, seen, (unsigned short)(seen + v)); } while (old != seen);",
    SMALL, numpy.uint16([SMALL[k::8].sum() for k in range(8)]).view("u4"),
)  # fmt: skip
spread(
    "atomic_max_float_by_int", "atomicMax((int*)&y[i % 4], __float_as_int(v + 2.f));", NEAR,
    gathered(lambda n: max(n[1:]) + 2, NEAR),
)  # fmt: skip
spread(
    "spin_lock",
    "if (threadIdx.x == 0) { while (atomicCAS(&lock, 0, 1) != 0) { } __threadfence(); unsigned a = *(volatile unsigned*)&y[0];\n"
    "*(volatile unsigned*)&y[0] = a + v; __threadfence(); atomicExch(&lock, 0); }",
    SMALL, [SMALL[0] + SMALL[32], 0, 0, 0], before="__device__ int lock;",
)  # fmt: skip

# What an atomic gives back: the places that 64 threads draw are those of 0 to 63.
add(FAMILY, "atomic_result", "unsigned* counter, unsigned* y",
    "unsigned at = atomicAdd(counter, 1u); y[at] = at * 2;",
    [out(numpy.uint32([COUNT])), out(INDEX * 2)], grid=2, block=COUNT // 2, headers=HEADERS)  # fmt: skip


def shared(name, declaration, zero, statement, result, x, wanted, tolerance=0.0, **more):
    """Enters a kernel of one block that combines v into shared memory, and writes what came of it."""
    kind = {"f4": "float", "u4": "unsigned", "i4": "int", "f8": "double", "u8": "unsigned long long"}[x.dtype.str[1:]]
    y = out(wanted, tolerance, kind=more.pop("result_kind", x.dtype))
    body = (f"__shared__ {declaration}; int i = threadIdx.x; {kind} v = x[i]; if (i < 4) {{ {zero} }}\n"
            f"__syncthreads(); {statement} __syncthreads(); if (i < 4) y[i] = {result};")  # fmt: skip
    add(FAMILY, name, f"const {kind}* x, {kind}* y", body, [x, y], headers=HEADERS, **more)


shared("shared_add_int", "int s[4]", "s[i] = 0;", "atomicAdd(&s[i % 4], v);", "s[i]", SIGNED,
       wrapped(gathered(sum, SIGNED), "i4"))  # fmt: skip
shared("shared_add_float", "float s[4]", "s[i] = 0;", "atomicAdd(&s[i % 4], v);", "s[i]", NEAR, gathered(sum, NEAR))
shared("shared_add_double", "double s[4]", "s[i] = 0;", "atomicAdd(&s[i % 4], v);", "s[i]", NEAR.astype("f8"),
       gathered(sum, NEAR.astype("f8")))  # fmt: skip
shared("shared_add_ulong", "unsigned long long s[4]", "s[i] = 0;", "atomicAdd(&s[i % 4], v);", "s[i]", LONG_BITS,
       wrapped(gathered(sum, LONG_BITS), "u8"))  # fmt: skip
shared("shared_max_int", "int s[4]", "s[i] = -2147483647;", "atomicMax(&s[i % 4], v);", "s[i]", SIGNED,
       gathered(lambda n: max(n[1:]), SIGNED))  # fmt: skip
shared("shared_exchange_and_swap", "unsigned s[4]", "s[i] = 0;",
       "unsigned old = 0, seen; do { seen = old; old = atomicCAS(&s[i % 4], seen, max(seen, v)); } while (old != seen);",
       "s[i]", BITS, gathered(max, BITS))  # fmt: skip
shared("histogram", "unsigned s[4]", "s[i] = 0;", "atomicAdd(&s[v >> 30], 1u);", "s[i]", BITS,
       numpy.bincount(BITS >> 30, minlength=4))  # fmt: skip
shared("generic_atomic", "unsigned s[4]", "s[i] = 0;",
       "unsigned* to = (v & 1) ? &s[i % 4] : &y[4 + i % 4]; atomicAdd(to, v >> 8);", "s[i]", BITS,
       [((BITS >> 8) * (odd == BITS % 2))[k::4].sum() for odd in (1, 0) for k in range(4)])  # fmt: skip

HALVES = (INDEX % 8).astype("f2")
add(FAMILY, "atomic_add_half", "const __half* x, __half* y", "int i = threadIdx.x; atomicAdd(&y[i % 4], x[i]);",
    [HALVES, out([HALVES[k::4].astype("f4").sum() for k in range(4)], kind="f2")], headers=HEADERS)  # fmt: skip
add(FAMILY, "atomic_add_half2", "const __half2* x, __half2* y", "int i = threadIdx.x; atomicAdd(&y[i % 2], x[i]);",
    [HALVES, out([HALVES[k::4].astype("f4").sum() for k in range(4)], kind="f2")], headers=HEADERS,
    block=COUNT // 2)  # fmt: skip
add(FAMILY, "atomic_add_bfloat2", "const __nv_bfloat162* x, __nv_bfloat162* y",
    "int i = threadIdx.x; atomicAdd(&y[i % 2], x[i]);",
    [(HALVES.astype("f4").view("u4") >> 16).astype("u2"),
     out((numpy.float32([HALVES[k::4].sum() for k in range(4)]).view("u4") >> 16).astype("u2"))],
    headers=HEADERS, block=COUNT // 2, lowest=80)  # fmt: skip
add(FAMILY, "atomic_add_float4", "const float4* x, float4* y", "int i = threadIdx.x; atomicAdd(&y[i % 2], x[i]);",
    [NEAR, out([[NEAR.reshape(8, 2, 4)[:, k, e].sum() for e in range(4)] for k in range(2)], kind="f4")],
    headers=HEADERS, block=COUNT // 4, lowest=90)  # fmt: skip
add(FAMILY, "atomic_add_float2", "const float2* x, float2* y", "int i = threadIdx.x; atomicAdd(&y[i % 2], x[i]);",
    [NEAR, out([[NEAR.reshape(16, 2, 2)[:, k, e].sum() for e in range(2)] for k in range(2)], kind="f4")],
    headers=HEADERS, block=COUNT // 2, lowest=90)  # fmt: skip
add(FAMILY, "atomic_ref", "const unsigned* x, unsigned* y",
    "cuda::atomic_ref<unsigned, cuda::thread_scope_device> total(y[0]);\n"
    "total.fetch_add(x[blockIdx.x * blockDim.x + threadIdx.x], cuda::memory_order_relaxed);\n"
    "cuda::atomic_ref<unsigned, cuda::thread_scope_block> most(y[1 + blockIdx.x]);\n"
    "most.fetch_max(x[blockIdx.x * blockDim.x + threadIdx.x], cuda::memory_order_relaxed);",
    [BITS, out([BITS.astype("u8").sum() % 2**32, BITS[:32].max(), BITS[32:].max()], kind="u4")], grid=2,
    block=COUNT // 2, headers=HEADERS)  # fmt: skip
