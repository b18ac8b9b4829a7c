"""Fovea turns photos into SigLIP 2 embeddings at the speed of the hardware.

    folder = fovea.pull("google/siglip2-base-patch16-224")  # once; it downloads the model
    encoder = fovea.load("google/siglip2-base-patch16-224")
    embeddings = encoder.embed(["cat.jpg", "dog.png"])  # float32 [2, 768], rows of length 1
    for result in encoder.stream(any_iterable):  # of any length
        result.index, result.embedding, result.error

It needs only numpy. It takes PIL images, torch tensors and all other objects that support DLPack when
their libraries are installed.
"""

from fovea._encoder import Encoder, load
from fovea._errors import Error, ImageError
from fovea._images import ImageLike
from fovea._library import version
from fovea._pull import PullProgress, pull
from fovea._result import Result

__version__ = version()
__all__ = ["Encoder", "Error", "ImageError", "ImageLike", "PullProgress", "Result", "__version__", "load", "pull"]
