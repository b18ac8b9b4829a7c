"""The requirements of torch on an operator: opcheck, torch.compile with a changing batch, no gradients."""

import pytest
import torch
import torch.nn.functional as F


def samples(device):
    """Each operator with arguments."""
    ops = torch.ops.fovea
    half = torch.bfloat16

    def tensor(*shape, dtype=half):
        return torch.randn(*shape, device=device).to(dtype)

    q, k, v = tensor(2, 4, 17, 64), tensor(2, 2, 20, 64), tensor(2, 2, 20, 64)
    packed = tensor(2, 17, 3, 4, 64).permute(2, 0, 3, 1, 4)
    starts = torch.tensor([0, 5, 12], dtype=torch.int32, device=device)
    flat = tensor(12, 4, 64)
    patches, weight, position = tensor(2, 9, 48), tensor(32, 48), tensor(9, 32)
    pixels = torch.randint(0, 256, (2, 9, 48), dtype=torch.uint8, device=device)
    levels = torch.randint(-127, 128, (32, 48), dtype=torch.int8, device=device)
    bias, wide = tensor(32, dtype=torch.float32), tensor(48, dtype=torch.float32)
    return [
        (ops.attention, (q, k, v)),
        (ops.attention, (q, k, v, True, 0.2)),
        (ops.attention, (*packed, True)),
        (ops.attention_varlen, (flat, flat, flat, starts, starts, 7, 7, True)),
        (ops.patch_embed, (patches, weight, position)),
        (ops.patch_embed, (pixels, levels, position, bias.abs())),
        (ops.linear, (patches, weight, bias)),
        (ops.linear, (patches, weight, bias.to(half), None, True)),
        (ops.linear, (patches, weight, bias, tensor(2, 9, 32))),
        (ops.layer_norm, (patches, wide, wide)),
    ]


@pytest.mark.parametrize("index", range(10))
def test_opcheck(device, index):
    op, arguments = samples(device)[index]
    torch.library.opcheck(op.default, arguments)


def test_every_operator_is_checked(device):
    names = {op.default.name() for op, _ in samples(device)}
    registered = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith("fovea::")}
    assert names == registered


@pytest.mark.parametrize("index", range(10))
def test_gradients_are_refused(device, index):
    op, arguments = samples(device)[index]
    for place, argument in enumerate(arguments):
        if not (isinstance(argument, torch.Tensor) and argument.is_floating_point()):
            continue
        changed = list(arguments)
        changed[place] = argument.clone().requires_grad_()
        with pytest.raises(RuntimeError, match="does not support gradients"):
            op(*changed)
        with pytest.raises(RuntimeError, match="does not support gradients"):
            torch.compile(lambda *a: op(*a), backend="eager")(*changed)
        with torch.no_grad():
            assert not op(*changed).requires_grad
        with torch.inference_mode():
            op(*changed)
    # A tensor that was computed from a parameter is refused as the parameter itself.
    changed = [a * 1 if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in arguments]
    changed[-1 if op is torch.ops.fovea.layer_norm else 1] = arguments[1]
    first = next(i for i, a in enumerate(changed) if isinstance(a, torch.Tensor) and a.is_floating_point())
    changed[first] = changed[first].clone().requires_grad_() * 2
    with pytest.raises(RuntimeError, match="does not support gradients"):
        op(*changed)


class Block(torch.nn.Module):
    """Embedding and one layer of a vision transformer, on the operators or on torch's own functions."""

    def __init__(self, tokens, inner, width, heads, fused):
        super().__init__()
        self.heads, self.fused = heads, fused

        def parameter(*shape):
            return torch.nn.Parameter(torch.randn(*shape) / shape[-1] ** 0.5)

        self.embed, self.position = parameter(width, inner), parameter(tokens, width)
        self.qkv, self.out = parameter(3 * width, width), parameter(width, width)
        self.fc1, self.fc2 = parameter(2 * width, width), parameter(width, 2 * width)
        self.norm_weight, self.norm_bias = parameter(width), parameter(width)
        self.bias = parameter(width)

    def forward(self, patches):
        ops = torch.ops.fovea
        if self.fused:
            x = ops.patch_embed(patches, self.embed, self.position)
            y = ops.linear(ops.layer_norm(x, self.norm_weight, self.norm_bias), self.qkv)
        else:
            x = F.linear(patches, self.embed) + self.position
            y = F.linear(self.norm(x), self.qkv)
        batch, tokens, width = x.shape
        q, k, v = y.view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attend = ops.attention if self.fused else F.scaled_dot_product_attention
        y = attend(q, k, v).transpose(1, 2).flatten(2)
        if self.fused:
            x = ops.linear(y, self.out, self.bias, x)
            y = ops.linear(ops.layer_norm(x, self.norm_weight, self.norm_bias), self.fc1, None, None, True)
            return ops.linear(y, self.fc2, self.bias, x)
        x = x + F.linear(y, self.out, self.bias)
        y = F.gelu(F.linear(self.norm(x), self.fc1), approximate="tanh")
        return x + F.linear(y, self.fc2, self.bias)

    def norm(self, x):
        return F.layer_norm(x, (x.shape[-1],), self.norm_weight, self.norm_bias, 1e-6)


def need_inductor(device):
    """Skips where inductor compiles nothing at all: it needs a C++ compiler and Python's headers."""
    try:
        torch.compile(lambda x: torch.sin(x) + 1)(torch.ones(8, device=device))
    except Exception as error:  # its tools raise many types
        pytest.skip(f"torch's inductor does not work here: {type(error).__name__}")


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_block_with_dynamic_batch(device, backend):
    torch._dynamo.reset()
    if backend == "inductor":
        need_inductor(device)
    fused = Block(49, 48, 128, 2, True).to(device, torch.bfloat16).eval()
    plain = Block(49, 48, 128, 2, False)
    plain.load_state_dict({name: value.float() for name, value in fused.state_dict().items()})
    plain = plain.to(device).double()
    compiled = torch.compile(fused, fullgraph=True, dynamic=True, backend=backend)
    counter = torch._dynamo.utils.counters
    counter.clear()
    with torch.no_grad():
        for batch in (2, 5, 3, 8):
            patches = torch.randn(batch, 49, 48, device=device).bfloat16()
            got = compiled(patches)
            assert torch.equal(got, fused(patches))
            want = plain(patches.double())
            error = (got.double() - want).square().mean().sqrt() / want.square().mean().sqrt()
            assert error < 2e-2
    assert counter["stats"]["unique_graphs"] == 1
    with pytest.raises(RuntimeError, match="does not support gradients"):
        compiled(patches)
