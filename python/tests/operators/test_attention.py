"""Compares attention with float64; the error of torch's result of the same type sets the limit."""

import fovea.ops
import pytest
import torch
import torch.nn.functional as F
from fovea.lab._numerics import DIFFERENCE_LIMIT, attention_reference, judge

# batch, heads, kv_heads, queries, keys, head_dim
SHAPES = [
    (2, 3, 3, 196, 196, 64),
    (1, 4, 4, 577, 577, 72),
    (2, 4, 2, 100, 100, 96),
    (1, 6, 1, 65, 65, 128),
    (1, 2, 2, 1, 1, 64),
    (3, 2, 2, 17, 17, 32),
    (1, 2, 2, 1, 300, 64),
    (2, 2, 2, 130, 33, 40),
    (1, 2, 1, 33, 130, 80),
]


def types_of(device):
    return [torch.float16, torch.bfloat16] + ([torch.float32] if device == "cpu" else [])


def operands(device, dtype, shape):
    batch, heads, kv_heads, queries, keys, dim = shape
    return [
        torch.randn(batch, h, n, dim, device=device).to(dtype)
        for h, n in ((heads, queries), (kv_heads, keys), (kv_heads, keys))
    ]


def peer(q, k, v, is_causal=False, scale=None):
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, scale=scale, enable_gqa=True)


def check(q, k, v, is_causal=False, scale=None, **options):
    got = torch.ops.fovea.attention(q, k, v, is_causal, scale, **options)
    want = attention_reference(q, k, v, is_causal, scale)
    verdict = judge(got, want, peer(q, k, v, is_causal, scale))
    assert verdict.passed, verdict.failures
    return got, want


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values(device, shape, is_causal):
    for dtype in types_of(device):
        got, _ = check(*operands(device, dtype, shape), is_causal)
        assert got.dtype == dtype


def test_large_logits_and_equal_rows(device, half):
    q, k, v = operands(device, half, (2, 2, 2, 130, 130, 64))
    check(q * 8, k * 8, v)  # nearly one-hot
    check(q, k[:, :, :1].expand_as(k), v)  # flat: the mean of the values
    check(q, k, v, scale=0.01)


def test_nan_is_not_lost(device, half):
    q, k, v = operands(device, half, (1, 1, 1, 70, 70, 64))
    k[0, 0, 3, 5] = float("nan")
    assert torch.ops.fovea.attention(q, k, v).isnan().all()
    q, k, v = operands(device, half, (1, 1, 1, 70, 70, 64))
    q[0, 0, 3, 5] = float("nan")
    nan = torch.ops.fovea.attention(q, k, v).isnan()
    assert nan[0, 0, 3].all() and not nan[0, 0, 4].any()


def test_gate_rejects_wrong_results(device, half):
    q, k, v = operands(device, half, (1, 2, 2, 130, 130, 64))
    got, want = check(q, k, v, True)
    other = peer(q, k, v, True)
    zeroed = got.clone()
    zeroed[0, 1, 64:128] = 0
    late = attention_reference(q, torch.cat([k[:, :, 1:], k[:, :, :1]], 2), v, True).to(half)
    without_tail = attention_reference(q, k[:, :, :129], v[:, :, :129], False).to(half)
    poisoned = got.clone()
    poisoned[0, 0, 0, 0] = float("nan")
    for wrong in (zeroed, late, without_tail, poisoned):
        assert not judge(wrong, want, other).passed


def test_packed_projection_is_read_in_place(device, half):
    batch, length, heads, dim = 2, 50, 3, 64
    packed = torch.randn(batch, length, 3, heads, dim, device=device).to(half)
    q, k, v = packed.permute(2, 0, 3, 1, 4)
    assert not q.is_contiguous()
    got, _ = check(q, k, v, True)
    assert torch.equal(got, torch.ops.fovea.attention(q.contiguous(), k.contiguous(), v.contiguous(), True))
    merged = got.transpose(1, 2).reshape(batch, length, heads * dim)
    assert merged.data_ptr() == got.data_ptr()


