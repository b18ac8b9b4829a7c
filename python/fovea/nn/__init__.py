"""Counterparts of torch.nn."""

from fovea.nn import functional

__all__ = ["functional"]
