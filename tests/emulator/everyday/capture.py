"""Runs the kernels of everyday CUDA on a GPU and writes the bytes that each leaves in its outputs.

python3 tests/emulator/everyday/compile.py build/everyday --cubins       # where a compiler is
python3 tests/emulator/everyday/capture.py build/everyday h200.json      # where a GPU is: needs NumPy and libcuda alone

UNIT.cubin is loaded where there is one, else UNIT.ptx, which the driver compiles. A kernel that fails or does not end
within 8 seconds is written down with the reason, and the others run.
"""

import argparse
import base64
import ctypes
import datetime
import json
import pathlib
import queue
import subprocess
import sys
import threading
import time

import numpy

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

import faults  # noqa: E402

import everyday  # noqa: E402
from everyday.table import Output, difference, digest  # noqa: E402

SECONDS = 8  # for a kernel, the start of a process included


class CudaError(Exception):
    pass


class Attribute(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class Configuration(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("attribute_count", ctypes.c_uint),
    ]


COOPERATIVE, CLUSTER_DIMENSION = 2, 4  # of CUlaunchAttributeID
MAX_DYNAMIC_SHARED = 8  # of CUfunction_attribute


class Gpu:
    """The first GPU, by the driver's interface."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.device = device
        self.modules = {}

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise CudaError(f"{name}: {(text.value or b'error').decode()} ({code})")

    def describe(self):
        name, version = ctypes.create_string_buffer(100), ctypes.c_int()
        self.call("cuDeviceGetName", name, 100, self.device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        numbers = [ctypes.c_int(), ctypes.c_int()]
        for number, attribute in zip(numbers, (75, 76)):  # compute capability
            self.call("cuDeviceGetAttribute", ctypes.byref(number), attribute, self.device)
        return {
            "gpu": name.value.decode(),
            "compute_capability": f"{numbers[0].value}.{numbers[1].value}",
            "cuda_of_driver": version.value,
        }

    def module(self, folder, unit):
        if unit not in self.modules:
            path = next(p for p in (folder / f"{unit}.cubin", folder / f"{unit}.ptx") if p.exists())
            module = ctypes.c_void_p()
            self.call("cuModuleLoadData", ctypes.byref(module), path.read_bytes() + b"\0")
            self.modules[unit] = module
        return self.modules[unit]

    def buffer(self, content):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(1, len(content))))
        self.call("cuMemcpyHtoD_v2", address, content, ctypes.c_size_t(len(content)))
        return address

    def run(self, folder, case):
        """The bytes of each output of a kernel."""
        function = ctypes.c_void_p()
        module = self.module(folder, case.unit)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, case.kernel.encode())
        if case.shared_bytes:
            self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, case.shared_bytes)
        values, results = [], []
        for argument in case.arguments:
            if isinstance(argument, Output):
                values.append(self.buffer(argument.initial.tobytes()))
                results.append((values[-1], argument.initial.nbytes))
            elif isinstance(argument, numpy.ndarray):
                values.append(self.buffer(argument.tobytes()))
            else:
                data = argument if isinstance(argument, bytes) else argument.tobytes()
                values.append(ctypes.create_string_buffer(data, len(data)))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values))
        configuration = Configuration()
        configuration.grid[:], configuration.block[:] = case.grid, case.block
        configuration.shared_bytes = case.shared_bytes
        attributes = (Attribute * 2)()
        if case.cluster != (1, 1, 1):
            attributes[0].kind, attributes[0].value[:3] = CLUSTER_DIMENSION, case.cluster
            configuration.attribute_count = 1
        if case.cooperative:
            attributes[configuration.attribute_count].kind = COOPERATIVE
            attributes[configuration.attribute_count].value[0] = 1
            configuration.attribute_count += 1
        configuration.attributes = attributes
        self.call("cuLaunchKernelEx", ctypes.byref(configuration), function, pointers, None)
        self.call("cuCtxSynchronize")
        outputs = []
        for address, size in results:
            data = ctypes.create_string_buffer(size)
            self.call("cuMemcpyDtoH_v2", data, address, ctypes.c_size_t(size))
            outputs.append(data.raw)
        return outputs


def work(folder, names, cases):
    """Runs kernels in this process, a line of JSON for each; ends at the first that fails, for the context is lost."""
    gpu = Gpu()
    for name in names:
        try:
            outputs = gpu.run(folder, cases[name])
        except CudaError as error:
            print(json.dumps({"name": name, "error": str(error)}), flush=True)
            return
        told = {"name": name, "outputs": [base64.b64encode(data).decode() for data in outputs]}
        print("\n" + json.dumps(told), flush=True)  # behind what kernels print


def run_apart(folder, names, *flags):
    """Yields what each kernel left, in processes that are started anew after one that failed."""
    left = list(names)
    while left:
        command = [sys.executable, __file__, str(folder), "-", *flags, "--work", *left]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace")
        lines = queue.Queue()
        threading.Thread(target=lambda p=process, q=lines: [*map(q.put, p.stdout), q.put(None)], daemon=True).start()
        while left:
            try:
                line = lines.get(timeout=SECONDS)
            except queue.Empty:
                process.kill()
                yield {"name": left.pop(0), "error": f"did not end within {SECONDS} seconds"}
                break
            if line is None:
                yield {"name": left.pop(0), "error": f"the process ended with {process.wait()}"}
                break
            if line.startswith('{"name"'):
                told = json.loads(line)
                assert told["name"] == left.pop(0)
                yield told
                if "error" in told:
                    break
        process.kill()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="with UNIT.cubin or UNIT.ptx")
    parser.add_argument("output", help="the JSON file that is written")
    parser.add_argument("--only", nargs="*", help="names of kernels")
    parser.add_argument("--most-seconds", type=float, default=150)
    parser.add_argument("--faults", action="store_true", help="the right kernels of the table of faults instead")
    parser.add_argument("--work", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    cases = faults.RIGHT if options.faults else everyday.CASES
    if options.work is not None:
        return work(options.folder, options.work, cases)
    compiled = {path.stem for path in options.folder.iterdir() if path.suffix in (".cubin", ".ptx")}
    names = options.only or [name for name, case in cases.items() if case.unit in compiled and case.lowest <= 90]
    kernels, wrong, failed = {}, [], []
    end = time.monotonic() + options.most_seconds
    for told in run_apart(options.folder, names, *(["--faults"] if options.faults else [])):
        name = told.pop("name")
        kernels[name] = {"digest": digest(cases[name])} | told
        if "error" in told:
            failed.append(f"{name}: {told['error']}")
            continue
        for output, data in zip(cases[name].outputs, told["outputs"]):
            if said := difference(output, base64.b64decode(data)):
                wrong.append(f"{name}: {said}")
        if time.monotonic() > end:
            failed.append(
                f"{len(names) - len(kernels)} kernels that were not reached in {options.most_seconds} seconds"
            )
            break
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    result = Gpu().describe() | {"date": date, "kernels": kernels}
    text = json.dumps(result, indent=0).replace('",\n"', '", "').replace("{\n", "{").replace("\n}", "}")
    pathlib.Path(options.output).write_text(text.replace("[\n", "[").replace("\n]", "]") + "\n")
    print(*(f"failed: {line}" for line in failed), *(f"not as wanted: {line}" for line in wrong), sep="\n")
    print(f"{len(kernels)} kernels, {len(failed)} failed, {len(wrong)} outputs not as wanted: {options.output}")


if __name__ == "__main__":
    main()