def test_awkward_strides(device, half):
    q, k, v = operands(device, half, (2, 2, 2, 40, 40, 64))
    want = torch.ops.fovea.attention(q, k, v)
    spread = torch.empty(2, 2, 40, 65, 2, device=device, dtype=half)  # no stride is a multiple of 8
    spread[:, :, :, 1:, 1] = q
    assert torch.equal(torch.ops.fovea.attention(spread[:, :, :, 1:, 1], k, v), want)
    odd = torch.empty(q.numel() + 1, device=device, dtype=half)[1:].view_as(q)
    odd.copy_(q)
    assert torch.equal(torch.ops.fovea.attention(odd, k, v), want)
    shared_head = k[:, :1].expand(2, 2, 40, 64)
    assert torch.equal(
        torch.ops.fovea.attention(q, shared_head, v), torch.ops.fovea.attention(q, shared_head.contiguous(), v)
    )


def test_empty(device, half):
    q = torch.empty(0, 2, 5, 64, device=device, dtype=half)
    assert torch.ops.fovea.attention(q, q, q).shape == q.shape
    q = torch.empty(2, 2, 0, 64, device=device, dtype=half)
    k = torch.empty(2, 2, 5, 64, device=device, dtype=half)
    assert torch.ops.fovea.attention(q, k, k).shape == q.shape


def varlen_reference(q, k, v, lengths_q, lengths_k, is_causal):
    rows, first_q, first_k = [], 0, 0
    for n, m in zip(lengths_q, lengths_k, strict=True):
        qs, ks, vs = (t.transpose(0, 1)[None] for t in (q[first_q:][:n], k[first_k:][:m], v[first_k:][:m]))
        if is_causal:
            group = q.shape[1] // k.shape[1]
            scores = qs.double() @ ks.double().repeat_interleave(group, 1).transpose(-2, -1) * q.shape[-1] ** -0.5
            hidden = torch.ones(n, m, dtype=torch.bool, device=q.device).triu(m - n + 1)
            weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1).nan_to_num(0.0)
            part = weights @ vs.double().repeat_interleave(group, 1)
        else:
            part = attention_reference(qs, ks, vs)
        rows.append(part[0].transpose(0, 1))
        first_q, first_k = first_q + n, first_k + m
    return torch.cat(rows)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    ("lengths_q", "lengths_k"),
    [((196, 1, 50, 77), (196, 1, 50, 77)), ((3, 40), (70, 40)), ((30, 5), (10, 64))],
    ids=["same", "more keys", "fewer keys"],
)
def test_varlen(device, half, lengths_q, lengths_k, is_causal):
    q = torch.randn(sum(lengths_q), 4, 64, device=device).to(half)
    k, v = (torch.randn(sum(lengths_k), 2, 64, device=device).to(half) for _ in range(2))
    starts = [
        torch.tensor([0, *lengths], device=device).cumsum(0).to(torch.int32) for lengths in (lengths_q, lengths_k)
    ]
    got = torch.ops.fovea.attention_varlen(q, k, v, *starts, max(lengths_q), max(lengths_k), is_causal)
    want = varlen_reference(q, k, v, lengths_q, lengths_k, is_causal)
    verdict = judge(got.transpose(0, 1), want.transpose(0, 1), want.to(half).transpose(0, 1))
    # The peer here is the rounded truth: the kernel's own roundings beside it count in the differences alone.
    assert max(verdict.difference, verdict.tile_difference) <= DIFFERENCE_LIMIT[half], verdict.failures
    if is_causal and lengths_q[0] > lengths_k[0]:
        assert (got[: lengths_q[0] - lengths_k[0]] == 0).all()


def test_levels(cuda):
    """Each implementation that this GPU has, by name and by number."""
    q, k, v = operands(cuda, torch.float16, (2, 4, 2, 150, 150, 64))
    want = attention_reference(q, k, v, True)
    ran = 0
    for level, name in enumerate(fovea.ops.IMPLEMENTATIONS):
        try:
            got = fovea.ops.attention(q, k, v, True, impl=name)
        except RuntimeError as error:
            assert name in str(error) or "sm_" in str(error), error
            continue
        verdict = judge(got, want, peer(q, k, v, True))
        assert verdict.passed, (name, verdict.failures)
        assert torch.equal(got, torch.ops.fovea.attention(q, k, v, True, None, level))
        ran += 1
    assert ran >= 2  # auto, and what it chose


def test_forced_kernel(cuda, monkeypatch):
    q, k, v = operands(cuda, torch.float16, (1, 2, 2, 100, 100, 64))
    monkeypatch.setenv("FOVEA_FORCE_KERNEL", "mma")
    assert torch.equal(torch.ops.fovea.attention(q, k, v), fovea.ops.attention(q, k, v, impl="mma"))


