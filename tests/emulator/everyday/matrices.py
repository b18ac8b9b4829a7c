"""Kernels of matrix products of a warp: the WMMA interface, mma.sync, and the loads and stores of its fragments."""

import numpy

from .table import add, brain, out

FAMILY = "matrices"
HEADERS = ("mma.h", "cuda_fp16.h", "cuda_bf16.h")
NAMESPACE = "using namespace nvcuda;\n"


def whole(rows, columns, low, high, step):
    """A matrix of small whole numbers, whose products are exact in every type."""
    return (numpy.arange(rows * columns).reshape(rows, columns) * step % 31 % (high - low + 1) + low).astype("i8")


# Each type: its name in C++, a function that makes its bytes of whole numbers, and their bounds.
TYPES = {
    "f16": ("__half", lambda m: m.astype("f2"), -4, 4),
    "bf16": ("__nv_bfloat16", brain, -4, 4),
    "tf32": ("float", lambda m: m.astype("f4"), -4, 4),
    "f64": ("double", lambda m: m.astype("f8"), -4, 4),
    "s8": ("signed char", lambda m: m.astype("i1"), -9, 9),
    "u8": ("unsigned char", lambda m: m.astype("u1"), 0, 15),
    "f32": ("float", lambda m: m.astype("f4"), -9, 9),
    "s32": ("int", lambda m: m.astype("i4"), -9, 9),
}


def wmma(kind, result, m, n, k, a_major="row", b_major="col", store="row", lowest=75):
    """Enters a kernel of the WMMA interface: D = A B + C."""
    element, encode, low, high = TYPES[kind]
    summed, encode_sum, *bounds = TYPES[result]
    a, b, c = whole(m, k, low, high, 7), whole(k, n, low, high, 5), whole(m, n, *bounds, 3)
    fragment = "wmma::precision::tf32" if kind == "tf32" else element
    shape = f"{m}, {n}, {k}"
    leading = {"row": lambda columns, rows: columns, "col": lambda columns, rows: rows}
    name = f"wmma_{kind}_{result}_m{m}n{n}k{k}_{a_major}_{b_major}" + ("" if store == "row" else "_store_col")
    body = (
        f"wmma::fragment<wmma::matrix_a, {shape}, {fragment}, wmma::{a_major}_major> a;\n"
        f"wmma::fragment<wmma::matrix_b, {shape}, {fragment}, wmma::{b_major}_major> b;\n"
        f"wmma::fragment<wmma::accumulator, {shape}, {summed}> c;\n"
        f"wmma::load_matrix_sync(a, x, {leading[a_major](k, m)});\n"
        f"wmma::load_matrix_sync(b, z, {leading[b_major](n, k)});\n"
        f"wmma::load_matrix_sync(c, u, {n}, wmma::mem_row_major);\n"
        + ("for (int e = 0; e < a.num_elements; ++e) a.x[e] = wmma::__float_to_tf32(a.x[e]);\n"
           "for (int e = 0; e < b.num_elements; ++e) b.x[e] = wmma::__float_to_tf32(b.x[e]);\n" if kind == "tf32" else "")
        + "wmma::mma_sync(c, a, b, c);\n"
        f"for (int e = 0; e < c.num_elements; ++e) c.x[e] = c.x[e] + c.x[e];\n"
        f"wmma::store_matrix_sync(y, c, {leading[store](n, m)}, wmma::mem_{store}_major);"
    )  # fmt: skip
    wanted = 2 * (a @ b + c)
    turned = [encode(x if major == "row" else x.T) for x, major in ((a, a_major), (b, b_major))]
    add(FAMILY, name, f"const {element}* x, const {element}* z, const {summed}* u, {summed}* y", body,
        [*turned, encode_sum(c), out(encode_sum(wanted if store == "row" else wanted.T))], block=32, headers=HEADERS,
        before=NAMESPACE, lowest=lowest)  # fmt: skip


wmma("f16", "f32", 16, 16, 16)
wmma("f16", "f32", 16, 16, 16, "col", "row")
wmma("f16", "f16", 16, 16, 16, "row", "row")
wmma("f16", "f32", 32, 8, 16)
wmma("f16", "f16", 8, 32, 16, "col", "col", "col")
wmma("bf16", "f32", 16, 16, 16, lowest=80)
wmma("bf16", "f32", 8, 32, 16, lowest=80)
wmma("tf32", "f32", 16, 16, 8, lowest=80)
wmma("s8", "s32", 16, 16, 16)
wmma("u8", "s32", 32, 8, 16, "col", "row")
wmma("f64", "f64", 8, 8, 4, lowest=80)
add(FAMILY, "wmma_in_shared_memory", "const __half* x, float* y",
    "__shared__ __align__(32) __half s[16][24]; __shared__ __align__(32) float t[16][20]; int i = threadIdx.x;\n"
    "for (int k = i; k < 256; k += 32) s[k / 16][k % 16] = x[k]; __syncwarp();\n"
    "wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;\n"
    "wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;\n"
    "wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; wmma::fill_fragment(c, 1.f);\n"
    "wmma::load_matrix_sync(a, &s[0][0], 24); wmma::load_matrix_sync(b, &s[0][0], 24); wmma::mma_sync(c, a, b, c);\n"
    "wmma::store_matrix_sync(&t[0][0], c, 20, wmma::mem_row_major); __syncwarp();\n"
    "for (int k = i; k < 256; k += 32) y[k] = t[k / 16][k % 16];",
    [(square := whole(16, 16, -4, 4, 7)).astype("f2"), out((square @ square + 1).astype("f4"))], block=32,
    headers=HEADERS, before=NAMESPACE)  # fmt: skip


