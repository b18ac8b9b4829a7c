"""Kernels of binary32 functions: exponentials, angles, roots, roundings to whole numbers, and the fast ones."""

import math

import numpy

from .table import COUNT, HARD, LARGE, NEAR, OTHER_HARD, POSITIVE, UNIT, lanewise

# Half a unit is 6e-8: CUDA's guide promises 1 to 6 units in the last place, tgammaf 5, lgammaf 6 outside of zeros.
TOLERANCE = 1.5e-6
ABOVE_ONE = (POSITIVE + numpy.float32(1)).astype("f4")
scalar = numpy.vectorize


def function(name, wanted, x, tolerance=TOLERANCE, expression=None, label=None):
    result = wanted(x.astype("f8")).astype("f4")
    lanewise("mathematics", label or name.replace("__", "fast_"), expression or f"{name}(v)", result, [x], tolerance)


def pair(name, wanted, x, y, tolerance=TOLERANCE, expression=None):
    result = wanted(x.astype("f8"), y.astype("f8")).astype("f4")
    lanewise("mathematics", name.replace("__", "fast_"), expression or f"{name}(v, w)", result, [x, y], tolerance)


function("expf", numpy.exp, NEAR)
function("exp2f", numpy.exp2, NEAR)
function("exp10f", lambda v: 10**v, NEAR)
function("expm1f", numpy.expm1, NEAR)
function("logf", numpy.log, POSITIVE)
function("log2f", numpy.log2, POSITIVE)
function("log10f", numpy.log10, POSITIVE)
function("log1pf", numpy.log1p, POSITIVE)
function("sinf", numpy.sin, NEAR)
function("cosf", numpy.cos, NEAR)
function("tanf", numpy.tan, NEAR)
function("sinf", numpy.sin, LARGE * numpy.float32(1000), label="sinf_large")
function("asinf", numpy.arcsin, UNIT)
function("acosf", numpy.arccos, UNIT)
function("atanf", numpy.arctan, NEAR)
function("sinhf", numpy.sinh, NEAR)
function("coshf", numpy.cosh, NEAR)
function("tanhf", numpy.tanh, NEAR)
function("asinhf", numpy.arcsinh, NEAR)
function("acoshf", numpy.arccosh, ABOVE_ONE)
function("atanhf", numpy.arctanh, UNIT)
function("erff", scalar(math.erf), NEAR)
function("erfcf", scalar(math.erfc), NEAR)
function("normcdff", scalar(lambda v: math.erfc(-v / math.sqrt(2)) / 2), NEAR)
function("erfinvf", lambda v: v, scalar(math.erf)(UNIT).astype("f4"), expression="erff(erfinvf(v))")
function("cbrtf", numpy.cbrt, NEAR)
function("rcbrtf", lambda v: 1 / numpy.cbrt(v), POSITIVE)
function("rsqrtf", lambda v: 1 / numpy.sqrt(v), POSITIVE)
function("tgammaf", scalar(math.gamma), POSITIVE)
function("lgammaf", scalar(math.lgamma), POSITIVE)
function("sinpif", lambda v: numpy.sin(numpy.pi * v), NEAR)
function("cospif", lambda v: numpy.cos(numpy.pi * v), NEAR)
function("sigmoid", lambda v: 1 / (1 + numpy.exp(-v)), NEAR, expression="1.f / (1.f + expf(-v))")
function("softplus", lambda v: numpy.log1p(numpy.exp(v)), NEAR, expression="log1pf(expf(v))")
function(
    "gelu", scalar(lambda v: v * math.erfc(-v / math.sqrt(2)) / 2), NEAR,
    expression="0.5f * v * (1.f + erff(v * 0.70710678f))",
)  # fmt: skip
function(
    "sincosf", lambda v: numpy.sin(v) + 2 * numpy.cos(v), NEAR, 4e-6,
    expression="float s, c; sincosf(v, &s, &c); y[i] = s + 2.f * c;",
)  # fmt: skip
function("norm3df", lambda v: numpy.sqrt(v * v + 5), NEAR, expression="norm3df(v, 1.f, 2.f)")

