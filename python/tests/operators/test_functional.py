"""fovea.nn.functional: it has torch's signature, and torch computes unsupported calls, with one warning per reason."""

import inspect
import pathlib
import subprocess
import sys
import warnings

import fovea.ops
import pytest
import torch
import torch.nn.functional as F
from fovea.nn.functional import scaled_dot_product_attention


@pytest.fixture(autouse=True)
def forget_warnings():
    fovea.ops._warned.clear()


@pytest.fixture
def qkv(device, half):
    return [torch.randn(2, 4, 33, 64, device=device).to(half) for _ in range(3)]


def test_signature():
    """Signature as in torch's documentation: names, order and defaults (the builtin has no inspectable ones)."""
    parameters = inspect.signature(scaled_dot_product_attention).parameters
    assert {name: p.default for name, p in parameters.items()} == {
        "query": inspect.Parameter.empty,
        "key": inspect.Parameter.empty,
        "value": inspect.Parameter.empty,
        "attn_mask": None,
        "dropout_p": 0.0,
        "is_causal": False,
        "scale": None,
        "enable_gqa": False,
    }
    text = F.scaled_dot_product_attention.__doc__.split("->")[0]
    assert all(name in text for name in parameters)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
def test_runs_fovea(qkv, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = scaled_dot_product_attention(*qkv, **options)
    assert torch.equal(got, torch.ops.fovea.attention(*qkv, **options))
    want = F.scaled_dot_product_attention(*(t.double() for t in qkv), **options)
    assert (got.double() - want).abs().max() < 5e-3


def test_grouped_heads(qkv):
    q, k, v = qkv
    got = scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    assert torch.equal(got, torch.ops.fovea.attention(q, k[:, :2], v[:, :2]))


def fallbacks(q, k, v):
    mask = torch.ones(33, 33, dtype=torch.bool, device=q.device).tril()
    return {
        "an attention mask": ((q, k, v, mask), {}),
        "dropout": ((q, k, v), {"dropout_p": 0.5}),
        "gradients": ((q.clone().requires_grad_(), k, v), {}),
        "tensors without 4 dimensions": ((q[0], k[0], v[0]), {}),
        "values whose shape differs": ((q, k, v[..., :32]), {}),
        "torch.float64": ((q.double(), k.double(), v.double()), {}),
        "broadcast heads without": ((q, k[:, :1], v[:, :1]), {}),
    }


@pytest.mark.parametrize("reason", list(fallbacks(*[torch.zeros(1, 1, 33, 64)] * 3)))
def test_falls_back_and_warns_once(qkv, reason):
    arguments, options = fallbacks(*qkv)[reason]
    for first in (True, False):
        torch.manual_seed(1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = scaled_dot_product_attention(*arguments, **options)
        ours = [w for w in caught if "fovea" in str(w.message)]
        assert len(ours) == (1 if first else 0)
        assert not first or (reason in str(ours[0].message) and ours[0].filename == __file__)
    torch.manual_seed(1)
    assert torch.equal(got, F.scaled_dot_product_attention(*arguments, **options))


@pytest.mark.parametrize(("capability", "told"), [(90, ""), (120, ""), (75, "attention needs 8.0 or later")])
def test_gpus_without_kernels(capability, told):
    """torch computes on such GPUs; tested with the stand-in for NVIDIA's driver."""
    driver = pathlib.Path(__file__).resolve().parents[3] / "build/release/tests/fakes/libcuda.so.1"
    if torch.cuda.is_available() or not driver.exists():
        pytest.skip("there is a GPU, or nothing that stands in for one")
    code = """
import ctypes, sys
ctypes.CDLL(sys.argv[1]).fake_driver_set_capability(int(sys.argv[2]))
from fovea.nn import functional
print(functional._why_no_kernels(0))
"""
    command = [sys.executable, "-c", code, driver, str(capability)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert told in printed and bool(told) == bool(printed)


def test_gradients_flow_through_the_fallback(qkv):
    q, k, v = qkv
    q.requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaled_dot_product_attention(q, k, v).float().sum().backward()
    assert q.grad is not None
    fovea.ops._warned.clear()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled_dot_product_attention(q, k, v)


def test_compiles(qkv):
    compiled = torch.compile(scaled_dot_product_attention, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*qkv), scaled_dot_product_attention(*qkv))
