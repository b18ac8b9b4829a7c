"""Fixtures of the operators' tests: they need torch, and run on every device of the machine."""

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device, or a torch without CUDA")
    torch.manual_seed(0)
    return request.param


@pytest.fixture
def cuda():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device, or a torch without CUDA")
    torch.manual_seed(0)
    return "cuda"


@pytest.fixture
def half(device):
    """A type that attention has on every device."""
    return torch.float16
