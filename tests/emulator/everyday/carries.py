"""Kernels of numbers longer than a register: chains of carries by inline assembly, and what the compiler makes."""

import numpy

from .table import LONG_BITS, OTHER_LONG_BITS, add, out

FAMILY = "carries"
A = numpy.stack([LONG_BITS, OTHER_LONG_BITS], 1)
B = numpy.stack([OTHER_LONG_BITS ^ numpy.uint64(2**64 - 1), LONG_BITS >> 3], 1)


def numbers(pairs):
    return [int(low) | int(high) << 64 for low, high in pairs]


def words(results, count=2):
    return numpy.array([[n >> 64 * k & 2**64 - 1 for k in range(count)] for n in results], "u8")


LOAD = "int i = threadIdx.x; unsigned long long a = x[2 * i], b = x[2 * i + 1], c = z[2 * i], d = z[2 * i + 1], e, f;\n"
STORE = "\ny[2 * i] = e; y[2 * i + 1] = f;"
PARAMETERS = "const unsigned long long* x, const unsigned long long* z, unsigned long long* y"
for name, first, second, of in [
    ("carry_add", "add.cc.u64", "addc.u64", lambda a, b: a + b),
    ("carry_subtract", "sub.cc.u64", "subc.u64", lambda a, b: a - b),
]:
    text = f'asm("{first} %0, %2, %4;\\n\\t{second} %1, %3, %5;" : "=&l"(e), "=l"(f) : "l"(a), "l"(b), "l"(c), "l"(d));'
    wanted = words([of(a, b) % 2**128 for a, b in zip(numbers(A), numbers(B))])
    add(FAMILY, name, PARAMETERS, LOAD + text + STORE, [A, B, out(wanted)])
add(
    FAMILY, "carry_multiply", PARAMETERS,
    LOAD + 'asm("mad.lo.cc.u64 %0, %2, %3, %4;\\n\\tmadc.hi.u64 %1, %2, %3, %5;" : "=&l"(e), "=l"(f) : '
    '"l"(a), "l"(b), "l"(c), "l"(d));' + STORE,
    [A, B, out(words([int(a[0]) * int(a[1]) + b for a, b in zip(A, numbers(B))]))],
)  # fmt: skip
add(
    FAMILY, "carry_in_32_bits", "const uint4* x, const uint4* z, uint4* y",
    "int i = threadIdx.x; uint4 a = x[i], b = z[i], r;\n"
    'asm("add.cc.u32 %0, %4, %8;\\n\\taddc.cc.u32 %1, %5, %9;\\n\\taddc.cc.u32 %2, %6, %10;\\n\\taddc.u32 %3, %7, %11;"\n'
    ': "=&r"(r.x), "=&r"(r.y), "=&r"(r.z), "=r"(r.w)\n'
    ': "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "r"(b.z), "r"(b.w));\ny[i] = r;',
    [A, B, out(words([(a + b) % 2**128 for a, b in zip(numbers(A), numbers(B))]))],
)  # fmt: skip
add(
    FAMILY, "int128_sum", "const unsigned long long* x, unsigned long long* y",
    "int i = threadIdx.x; unsigned __int128 s = 0;\n"
    "for (int k = 0; k <= i; ++k) s += (unsigned __int128)x[k] * x[k];\n"
    "y[2 * i] = (unsigned long long)s; y[2 * i + 1] = (unsigned long long)(s >> 64);",
    [LONG_BITS, out(words([sum(int(n) ** 2 for n in LONG_BITS[: k + 1]) % 2**128 for k in range(64)]))],
)  # fmt: skip