def packed(matrix, bits):
    """Whole numbers of a few bits each, packed into bytes from the lowest bit on."""
    per = 8 // bits
    cut = (matrix % 2**bits).reshape(*matrix.shape[:-1], -1, per)
    return (cut << bits * numpy.arange(per)).sum(-1).astype("u1")


def e4m3(matrix):
    """Bytes of whole numbers from -16 to 16 as 8-bit floats of 3 fraction bits."""
    size = abs(matrix)
    exponent = numpy.frexp(numpy.maximum(size, 1).astype("f8"))[1] - 1
    code = (exponent + 7 << 3) + ((size / 2.0**exponent - 1) * 8).astype("i8")
    return (numpy.where(size == 0, 0, code) | (matrix < 0) << 7).astype("u1")


def e5m2(matrix):
    """Bytes of whole numbers from -8 to 8, but 5 and 7, as 8-bit floats of 2 fraction bits."""
    size = abs(matrix)
    exponent = numpy.frexp(numpy.maximum(size, 1).astype("f8"))[1] - 1
    code = (exponent + 15 << 2) + ((size / 2.0**exponent - 1) * 4).astype("i8")
    return (numpy.where(size == 0, 0, code) | (matrix < 0) << 7).astype("u1")


OPERANDS = {
    "f16": (16, lambda m: m.astype("f2"), -4, 4),
    "bf16": (16, brain, -4, 4),
    "tf32": (32, lambda m: m.astype("f4"), -4, 4),
    "s8": (8, lambda m: m.astype("i1"), -9, 9),
    "u8": (8, lambda m: m.astype("u1"), 0, 15),
    "s4": (4, lambda m: packed(m, 4), -8, 7),
    "u4": (4, lambda m: packed(m, 4), 0, 15),
    "b1": (1, lambda m: packed(m, 1), 0, 1),
    "e4m3": (8, e4m3, -4, 4),
    "e5m2": (8, e5m2, -4, 4),
}


def product(kind, k, result, m=16, other=None, lowest=80, operation="", saturated=""):
    """Enters a kernel of one mma.sync of m x 8 x k; operands are loaded by their documented places."""
    other = other or kind
    bits, encode, low, high = OPERANDS[kind]
    _, encode_other, other_low, other_high = OPERANDS[other]
    a, b_turned = whole(m, k, low, high, 7), whole(8, k, other_low, other_high, 5)
    if "popc" in operation:
        combine = numpy.bitwise_and if "and" in operation else numpy.bitwise_xor
        sums = combine(a[:, None, :], b_turned[None, :, :]).sum(-1)
    else:
        sums = a @ b_turned.T
    words = k * bits // 32  # of a row
    a_count, b_count = m // 8 * (words // 4), words // 4
    halves = result == "f16"
    c_count = m // 8 if halves else m // 4
    c = whole(m, 8, *((-9, 9) if not halves else (-4, 4)), 3)
    letter = "f" if result == "f32" else "r"
    kinds = {"f32": "float", "s32": "int", "f16": "unsigned"}
    rows_of_a = m // 8
    loads = [f"a[(g + 8 * {r % rows_of_a}) * {words} + t + 4 * {r // rows_of_a}]" for r in range(a_count)]
    loads_b = [f"b[g * {words} + t + 4 * {r}]" for r in range(b_count)]
    if halves:
        places = [f"(g + 8 * {r}) * 4 + t" for r in range(c_count)]
    else:
        places = [f"(g + 8 * {r // 2}) * 8 + 2 * t + {r % 2}" for r in range(c_count)]
    count = iter(range(100))
    lists = ["{" + ", ".join(f"%{next(count)}" for _ in range(n)) + "}" for n in (c_count, a_count, b_count, c_count)]
    shape = f"m{m}n8k{k}"
    instruction = f"mma.sync.aligned.{shape}.row.col{saturated}.{result}.{kind}.{other}.{result}{operation}"
    outputs = ", ".join(f'"={letter}"(d{r})' for r in range(c_count))
    inputs = ", ".join([f'"r"({place})' for place in loads + loads_b] + [f'"{letter}"(c[{place}])' for place in places])
    body = (
        "int g = threadIdx.x / 4, t = threadIdx.x % 4;\n"
        + f"{kinds[result]} " + ", ".join(f"d{r}" for r in range(c_count)) + ";\n"
        + f'asm volatile("{instruction} {", ".join(lists)};" : {outputs} : {inputs});\n'
        + " ".join(f"y[{place}] = d{r};" for r, place in enumerate(places))
    )  # fmt: skip
    number = {"f32": "f4", "s32": "i4", "f16": "f2"}[result]
    wanted = (sums + c).astype(number)
    name = f"mma_{shape}_{kind}_{result}" + ("" if other == kind else f"_{other}") + operation.replace(".", "_")
    add(FAMILY, name,
        f"const unsigned* a, const unsigned* b, const {kinds[result]}* c, {kinds[result]}* y", body,
        [encode(a), encode_other(b_turned), c.astype(number), out(wanted)], block=32, headers=HEADERS, lowest=lowest)  # fmt: skip