def test_forced_kernels_have_to_exist(device, half, monkeypatch):
    """Also on the CPU, which has no levels and ignores the argument."""
    q, k, v = operands(device, half, (1, 2, 2, 8, 8, 64))
    monkeypatch.setenv("FOVEA_FORCE_KERNEL", "abacus")
    with pytest.raises(RuntimeError, match="FOVEA_FORCE_KERNEL=abacus"):
        torch.ops.fovea.attention(q, k, v)


def test_no_levels_on_the_cpu():
    q = torch.randn(1, 1, 8, 64)
    with pytest.raises(RuntimeError, match="levels select GPU kernels"):
        fovea.ops.attention(q, q, q, impl="mma")
    with pytest.raises(ValueError, match="unknown implementation 'fast'"):
        fovea.ops.attention(q, q, q, impl="fast")


def test_current_stream(cuda):
    """The kernel follows what its stream did before, and another stream does not wait for it."""
    q, k, v = operands(cuda, torch.float16, (4, 8, 8, 1024, 1024, 64))
    want = torch.ops.fovea.attention(q, k, v)
    torch.cuda.synchronize()
    late = torch.zeros_like(q)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(q)
        got = torch.ops.fovea.attention(late, k, v)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream())
    assert event.query() or not stream.query()  # nothing was put into the default stream
    stream.synchronize()
    assert torch.equal(got, want)


def test_cuda_graph(cuda):
    q, k, v = operands(cuda, torch.float16, (1, 8, 8, 512, 512, 64))
    want = torch.ops.fovea.attention(q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = torch.ops.fovea.attention(q, k, v)
    got.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(got, want)


def test_threads_call_at_once(device, half):
    import concurrent.futures

    sets = [operands(device, half, (1, 2, 2, 20 + 7 * i, 20 + 7 * i, 64)) for i in range(8)]
    want = [torch.ops.fovea.attention(*each) for each in sets]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for got, expected in zip(pool.map(lambda s: torch.ops.fovea.attention(*s), sets), want, strict=True):
                assert torch.equal(got, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v: (q[0], k, v), "4 dimensions"),
        (lambda q, k, v: (q, k, v[:, :, 1:]), "same shape"),
        (lambda q, k, v: (q, k[..., 1:], v[..., 1:]), "head dimension"),
        (lambda q, k, v: (q[:1], k, v), "batch"),
        (lambda q, k, v: (q[:, :3], k[:, :2], v[:, :2]), "multiple"),
        (lambda q, k, v: (q, k.float(), v), "same type"),
        (lambda q, k, v: (q.double(), k.double(), v.double()), "unsupported type"),
        (lambda q, k, v: (q, k[:, :, :0], v[:, :, :0]), "at least one key"),
    ],
)
def test_wrong_operands(device, half, change, message):
    q, k, v = operands(device, half, (2, 4, 4, 8, 8, 64))
    with pytest.raises(RuntimeError, match=message):
        torch.ops.fovea.attention(*change(q, k, v))


def test_several_devices(cuda):
    q, k, v = operands(cuda, torch.float16, (1, 1, 1, 8, 8, 64))
    with pytest.raises(RuntimeError, match="same device"):
        torch.ops.fovea.attention(q, k.cpu(), v)


def test_wrong_numbers(device, half):
    q, k, v = operands(device, half, (1, 1, 1, 8, 8, 64))
    for scale in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(RuntimeError, match="scale"):
            torch.ops.fovea.attention(q, k, v, scale=scale)
    with pytest.raises(RuntimeError, match="invalid level 9"):
        torch.ops.fovea.attention(q, k, v, level=9)


def test_wrong_offsets(device, half):
    q = torch.randn(10, 2, 64, device=device).to(half)
    good = torch.tensor([0, 4, 10], dtype=torch.int32, device=device)
    varlen = torch.ops.fovea.attention_varlen
    with pytest.raises(RuntimeError, match="int32"):
        varlen(q, q, q, good.long(), good, 6, 6)
    with pytest.raises(RuntimeError, match="same length"):
        varlen(q, q, q, good, torch.tensor([0, 10], dtype=torch.int32, device=device), 6, 6)
    with pytest.raises(RuntimeError, match="at least 1"):
        varlen(q, q, q, good, good, 0, 6)
    if device == "cpu":  # reading them on a GPU would wait for it
        with pytest.raises(RuntimeError, match="must rise from 0"):
            varlen(q, q, q, good, good.flip(0), 6, 6)
        with pytest.raises(RuntimeError, match="the problem's maxima"):
            varlen(q, q, q, good, good, 5, 6)
