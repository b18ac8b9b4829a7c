"""Fovea turns photos and texts into SigLIP 2 embeddings at the speed of the hardware, and searches photos by words.

    folder = fovea.pull("google/siglip2-base-patch16-224")  # once; it downloads the model
    encoder = fovea.load("google/siglip2-base-patch16-224")
    embeddings = encoder.embed(["cat.jpg", "dog.png"])  # float32 [2, 768], rows of length 1
    for result in encoder.stream(any_iterable):  # of any length
        result.index, result.embedding, result.error

    encoder.embed_text(["a red bicycle in the snow"])  # float32 [1, 768]
    encoder.label(["cat.jpg"], ["cat", "dog"]).best[0].label
    fovea.open("OUT").search("a red bicycle in the snow")  # in the output of `fovea embed -o OUT`

Only numpy is required. PIL images, torch tensors and other objects that support DLPack are accepted when
their libraries are installed.
"""

from fovea._collection import Collection, open
from fovea._encoder import Encoder, load
from fovea._errors import Error, ImageError
from fovea._features import Features
from fovea._images import ImageLike
from fovea._label import LabelScore, LabelScores, LogitScale
from fovea._library import version
from fovea._match import Match, Nearest, Photo
from fovea._pull import PullProgress, pull
from fovea._result import Result

__version__ = version()
__all__ = [
    "Collection",
    "Encoder",
    "Error",
    "Features",
    "ImageError",
    "ImageLike",
    "LabelScore",
    "LabelScores",
    "LogitScale",
    "Match",
    "Nearest",
    "Photo",
    "PullProgress",
    "Result",
    "__version__",
    "load",
    "open",
    "pull",
]
