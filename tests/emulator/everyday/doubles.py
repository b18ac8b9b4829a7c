"""Kernels of binary64: functions, arithmetic, roundings."""

import math

import numpy

from .table import HARD, LARGE, NEAR, OTHER_HARD, POSITIVE, UNIT, directed, exact_of, lanewise

NEAR, POSITIVE, UNIT, LARGE = (numpy.float64(x) * 1.1 for x in (NEAR, POSITIVE, UNIT, LARGE))
HARD, OTHER_HARD = (numpy.float64(x) / 3 for x in (HARD, OTHER_HARD))
TOLERANCE = 1e-14
scalar = numpy.vectorize

for name, of, x in [
    ("exp", numpy.exp, NEAR),
    ("exp2", numpy.exp2, NEAR),
    ("expm1", numpy.expm1, NEAR),
    ("log", numpy.log, POSITIVE),
    ("log2", numpy.log2, POSITIVE),
    ("log1p", numpy.log1p, POSITIVE),
    ("sin", numpy.sin, NEAR),
    ("cos", numpy.cos, NEAR),
    ("tan", numpy.tan, UNIT),
    ("asin", numpy.arcsin, UNIT),
    ("atan", numpy.arctan, NEAR),
    ("sinh", numpy.sinh, NEAR),
    ("tanh", numpy.tanh, NEAR),
    ("erf", scalar(math.erf), NEAR),
    ("cbrt", numpy.cbrt, NEAR),
    ("rsqrt", lambda v: 1 / numpy.sqrt(v), POSITIVE),
    ("tgamma", scalar(math.gamma), POSITIVE),
    ("sinpi", lambda v: numpy.sin(numpy.pi * v), UNIT),
]:
    lanewise("doubles", f"double_{name}", f"{name}(v)", of(x), [x], TOLERANCE)
for name, of, x, y in [
    ("pow", numpy.power, POSITIVE, NEAR),
    ("hypot", numpy.hypot, NEAR, POSITIVE),
    ("atan2", numpy.arctan2, NEAR, POSITIVE),
]:
    lanewise("doubles", f"double_{name}", f"{name}(v, w)", of(x, y), [x, y], TOLERANCE)
for name, expression, wanted in [
    ("add", "__dadd_rn(v, w)", HARD + OTHER_HARD),
    ("multiply", "__dmul_rn(v, w)", HARD * OTHER_HARD),
    ("divide", "v / w", HARD / OTHER_HARD),
    ("fmod", "fmod(v, w)", numpy.fmod(HARD, OTHER_HARD)),
    ("maximum", "fmax(v, w) - fmin(v, w)", numpy.maximum(HARD, OTHER_HARD) - numpy.minimum(HARD, OTHER_HARD)),
]:
    lanewise("doubles", f"double_{name}", expression, wanted, [HARD, OTHER_HARD])
lanewise("doubles", "double_square_root", "sqrt(v)", numpy.sqrt(POSITIVE), [POSITIVE])
lanewise("doubles", "double_reciprocal", "__drcp_rn(v)", 1 / POSITIVE, [POSITIVE])
lanewise(
    "doubles", "double_to_whole", "floor(v) + 3 * rint(v) + 7 * ceil(v) + 11 * trunc(v)",
    numpy.floor(LARGE) + 3 * numpy.rint(LARGE) + 7 * numpy.ceil(LARGE) + 11 * numpy.trunc(LARGE), [LARGE],
)  # fmt: skip
for mode in ("rz", "ru", "rd"):
    a, b = exact_of(HARD), exact_of(OTHER_HARD)
    lanewise("doubles", f"double_add_{mode}", f"__dadd_{mode}(v, w)",
             directed("f8", mode, [x + y for x, y in zip(a, b)]), [HARD, OTHER_HARD])  # fmt: skip
    lanewise("doubles", f"double_fma_{mode}", f"__fma_{mode}(v, w, 0.1)",
             directed("f8", mode, [x * y + exact_of([0.1])[0] for x, y in zip(a, b)]), [HARD, OTHER_HARD])  # fmt: skip
lanewise(
    "doubles", "double_fma", "fma(v, w, v)",
    numpy.where(HARD == 0, HARD * OTHER_HARD + HARD,
                directed("f8", "rn", [x * y + x for x, y in zip(exact_of(HARD), exact_of(OTHER_HARD))])),
    [HARD, OTHER_HARD],
)  # fmt: skip
