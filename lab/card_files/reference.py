"""Evaluates the expression of a card file, in float64 and in float32; the question is a JSON file, whose name is the
only argument. Run by `fovea kernel`."""

import json
import math
import sys

import numpy as np


def erf(x):
    """Returns the error function of each element, in the type of `x`."""
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        if isinstance(x, torch.Tensor):
            return torch.erf(x)
    x = np.asarray(x)
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def gelu(x, approximate="none"):
    """Returns GELU of each element, as torch.nn.functional.gelu does."""
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def relu(x):
    """Returns x where it is positive, else 0."""
    return np.maximum(x, 0)


def sigmoid(x):
    """Returns 1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def silu(x):
    """Returns x * sigmoid(x)."""
    return x * sigmoid(x)


def softmax(x, axis=-1):
    """Returns exp(x) divided by its sum along an axis."""
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def layer_norm(x, weight=1, bias=0, eps=1e-5):
    """Returns rows with a mean of 0 and a variance of 1, times `weight`, plus `bias`."""
    mean = np.mean(x, axis=-1, keepdims=True)
    variance = np.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


def rms_norm(x, weight=1, eps=1e-5):
    """Returns rows with a mean square of 1, times `weight`."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


FUNCTIONS = {f.__name__: f for f in (erf, gelu, relu, sigmoid, silu, softmax, layer_norm, rms_norm)}


def results(question):
    """Returns the flat results in float64 and in float32, both as arrays of float64."""
    uses_torch = "torch" in question["expression"]
    if uses_torch:
        import torch
    answers = []
    for kind in (np.float64, np.float32):
        names = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")} | FUNCTIONS | {"np": np}
        names |= question["problem"]
        for name, array in question["inputs"].items():
            value = np.fromfile(array["file"], np.float64).reshape(array["shape"])
            value = value.astype(kind if array["real"] else np.int64)
            names[name] = torch.from_numpy(value) if uses_torch else value
        if uses_torch:
            names |= {"torch": torch, "F": torch.nn.functional}
        with np.errstate(all="ignore"):
            answer = np.asarray(eval(question["expression"], names))
        if list(answer.shape) != question["shape"]:
            raise ValueError(f"the result has the shape {list(answer.shape)}, and the output {question['shape']}")
        answers.append(answer.astype(np.float64).ravel())
    return answers


def main():
    """Reads the question, and writes the results to its file one behind the other. Returns an exit code."""
    with open(sys.argv[1]) as file:
        question = json.load(file)
    try:
        np.concatenate(results(question)).tofile(question["output"])
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
