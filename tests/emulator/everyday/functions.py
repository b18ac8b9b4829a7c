"""Kernels with calls, recursion, local arrays, constants, structs, control flow, and more than one grid dimension."""

import numpy

from .table import BITS, COUNT, INDEX, NEAR, add, lanewise, out

FAMILY = "functions"
HEADERS = ("cstdio", "cassert", "cstdint")


def each(name, body, wanted, inputs, **more):
    lanewise(FAMILY, name, body, wanted, inputs, headers=HEADERS, **more)


each("constant", "v * factors[i & 3]", NEAR * numpy.float32([1, 2, 3, 4])[INDEX & 3], [NEAR],
     before="__constant__ float factors[4] = {1, 2, 3, 4};")  # fmt: skip
each("constant_struct", "y[i] = table[i & 1].scale * v + table[i & 1].offset[i & 1];",
     numpy.where(INDEX & 1, NEAR * 4 - 2, NEAR * 2 + 1).astype("f4"), [NEAR],
     before="struct Line { int scale; float offset[2]; };\n__constant__ Line table[2] = {{2, {1, 9}}, {4, {9, -2}}};")  # fmt: skip
each("device_variable", "v + table[i & 3]", BITS + numpy.uint32([5, 6, 7, 8])[INDEX & 3], [BITS],
     before="__device__ unsigned table[4] = {5, 6, 7, 8};")  # fmt: skip
each("device_pointer", "v + *places[i & 1]", BITS + numpy.uint32([11, 22])[INDEX & 1], [BITS],
     before="__device__ unsigned first = 11, second = 22;\n__device__ unsigned* places[2] = {&first, &second};")  # fmt: skip
each("not_inlined", "square(v)", NEAR * NEAR + 1, [NEAR],
     before="__device__ __noinline__ float square(float a) { return __fadd_rn(__fmul_rn(a, a), 1.f); }")  # fmt: skip
each("not_inlined_struct", "Pair p = swap(Pair{v, i}); y[i] = p.a * 3 + p.b;", (INDEX * 3 + BITS).astype("u4"), [BITS],
     before="struct Pair { unsigned a, b; };\n"
     "__device__ __noinline__ Pair swap(Pair p) { return Pair{p.b, p.a}; }")  # fmt: skip
each("not_inlined_pointer", "unsigned r = v; bump(&r, i); y[i] = r;", BITS + INDEX * 7, [BITS],
     before="__device__ __noinline__ void bump(unsigned* p, unsigned by) { *p += by * 7; }")  # fmt: skip
each("recursion", "fibonacci(v % 12)", numpy.uint32([0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89])[BITS % 12], [BITS],
     before="__device__ __noinline__ unsigned fibonacci(unsigned n) {\n"
     "  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);\n}")  # fmt: skip
each("function_pointer", "operations[i % 3](v)", numpy.choose(INDEX % 3, [BITS + 1, BITS * 2, ~BITS]).astype("u4"),
     [BITS], before="__device__ unsigned next(unsigned a) { return a + 1; }\n"
     "__device__ unsigned twice(unsigned a) { return a * 2; }\n"
     "__device__ unsigned inverse(unsigned a) { return ~a; }\n"
     "__device__ unsigned (*operations[3])(unsigned) = {next, twice, inverse};")  # fmt: skip
each("virtual_function",
     "Scaled s(3); Shifted t(5); const Shape* shape = i & 1 ? (const Shape*)&s : &t; y[i] = shape->apply(v);",
     numpy.where(INDEX & 1, BITS * 3, BITS + 5).astype("u4"), [BITS],
     before="struct Shape { __device__ virtual unsigned apply(unsigned) const = 0; };\n"
     "struct Scaled : Shape { unsigned by; __device__ Scaled(unsigned b) : by(b) {}\n"
     "  __device__ __noinline__ unsigned apply(unsigned a) const override { return a * by; } };\n"
     "struct Shifted : Shape { unsigned by; __device__ Shifted(unsigned b) : by(b) {}\n"
     "  __device__ __noinline__ unsigned apply(unsigned a) const override { return a + by; } };")  # fmt: skip
