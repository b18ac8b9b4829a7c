"""Compares patch_embed, linear and layer_norm with float64; torch's result of the same type sets the limit."""

import fovea.ops
import pytest
import torch
import torch.nn.functional as F
from fovea.lab._numerics import judge


def types_of(device):
    return [torch.bfloat16] if device == "cuda" else [torch.float32, torch.bfloat16, torch.float16]


def check(got, want, peer, terms=1):
    verdict = judge(got, want, peer, terms)
    assert verdict.passed, verdict.failures


def gelu(x):
    return F.gelu(x, approximate="tanh")


@pytest.mark.parametrize("epilogue", ["none", "bias", "gelu", "residual"])
@pytest.mark.parametrize(("rows", "inner", "out"), [((3, 65), 96, 64), ((1,), 768, 3072), ((2, 7, 5), 144, 208)])
def test_linear(device, rows, inner, out, epilogue):
    for dtype in types_of(device):
        x = torch.randn(*rows, inner, device=device).to(dtype)
        weight = (torch.randn(out, inner, device=device) / inner**0.5).to(dtype)
        bias = None if epilogue == "none" else torch.randn(out, device=device).to(dtype)
        residual = torch.randn(*rows, out, device=device).to(dtype) if epilogue == "residual" else None

        def compute(x, weight, bias, residual):
            y = F.linear(x, weight, bias)
            if epilogue == "gelu":
                return gelu(y)
            return y if residual is None else y + residual

        wide = [None if t is None else t.double() for t in (x, weight, bias, residual)]
        want = compute(*wide)
        peer = compute(x, weight, bias, residual)
        kept = None if residual is None else residual.clone()
        got = torch.ops.fovea.linear(x, weight, bias, residual, epilogue == "gelu")
        assert got.dtype == dtype
        check(got, want, peer, inner)
        if residual is not None:
            assert torch.equal(residual, kept)  # the operator is functional
        if bias is not None:
            check(torch.ops.fovea.linear(x, weight, bias.float(), residual, epilogue == "gelu"), want, peer, inner)
            without = judge(torch.ops.fovea.linear(x, weight, None, residual, epilogue == "gelu"), want, peer, inner)
            assert not without.passed


def test_linear_strides(device):
    dtype = types_of(device)[0]
    x = torch.randn(64, 10, device=device).to(dtype).t()
    weight = torch.randn(64, 48, device=device).to(dtype).t()
    want = torch.ops.fovea.linear(x.contiguous(), weight.contiguous())
    assert torch.equal(torch.ops.fovea.linear(x, weight), want)


@pytest.mark.parametrize(("images", "tokens", "inner", "out"), [(2, 196, 768, 64), (5, 9, 48, 80), (1, 256, 192, 96)])
def test_patch_embed(device, images, tokens, inner, out):
    for dtype in types_of(device):
        patches = torch.randn(images, tokens, inner, device=device).to(dtype)
        weight = (torch.randn(out, inner, device=device) / inner**0.5).to(dtype)
        position = torch.randn(tokens, out, device=device).to(dtype)
        bias = torch.randn(out, device=device).to(dtype)
        want = patches.double() @ weight.double().T + position.double()
        peer = F.linear(patches, weight) + position
        check(torch.ops.fovea.patch_embed(patches, weight, position), want, peer, inner)
        with_bias = fovea.ops.patch_embed(patches, weight, position, bias)
        check(with_bias, want + bias.double(), F.linear(patches, weight, bias) + position, inner)
        shifted = torch.ops.fovea.patch_embed(patches, weight, position.roll(1, 0))
        assert not judge(shifted, want, peer, inner).passed


def test_patch_embed_of_pixels(device):
    images, tokens, inner, out = 3, 16, 192, 64
    patches = torch.randint(0, 256, (images, tokens, inner), dtype=torch.uint8, device=device)
    weight = torch.randint(-127, 128, (out, inner), dtype=torch.int8, device=device)
    scale = torch.rand(out, device=device) * 1e-4 + 1e-5
    position = torch.randn(tokens, out, device=device).bfloat16()
    want = (patches.double() @ weight.double().T) * scale.double() + position.double()
    got = torch.ops.fovea.patch_embed(patches, weight, position, scale)
    assert got.dtype == torch.bfloat16
    check(got, want, want.bfloat16())
    doubled = torch.ops.fovea.patch_embed(patches, weight, position, scale * 2)
    assert not judge(doubled, want, want.bfloat16()).passed


