"""Kernels of binary16, bfloat16 and 8-bit floats: arithmetic, functions, comparisons, conversions, pairs."""

import numpy

from .table import COUNT, HARD, NEAR, OTHER_HARD, POSITIVE, add, brain, lanewise, out

FAMILY = "halves"
HEADERS = ("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h")
A, B = (NEAR * 3).astype("f2"), (OTHER_HARD[::-1].clip(-100, 100)).astype("f2")
P = POSITIVE.astype("f2")
WIDE_A, WIDE_B = A.astype("f8"), B.astype("f8")


def half(name, expression, wanted, inputs=(A, B), tolerance=0.0, lowest=75):
    """Enters a kernel of halves; near results are compared as float."""
    wanted = numpy.asarray(wanted)
    if tolerance:
        expression, wanted = f"__half2float({expression})", wanted.astype("f4")
    elif wanted.dtype == numpy.float64:
        wanted = wanted.astype("f2")
    lanewise(FAMILY, name, expression, wanted, list(inputs), tolerance, headers=HEADERS, lowest=lowest)


half("half_add", "__hadd(v, w)", WIDE_A + WIDE_B)
half("half_subtract", "__hsub(v, w)", WIDE_A - WIDE_B)
half("half_multiply", "__hmul(v, w)", WIDE_A * WIDE_B)
half("half_operators", "-(v * w)", -(WIDE_A * WIDE_B))
half("half_divide", "__hdiv(v, w)", WIDE_A / WIDE_B, tolerance=1e-3)
half("half_fma", "__hfma(v, w, v)", WIDE_A * WIDE_B + WIDE_A)
half("half_add_sat", "__hadd_sat(v, w)", (WIDE_A + WIDE_B).clip(0, 1) + 0.0)
half("half_fma_sat", "__hfma_sat(v, w, v)", (WIDE_A * WIDE_B + WIDE_A).clip(0, 1) + 0.0)
half("half_fma_relu", "__hfma_relu(v, w, v)", (WIDE_A * WIDE_B + WIDE_A).clip(0, None) + 0.0, lowest=80)
half("half_negate", "__hneg(v)", -WIDE_A)
half("half_absolute", "__habs(v)", abs(WIDE_A))
half("half_maximum", "__hmax(v, w)", numpy.maximum(A, B), lowest=80)
half("half_minimum", "__hmin(v, w)", numpy.minimum(A, B), lowest=80)
half("half_maximum_nan", "__hmax_nan(v, w)", numpy.maximum(A, B), lowest=80)
for name, of, x in [
    ("hexp", numpy.exp, A),
    ("hexp2", numpy.exp2, A),
    ("hlog", numpy.log, P),
    ("hlog2", numpy.log2, P),
    ("hsin", numpy.sin, A),
    ("hcos", numpy.cos, A),
    ("hsqrt", numpy.sqrt, P),
    ("hrsqrt", lambda v: 1 / numpy.sqrt(v), P),
    ("hrcp", lambda v: 1 / v, P),
    ("htanh", numpy.tanh, A),
]:
    half(name, f"{name}(v)", of(x.astype("f8")), [x], 2e-3)
for name, of in {"hfloor": numpy.floor, "hceil": numpy.ceil, "hrint": numpy.rint, "htrunc": numpy.trunc}.items():
    half(name, f"{name}(v)", numpy.copysign(of(WIDE_A), WIDE_A), [A])
half("half_compare", "(unsigned)(__hlt(v, w) + 2 * __hge(v, w) + 4 * __heq(v, v) + 8 * __hisnan(w))",
     ((A < B) + 2 * (A >= B) + 4).astype("u4"))  # fmt: skip
half("half_from_float", "__float2half(v * 100.f)", (HARD * numpy.float32(100)).clip(-6e4, 6e4).astype("f2"),
     [HARD.clip(-600, 600)])  # fmt: skip
half("half_to_float", "__half2float(v)", A.astype("f4"), [A])
half("half_to_int", "__half2int_rn(v) + 100 * __half2int_rd(v)", (numpy.rint(WIDE_A) + 100 * numpy.floor(WIDE_A))
     .astype("i4"), [A])  # fmt: skip