product("f16", 8, "f32", lowest=75)
product("f16", 8, "f16", lowest=75)
product("f16", 16, "f32")
product("f16", 16, "f16")
product("bf16", 8, "f32")
product("bf16", 16, "f32")
product("tf32", 4, "f32")
product("tf32", 8, "f32")
product("s8", 16, "s32", m=8, lowest=75)
product("s8", 16, "s32")
product("s8", 32, "s32")
product("u8", 32, "s32", other="s8", saturated=".satfinite")
product("s4", 32, "s32", m=8, lowest=75)
product("s4", 32, "s32")
product("s4", 64, "s32", other="u4")
product("b1", 256, "s32", operation=".and.popc")
product("e4m3", 32, "f32", lowest=89)
product("e5m2", 32, "f32", other="e4m3", lowest=89)

# A of 8 x 4 and B of 4 x 8 doubles: a number of each for every lane.
A64, B64, C64 = (
    whole(8, 4, -4, 4, 7).astype("f8"),
    whole(8, 4, -4, 4, 5).astype("f8"),
    whole(8, 8, -9, 9, 3).astype("f8"),
)
add(FAMILY, "mma_m8n8k4_f64", "const double* a, const double* b, const double* c, double* y",
    "int i = threadIdx.x; double d, e; asm volatile(\"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};\"\n"
    ': "=d"(d), "=d"(e) : "d"(a[i]), "d"(b[i]), "d"(c[2 * i]), "d"(c[2 * i + 1])); y[2 * i] = d; y[2 * i + 1] = e;',
    [A64, B64, C64, out(A64 @ B64.T + C64)], block=32, headers=HEADERS, lowest=80)  # fmt: skip

# Matrices of 8 x 8 numbers of 16 bits: lane i has two numbers of row i / 4.
ROWS = (numpy.arange(256) * 257).astype("u2").reshape(4, 8, 8)
for count, turned in ((1, ""), (2, ""), (4, ""), (4, ".trans"), (2, ".trans")):
    picked = ROWS[:count].transpose(0, 2, 1) if turned else ROWS[:count]
    registers = ", ".join(f"%{k}" for k in range(count))
    body = (
        "__shared__ __align__(16) unsigned short s[256]; int i = threadIdx.x;\n"
        "for (int k = i; k < 256; k += 32) s[k] = x[k]; __syncwarp(); unsigned r[4];\n"
        f'asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{turned}.shared.b16 {{{registers}}}, [%{count}];" : '
        + ", ".join(f'"=r"(r[{k}])' for k in range(count))
        + f' : "r"((unsigned)__cvta_generic_to_shared(s + 8 * (i % {8 * count}))) : "memory");\n'
        + f"for (int k = 0; k < {count}; ++k) y[k * 32 + i] = r[k];"
    )
    add(FAMILY, f"ldmatrix_x{count}{turned.replace('.', '_')}", "const unsigned short* x, unsigned* y", body,
        [ROWS, out(numpy.ascontiguousarray(picked).view("u4").ravel())], block=32, headers=HEADERS)  # fmt: skip
add(FAMILY, "stmatrix_x4", "const unsigned* x, unsigned short* y",
    "__shared__ __align__(16) unsigned short s[256]; int i = threadIdx.x;\n"
    'asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"((unsigned)__cvta_generic_to_shared(s + 8 * i)),\n'
    '"r"(x[i]), "r"(x[32 + i]), "r"(x[64 + i]), "r"(x[96 + i]) : "memory"); __syncwarp();\n'
    "for (int k = i; k < 256; k += 32) y[k] = s[k];",
    [ROWS, out(ROWS.ravel())], block=32, headers=HEADERS, lowest=90)  # fmt: skip
add(FAMILY, "movmatrix", "const unsigned* x, unsigned* y",
    'unsigned r; asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(x[threadIdx.x])); y[threadIdx.x] = r;',
    [ROWS[0], out(numpy.ascontiguousarray(ROWS[0].T).view("u4").ravel())], block=32, headers=HEADERS)  # fmt: skip
