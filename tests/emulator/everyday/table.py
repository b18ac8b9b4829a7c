"""Table of one-feature kernels of ordinary CUDA: what each is given and what it must compute."""

import dataclasses
import fractions
import hashlib

import numpy

# Number of elements of most kernels: two warps.
COUNT = 64
NEAR = numpy.float32([1 / 16 * k - 1.75 for k in range(COUNT)])  # -1.75 to 2.1875
POSITIVE = numpy.float32([(k + 1) / 16 for k in range(COUNT)])  # 0.0625 to 4
UNIT = (NEAR / 4).astype("f4")  # within -1 and 1
LARGE = (NEAR * 1000 + numpy.float32(0.5)).astype("f4")
INDEX = numpy.arange(COUNT, dtype="u4")
BITS = (numpy.arange(COUNT, dtype="u8") * 2654435761 % 2**32).astype("u4")
OTHER_BITS = ((numpy.arange(COUNT, dtype="u8") + 77) * 2246822519 % 2**32).astype("u4")
LONG_BITS = numpy.arange(COUNT, dtype="u8") * numpy.uint64(11400714819323198485)
OTHER_LONG_BITS = (LONG_BITS ^ numpy.uint64(0x5DEECE66D1234567)) >> (INDEX.astype("u8") % 40)
# Values at which roundings differ: thirds, halves, large and small ones, zeros.
HARD = numpy.float32(
    [s * b * 2.0**e for b in (1 / 3, 1.5, 1.0000001, 0.1) for e in (-9, -1, 0, 5) for s in (1, -1)]
    + [0.0, -0.0, 0.5, -0.5, 2.5, -2.5, 8388609, 1e-20]
    + [k * 0.7 - 8 for k in range(24)]
)
OTHER_HARD = numpy.roll(HARD, 23) + numpy.float32(0.01)