each("lambda", "auto f = [=](unsigned a) { return a * 5 + v; }; y[i] = f(i) ^ f(v);",
     (INDEX * 5 + BITS) ^ (BITS * 6), [BITS])  # fmt: skip
each("printf", 'y[i] = v; if (i == 3) printf("%d %f %s\\n", i, 1.5, "three");', BITS, [BITS])
each("assert_holds", "assert(i < 64); y[i] = v;", BITS, [BITS])
each("local_array",
     "unsigned a[16]; for (int k = 0; k < 16; ++k) a[k] = v * (k + 1); unsigned s = 0;\n"
     "for (int k = 0; k < 4; ++k) s += a[(v >> 4 * k) & 15]; y[i] = s;",
     (BITS * sum((BITS >> 4 * k & 15) + 1 for k in range(4))).astype("u4"), [BITS])  # fmt: skip
each("local_bytes",
     "unsigned char a[8]; for (int k = 0; k < 8; ++k) a[k] = v >> k; y[i] = a[i & 7] | a[(i + 1) & 7] << 8;",
     ((BITS >> (INDEX & 7) & 255) | (BITS >> (INDEX + 1 & 7) & 255) << 8).astype("u4"), [BITS])  # fmt: skip
each("alloca", "unsigned* a = (unsigned*)alloca(4 * (i % 5 + 1)); for (int k = 0; k <= i % 5; ++k) a[k] = v + k;\n"
     "unsigned s = 0; for (int k = 0; k <= i % 5; ++k) s += a[k]; y[i] = s;",
     (BITS * (INDEX % 5 + 1) + INDEX % 5 * (INDEX % 5 + 1) // 2).astype("u4"), [BITS])  # fmt: skip
each("switch", "switch (v % 6) { case 0: y[i] = 7; break; case 1: y[i] = v; break; case 2: y[i] = ~v; break;\n"
     "case 3: y[i] = v * v; break; case 4: y[i] = i; default: y[i] = v >> 3; }",
     numpy.choose(BITS % 6, [BITS * 0 + 7, BITS, ~BITS, BITS * BITS, BITS >> 3, BITS >> 3]).astype("u4"), [BITS])  # fmt: skip
each("switch_table", "unsigned r = v; switch (i & 7) { case 0: r += 3; break; case 1: r *= 5; break;\n"
     "case 2: r ^= 0x55; break; case 3: r = __popc(r); break; case 4: r = __brev(r); break; case 5: r >>= 7; break;\n"
     "case 6: r -= 1000; break; case 7: r = ~r; break; } y[i] = r;",
     numpy.choose(INDEX & 7, [BITS + 3, BITS * 5, BITS ^ 0x55, [int(n).bit_count() for n in BITS],
                              [int(f"{n:032b}"[::-1], 2) for n in BITS], BITS >> 7, BITS - 1000, ~BITS]).astype("u4"),
     [BITS])  # fmt: skip


def collatz(n):
    steps = 0
    while n != 1:
        n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
    return steps


each("divergent_loop", "unsigned n = v % 100 + 1, s = 0; while (n != 1) { n = n & 1 ? 3 * n + 1 : n / 2; ++s; } y[i] = s;",
     numpy.uint32([collatz(int(n) % 100 + 1) for n in BITS]), [BITS])  # fmt: skip
each("break_and_continue",
     "unsigned s = 0; for (int k = 0; k < 32; ++k) { if ((v >> k & 1) == 0) continue; if (s > 200) break; s += k; }\n"
     "y[i] = s;",
     numpy.uint32([(lambda s, n: [s := s + k if n >> k & 1 and s <= 200 else s for k in range(32)][-1])(0, int(n))
                   for n in BITS]), [BITS])  # fmt: skip
each("early_exit", "if (v & 1) return; y[i] = v;", numpy.where(BITS & 1, 0, BITS).astype("u4"), [BITS])
each("goto_loop", "unsigned a = v | 1, n = 0;\nagain: a = a * 5 + 1; if (++n < (i & 7)) goto again; y[i] = a;",
     numpy.uint32([(lambda a, n: [a := (a * 5 + 1) % 2**32 for _ in range(max(n, 1))][-1])(int(b) | 1, k & 7)
                   for k, b in enumerate(BITS)]), [BITS])  # fmt: skip
each("short_circuit", "y[i] = (v & 4) && ++v && (v & 3) ? v : v + 100;",
     numpy.where((BITS & 4 > 0) & (BITS + 1 & 3 > 0), BITS + 1, BITS + 100 + (BITS & 4 > 0)).astype("u4"), [BITS])  # fmt: skip

add(FAMILY, "struct_parameter", "const unsigned* x, Shape shape, unsigned* y",
    "int i = threadIdx.x; y[i] = x[i] * shape.factor + shape.offsets[i & 3] + (unsigned)(shape.wide >> 33);",
    [BITS, b"".join([bytes([3]), bytes(3), numpy.uint32([1, 20, 300, 4000]).tobytes(), bytes(4),
                     numpy.uint64(77 << 33).tobytes()]),
     out(BITS * 3 + numpy.uint32([1, 20, 300, 4000])[INDEX & 3] + 77, kind="u4")],
    before="struct Shape { unsigned char factor; unsigned offsets[4]; unsigned long long wide; };")  # fmt: skip
MANY = numpy.arange(900, dtype="u4") ** 2
add(FAMILY, "big_parameter", "Table table, unsigned* y", "int i = threadIdx.x; y[i] = table.numbers[i * 14];",
    [MANY.tobytes(), out(MANY[: COUNT * 14 : 14])], before="struct Table { unsigned numbers[900]; };")  # fmt: skip
add(FAMILY, "small_parameters", "signed char a, unsigned short b, bool c, double d, float e, float* y",
    "int i = threadIdx.x; y[i] = a + b * 2 + c * 1000 + (float)d + e * i;",
    [numpy.int8(-5), numpy.uint16(60000), numpy.uint8(1), numpy.float64(0.25), numpy.float32(2),
     out(-5 + 120000 + 1000 + 0.25 + 2.0 * numpy.arange(COUNT), kind="f4")])  # fmt: skip
add(FAMILY, "three_dimensions", "unsigned* y",
    "unsigned x = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;\n"
    "unsigned p = blockIdx.z * blockDim.z + threadIdx.z;\n"
    "y[(p * gridDim.y * blockDim.y + r) * gridDim.x * blockDim.x + x] = p * 10000 + r * 100 + x;",
    [out([[[p * 10000 + r * 100 + x for x in range(8)] for r in range(6)] for p in range(6)], kind="u4")],
    grid=(2, 3, 3), block=(4, 2, 2))  # fmt: skip
add(FAMILY, "unaligned_tail", "const float* x, float* y, int n",
    "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] * 2.f;",
    [NEAR, out(numpy.where(INDEX < 50, NEAR * 2, 0).astype("f4")), numpy.int32(50)], grid=3, block=20)  # fmt: skip
add(FAMILY, "grid_stride", "const unsigned* x, unsigned* y, int n",
    "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] + i;",
    [BITS, out(BITS + INDEX), numpy.int32(COUNT)], grid=2, block=8)  # fmt: skip
add(FAMILY, "restrict_pointers", "const float* __restrict__ x, const float* __restrict__ z, float* __restrict__ y",
    "int i = threadIdx.x; y[i] = x[i] + z[63 - i];",
    [NEAR, NEAR * 2, out(NEAR + NEAR[::-1] * 2)])  # fmt: skip
add(FAMILY, "indexed_loop", "const float* x, float* y, int n",
    "float s = 0; for (int k = 0; k < n; ++k) s = __fadd_rn(s, x[(threadIdx.x + k) % n]); y[threadIdx.x] = s;",
    [numpy.arange(COUNT, dtype="f4"), out(numpy.full(COUNT, COUNT * (COUNT - 1) / 2, "f4")), numpy.int32(COUNT)])  # fmt: skip
