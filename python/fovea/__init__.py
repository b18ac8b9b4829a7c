"""Fovea turns photos into SigLIP 2 embeddings at the speed of the hardware.

    encoder = fovea.load("google/siglip2-base-patch16-224")
    embeddings = encoder.embed(["cat.jpg", "dog.png"])  # float32 [2, 768], rows of length 1

It needs only numpy. It takes PIL images, torch tensors and all other objects that support DLPack when
their libraries are installed.
"""

from fovea._encoder import Encoder, load
from fovea._errors import Error, ImageError
from fovea._library import version

__version__ = version()
__all__ = ["Encoder", "Error", "ImageError", "__version__", "load"]