half("half_to_short", "(short)__half2short_rz(v)", numpy.trunc(WIDE_A).astype("i2"), [A])
half("half_from_int", "__int2half_rn(v)", (numpy.arange(COUNT) * 97 - 3000).astype("f8"),
     [(numpy.arange(COUNT) * 97 - 3000).astype("i4")])  # fmt: skip
half("half_from_double", "__double2half(v)", (NEAR / 3).astype("f8").astype("f2"), [(NEAR / 3).astype("f8")])
half("half_bits", "(unsigned short)(__half_as_ushort(v) ^ 0x8000)", (-A).view("u2"), [A])


def toward(values, mode):
    """Halves of doubles, rounded in a direction."""
    nearest = values.astype("f2")
    low = numpy.where(nearest > values, numpy.nextafter(nearest, numpy.float16(-numpy.inf)), nearest)
    high = numpy.where(nearest < values, numpy.nextafter(nearest, numpy.float16(numpy.inf)), nearest)
    return {"rd": low, "ru": high, "rz": numpy.where(values < 0, high, low)}[mode].astype("f2")


ODD = ((NEAR + numpy.float32(2)) / 3).astype("f4") * numpy.where(numpy.arange(COUNT) % 2, 1, -1).astype("f4")
for mode in ("rz", "ru", "rd"):
    half(f"half_from_float_{mode}", f"__float2half_{mode}(v)", toward(ODD.astype("f8"), mode), [ODD])