pair("powf", numpy.power, POSITIVE, NEAR, 4e-6)
pair("hypotf", numpy.hypot, NEAR, POSITIVE)
pair("atan2f", numpy.arctan2, NEAR, HARD[:COUNT] + numpy.float32(0.03))
pair("fdimf", lambda a, b: numpy.maximum(a - b, 0), NEAR, OTHER_HARD, 0)
pair("copysignf", numpy.copysign, NEAR, HARD, 0)
pair("fmodf", numpy.fmod, LARGE, POSITIVE, 0)
pair("remainderf", scalar(math.remainder), LARGE, POSITIVE, 0)

# What IEEE 754 defines to the last bit.
lanewise("mathematics", "divide", "v / w", NEAR / POSITIVE, [NEAR, POSITIVE])
lanewise("mathematics", "square_root", "sqrtf(v)", numpy.sqrt(POSITIVE), [POSITIVE])
lanewise("mathematics", "nextafterf", "nextafterf(v, w)", numpy.nextafter(NEAR, HARD), [NEAR, HARD])
for name, of in {
    "roundf": lambda v: numpy.trunc(v + numpy.copysign(0.5, v)),
    "rintf": numpy.rint,
    "nearbyintf": numpy.rint,
    "floorf": numpy.floor,
    "ceilf": numpy.ceil,
    "truncf": numpy.trunc,
    "fabsf": numpy.abs,
}.items():
    function(name, lambda v, of=of: numpy.copysign(of(v), 0 if name == "fabsf" else v), HARD, 0)
function("saturatef", lambda v: numpy.clip(v, 0, 1) + 0.0, NEAR, 0, expression="__saturatef(v)")
function("logbf", lambda v: numpy.frexp(v)[1] - 1.0, POSITIVE, 0)
function("frexpf", lambda v: numpy.frexp(v)[0] + numpy.frexp(v)[1], NEAR, 0,
         expression="int e; float m = frexpf(v, &e); y[i] = m + e;")  # fmt: skip
function("modff", lambda v: numpy.modf(v)[0] * 4 + numpy.modf(v)[1], NEAR, 0,
         expression="float n; float m = modff(v, &n); y[i] = m * 4.f + n;")  # fmt: skip
function("ldexpf", lambda v: v * 2.0 ** (numpy.arange(COUNT) - 20), NEAR, 0, expression="ldexpf(v, i - 20)")
function("scalbnf", lambda v: v * 32, NEAR, 0, expression="scalbnf(v, 5)")
HOLES = NEAR.copy()
HOLES[::5] = numpy.nan
lanewise("mathematics", "fmaxf", "fmaxf(v, w)", numpy.fmax(HOLES, OTHER_HARD), [HOLES, OTHER_HARD])
lanewise("mathematics", "fminf", "fminf(v, w)", numpy.fmin(HOLES, OTHER_HARD), [HOLES, OTHER_HARD])
lanewise(
    "mathematics", "classes", "(isnan(v) != 0) + 2 * (isinf(w) != 0) + 4 * (isfinite(w) != 0) + 8 * (signbit(v) != 0)",
    (numpy.isnan(HOLES) + 2 * (INFINITE := numpy.arange(COUNT) % 7 == 0) + 4 * ~INFINITE
     + 8 * numpy.signbit(HOLES)).astype("i4"),
    [HOLES, numpy.where(INFINITE, -numpy.inf, NEAR).astype("f4")],
)  # fmt: skip
lanewise(
    "mathematics", "subnormal", "v * w", (HARD.astype("f8") * 1.5 * 2.0**-136).astype("f4"),
    [HARD, numpy.full(COUNT, 1.5 * 2.0**-136, "f4")],
)  # fmt: skip

# Fast functions, whose errors CUDA's guide bounds.
function("__expf", numpy.exp, NEAR, 3e-6)
function("__exp10f", lambda v: 10**v, NEAR, 4e-6)
function("__logf", numpy.log, POSITIVE, 2e-6)
function("__log2f", numpy.log2, POSITIVE, 2e-6)
function("__log10f", numpy.log10, POSITIVE, 2e-6)
function("__sinf", numpy.sin, NEAR, 2e-6)
function("__cosf", numpy.cos, NEAR, 2e-6)
function("__tanf", numpy.tan, UNIT, 4e-6)
pair("__powf", numpy.power, POSITIVE, NEAR, 8e-6)
pair("__fdividef", numpy.divide, NEAR, POSITIVE, 1e-6)