@dataclasses.dataclass(frozen=True)
class Output:
    """A buffer that the kernel fills: what must be in it, how near, and what is in it before."""

    wanted: numpy.ndarray
    tolerance: float
    initial: numpy.ndarray


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel of one feature. `arguments` are arrays (inputs), Outputs, numbers of NumPy, or bytes (a struct)."""

    name: str
    family: str
    parameters: str
    body: str
    arguments: list
    before: str = ""  # what stands before the kernel in its source
    headers: tuple = ()
    grid: tuple = (1, 1, 1)
    block: tuple = (COUNT, 1, 1)
    cluster: tuple = (1, 1, 1)
    shared_bytes: int = 0
    cooperative: bool = False
    lowest: int = 75  # compute capability times ten, of the oldest GPU that runs it

    @property
    def unit(self):
        """Name of the source in which it is compiled: kernels of a family, and those of newer GPUs apart."""
        return self.family if self.lowest <= 90 else f"{self.family}_{self.lowest}"

    @property
    def kernel(self):
        """Name of the kernel, which no function of CUDA has."""
        return f"{self.name}_kernel"

    @property
    def exact(self):
        """Whether PTX defines each bit of what it computes."""
        return all(output.tolerance == 0 for output in self.outputs)

    @property
    def outputs(self):
        return [argument for argument in self.arguments if isinstance(argument, Output)]

    def source(self):
        return (
            f"namespace in_{self.name} {{\n{self.before}\n"
            f'extern "C" __global__ void {self.kernel}({self.parameters}) {{\n{self.body}\n}}\n}}\n'
        )


CASES = {}


def out(wanted, tolerance=0.0, initial=None, kind=None):
    wanted = numpy.ascontiguousarray(wanted) if kind is None else numpy.ascontiguousarray(wanted).astype(kind)
    initial = numpy.zeros_like(wanted) if initial is None else numpy.broadcast_to(initial, wanted.shape)
    return Output(wanted, tolerance, numpy.ascontiguousarray(initial).astype(wanted.dtype))


def add(family, name, parameters, body, arguments, **more):
    """Enters a kernel into the table."""
    for size in ("grid", "block", "cluster"):
        if size in more:
            given = more[size] if isinstance(more[size], tuple) else (more[size],)
            more[size] = given + (1,) * (3 - len(given))
    assert name not in CASES, f"two kernels are called {name}"
    CASES[name] = Case(name, family, parameters, body, list(arguments), **more)


ELEMENTS = {
    "f4": "float", "f8": "double", "f2": "__half", "u1": "unsigned char", "i1": "signed char", "u2": "unsigned short",
    "i2": "short", "u4": "unsigned", "i4": "int", "u8": "unsigned long long", "i8": "long long",
}  # fmt: skip


def element(array):
    return ELEMENTS[array.dtype.str[1:]]


def lanewise(family, name, expression, wanted, inputs, tolerance=0.0, **more):
    """Enters a kernel whose thread i computes y[i] of v, w and u, elements i of the inputs."""
    names = "vwu"[: len(inputs)]
    parameters = ", ".join(f"const {element(array)}* in_{letter}" for letter, array in zip(names, inputs))
    y = out(wanted, tolerance)
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    body += "".join(f"{element(array)} {letter} = in_{letter}[i];\n" for letter, array in zip(names, inputs))
    body += expression if ";" in expression else f"y[i] = {expression};"
    add(family, name, f"{parameters}, {element(y.wanted)}* y", body, [*inputs, y], **more)


def towards(kind, exact, mode, guess):
    """The float of a kind that an exact number is rounded to; `exact(f)` is the sign of f minus that number."""
    value = numpy.dtype(kind).type(guess)
    down, up = (numpy.dtype(kind).type(sign * numpy.inf) for sign in (-1, 1))
    while exact(value) > 0:
        value = numpy.nextafter(value, down)
    while exact(numpy.nextafter(value, up)) <= 0:
        value = numpy.nextafter(value, up)
    if exact(value) == 0 or mode == "rd" or (mode == "rz" and value >= 0):
        return value
    above = numpy.nextafter(value, up)
    if mode in ("ru", "rz"):
        return above
    raise ValueError(mode)


def directed(kind, mode, numbers):
    """Fractions, rounded to floats of a kind: rn, or towards zero (rz), upwards (ru), downwards (rd)."""
    results = []
    for number in numbers:
        nearest = float(number)  # the nearest double
        if mode == "rn":
            value = numpy.dtype(kind).type(nearest)
        else:
            compare = lambda f, n=number: (lambda d: (d > 0) - (d < 0))(fractions.Fraction(float(f)) - n)  # noqa: E731
            value = towards(kind, compare, mode, nearest)
        results.append(value)
    return numpy.array(results, kind)


def exact_of(array):
    return [fractions.Fraction(float(value)) for value in array]


def brain(values):
    """Numbers rounded to bfloat16, as their bits."""
    return (brain_value(values).astype("f4").view("u4") >> 16).astype("u2")


def brain_value(values):
    """Numbers rounded to the nearest bfloat16, as float64; subnormal ones are not asked for."""
    mantissa, exponent = numpy.frexp(numpy.asarray(values, "f8"))
    return numpy.ldexp(numpy.rint(mantissa * 256), exponent - 8)


def digest(case):
    """What tells a kernel and its inputs from those of an older table."""
    told = hashlib.sha256(case.source().encode())
    for argument in case.arguments:
        given = argument.initial if isinstance(argument, Output) else argument
        told.update(given if isinstance(given, bytes) else given.tobytes())
    told.update(repr((case.grid, case.block, case.cluster, case.shared_bytes, case.cooperative)).encode())
    return told.hexdigest()[:16]


def difference(output, data, wanted=None):
    """What is wrong with the bytes that a kernel left in an output, or nothing."""
    wanted = output.wanted if wanted is None else wanted
    data = numpy.frombuffer(data, wanted.dtype).reshape(wanted.shape)
    if output.tolerance == 0:
        wrong = (data.view(f"u{data.itemsize}") != wanted.view(f"u{data.itemsize}")).ravel()
    else:
        with numpy.errstate(invalid="ignore"):
            apart = abs(data.astype("f8") - wanted.astype("f8"))
            near = apart <= output.tolerance * (1 + abs(wanted.astype("f8")))
        wrong = ~(near | (numpy.isnan(data) & numpy.isnan(wanted)) | (data == wanted)).ravel()
    if not wrong.any():
        return None
    at = int(numpy.argmax(wrong))
    return f"{wrong.sum()} of {wrong.size} wrong, the first at {at}: {data.ravel()[at]!r}, not {wanted.ravel()[at]!r}"