PAIRS = "const __half2* x, const __half2* z, __half2* y"
FIRST, SECOND = A.reshape(-1, 2), B.reshape(-1, 2)
WIDE_FIRST, WIDE_SECOND = FIRST.astype("f8"), SECOND.astype("f8")
for name, expression, wanted in [
    ("half2_add", "__hadd2(v, w)", WIDE_FIRST + WIDE_SECOND),
    ("half2_multiply", "__hmul2(v, w)", WIDE_FIRST * WIDE_SECOND),
    ("half2_fma", "__hfma2(v, w, v)", WIDE_FIRST * WIDE_SECOND + WIDE_FIRST),
    ("half2_maximum", "__hmax2(v, w)", numpy.maximum(FIRST, SECOND)),
    ("half2_greater", "__hgt2(v, w)", (FIRST > SECOND).astype("f2")),
    ("half2_swap", "__lowhigh2highlow(v)", FIRST[:, ::-1]),
    ("half2_mix", "__halves2half2(__low2half(v), __high2half(w))", numpy.stack([FIRST[:, 0], SECOND[:, 1]], 1)),
]:
    more = {"headers": HEADERS, "block": COUNT // 2, "lowest": 80 if "max" in name else 75}
    body = f"int i = threadIdx.x; __half2 v = x[i], w = z[i]; y[i] = {expression};"
    add(FAMILY, name, PAIRS, body, [FIRST, SECOND, out(wanted, kind="f2")], **more)
lanewise(FAMILY, "half2_from_floats", "__half2 r = __floats2half2_rn(v, w); float2 f = __half22float2(r); y[i] = f.x - f.y;",
         NEAR.astype("f2").astype("f4") - (NEAR / 3).astype("f2").astype("f4"), [NEAR, (NEAR / 3).astype("f4")],
         headers=HEADERS)  # fmt: skip
add(
    FAMILY, "half2_exponential", "const __half2* x, float2* y",
    "int i = threadIdx.x; y[i] = __half22float2(h2exp(x[i]));",
    [FIRST, out(numpy.exp(WIDE_FIRST), 2e-3, kind="f4")], headers=HEADERS, block=COUNT // 2,
)  # fmt: skip

# Numbers of bfloat16 travel as their bits.
C, D = brain(NEAR * 3), brain(OTHER_HARD[::-1].clip(-100, 100))
Q = brain(POSITIVE)
WIDE_C, WIDE_D, WIDE_Q = ((x.astype("u4") << 16).view("f4").astype("f8") for x in (C, D, Q))


def bfloat(name, expression, wanted, inputs=(C, D), tolerance=0.0, lowest=80):
    """Enters a kernel of bfloat16 numbers a and b."""
    body = "__nv_bfloat16 a = __ushort_as_bfloat16(v); "
    body += "__nv_bfloat16 b = __ushort_as_bfloat16(w); " if len(inputs) > 1 else ""
    if tolerance:
        body, wanted = body + f"y[i] = __bfloat162float({expression});", wanted.astype("f4")
    else:
        body, wanted = body + f"y[i] = __bfloat16_as_ushort({expression});", brain(wanted)
    lanewise(FAMILY, name, body, wanted, list(inputs), tolerance, headers=HEADERS, lowest=lowest)


bfloat("bfloat_add", "__hadd(a, b)", WIDE_C + WIDE_D)
bfloat("bfloat_multiply", "__hmul(a, b)", WIDE_C * WIDE_D)
bfloat("bfloat_fma", "__hfma(a, b, a)", WIDE_C * WIDE_D + WIDE_C)
bfloat("bfloat_operators", "-(a * b)", -(WIDE_C * WIDE_D))
bfloat("bfloat_divide", "__hdiv(a, b)", WIDE_C / WIDE_D, tolerance=8e-3)
bfloat("bfloat_maximum", "__hmax(a, b)", numpy.maximum(WIDE_C, WIDE_D))
bfloat("bfloat_negate", "__hneg(a)", -WIDE_C, [C])
bfloat("bfloat_exponential", "hexp(a)", numpy.exp(WIDE_C), [C], 1e-2)
bfloat("bfloat_logarithm", "hlog(a)", numpy.log(WIDE_Q), [Q], 1e-2)
bfloat("bfloat_square_root", "hsqrt(a)", numpy.sqrt(WIDE_Q), [Q], 1e-2)
bfloat("bfloat_rint", "hrint(a)", numpy.rint(WIDE_C), [C])
lanewise(FAMILY, "bfloat_from_float", "__bfloat16_as_ushort(__float2bfloat16(v))", brain(NEAR / 3),
         [(NEAR / 3).astype("f4")], headers=HEADERS)  # fmt: skip
lanewise(FAMILY, "bfloat_from_float_rz", "__bfloat16_as_ushort(__float2bfloat16_rz(v))",
         (ODD.view("u4") >> 16).astype("u2"), [ODD], headers=HEADERS)  # fmt: skip
lanewise(FAMILY, "bfloat_to_float", "__bfloat162float(__ushort_as_bfloat16(v))", WIDE_C.astype("f4"), [C],
         headers=HEADERS)  # fmt: skip
lanewise(FAMILY, "bfloat_to_int", "__bfloat162int_rz(__ushort_as_bfloat16(v))", numpy.trunc(WIDE_C).astype("i4"), [C],
         headers=HEADERS)  # fmt: skip
add(
    FAMILY, "bfloat2_fma", "const __nv_bfloat162* x, const __nv_bfloat162* z, __nv_bfloat162* y",
    "int i = threadIdx.x; y[i] = __hfma2(x[i], z[i], x[i]);",
    [C, D, out(brain(WIDE_C * WIDE_D + WIDE_C))], headers=HEADERS, block=COUNT // 2, lowest=80,
)  # fmt: skip


def short_float(values, fraction_bits, least, largest):
    """Numbers rounded to the nearest of so many fraction bits, as float: subnormal below `least`, clamped."""
    exponent = numpy.maximum(numpy.frexp(values)[1] - 1, least)
    step = numpy.ldexp(1.0, exponent - fraction_bits)
    return (numpy.rint(values / step) * step).clip(-largest, largest).astype("f4")


EIGHT = (ODD * 400).astype("f4")
for kind, parameters in {"e4m3": (3, -6, 448), "e5m2": (2, -14, 57344)}.items():
    lanewise(FAMILY, f"eight_bits_{kind}", f"(float)__nv_fp8_{kind}(v)",
             short_float(EIGHT.astype("f8"), *parameters), [EIGHT], headers=HEADERS, lowest=89)  # fmt: skip