@pytest.mark.parametrize(("rows", "width"), [((3, 65), 768), ((1,), 1152), ((100,), 8), ((2, 2), 96)])
def test_layer_norm(device, rows, width):
    for dtype in [torch.float32, *types_of(device)]:
        x = (torch.randn(*rows, width, device=device) * 3 + 2).to(dtype)
        weight = torch.rand(width, device=device) + 0.5
        bias = torch.randn(width, device=device)
        want = F.layer_norm(x.double(), (width,), weight.double(), bias.double(), 1e-6)
        peer = F.layer_norm(x.float(), (width,), weight, bias, 1e-6).to(dtype)
        got = torch.ops.fovea.layer_norm(x, weight, bias)
        assert got.dtype == dtype
        check(got, want, peer)
        assert not judge(torch.ops.fovea.layer_norm(x, weight, bias, 9.0), want, peer).passed
        spread = x.unsqueeze(-1).expand(*x.shape, 2)[..., 1]
        assert torch.equal(torch.ops.fovea.layer_norm(spread, weight, bias), got)


def test_empty(device):
    dtype = types_of(device)[0]
    weight = torch.randn(32, 48, device=device).to(dtype)
    assert torch.ops.fovea.linear(torch.empty(0, 48, device=device, dtype=dtype), weight).shape == (0, 32)
    ones = torch.ones(48, device=device)
    assert torch.ops.fovea.layer_norm(torch.empty(2, 0, 48, device=device, dtype=dtype), ones, ones).shape == (2, 0, 48)


def test_wrong_operands(device):
    dtype = types_of(device)[0]
    x = torch.randn(4, 48, device=device).to(dtype)
    weight = torch.randn(32, 48, device=device).to(dtype)
    bias = torch.randn(32, device=device)
    ops = torch.ops.fovea
    for call, message in [
        (lambda: ops.linear(x, weight[:, 1:]), "do not fit"),
        (lambda: ops.linear(x, weight, bias[1:]), "the shape \\[out\\]"),
        (lambda: ops.linear(x, weight, bias, x), "output's shape"),
        (lambda: ops.linear(x, weight, bias, torch.zeros(4, 32, device=device).to(dtype), True), "exclude each other"),
        (lambda: ops.linear(x, weight.double()), "unsupported type"),
        (lambda: ops.linear(x.to(torch.uint8), weight), "float16"),
        (lambda: ops.layer_norm(x, bias, bias), "do not fit"),
        (lambda: ops.layer_norm(x, bias.double(), bias), "do not fit"),
        (lambda: ops.patch_embed(x[None], weight, bias[None]), "do not fit"),
        (lambda: ops.patch_embed(x[None], weight, weight[:4, :32].contiguous(), bias), "a scale requires"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            call()


def test_layers_without_a_kernel_are_torchs_own(cuda):
    """Types other than bfloat16 have no matrix kernels on GPUs: torch's operators run, with one warning."""
    fovea.ops._warned.clear()
    x = torch.randn(4, 48, device=cuda).half()
    weight = torch.randn(32, 48, device=cuda).half()
    with pytest.warns(UserWarning, match="no kernel for torch.float16"):
        got = fovea.ops.linear(x, weight, gelu=True)
    assert torch.equal(got, gelu(F.linear(x, weight)))


def test_torchs_own_refuse_what_the_operator_refuses(monkeypatch):
    monkeypatch.setattr(fovea.ops, "_has_product_kernel", lambda *arguments: False)
    x = torch.randn(4, 48)
    weight = torch.randn(32, 48)
    residual = torch.randn(4, 32)
    assert torch.equal(fovea.ops.linear(x, weight, residual=residual), residual + F.linear(x, weight))
    with pytest.raises(RuntimeError, match="gelu and a residual exclude"):
        fovea.ops.linear(x, weight, residual=residual, gelu=True)
