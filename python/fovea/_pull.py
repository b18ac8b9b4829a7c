"""pull: fetches a model from a hub into the local cache."""

from __future__ import annotations

import ctypes
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from fovea._arguments import name_text
from fovea._bar import progress_bar
from fovea._errors import Error
from fovea._library import PULL_HANDLER, library, text


class PullProgress(NamedTuple):
    """The progress of a pull. Sizes are in bytes.

    Attributes:
        file: the file being fetched, such as "model.safetensors".
        bytes: bytes of all files that are here by now.
        total: bytes of all files, as far as they are known.
        received: bytes that this pull has received over the network.
        notice: a note for the user, such as that a request is tried again; else "".
    """

    file: str
    bytes: int
    total: int
    received: int
    notice: str


Progress = bool | Callable[[PullProgress], Any]


def pull(name: str, *, revision: str | None = None, progress: Progress = False) -> str:
    """Fetches a model from a Hugging Face hub into the local Hugging Face cache, and checks its hashes.

    It fetches what `load` needs, and resumes a download that was interrupted. Models that are in the cache
    are not fetched again. The environment variables are those of huggingface_hub: HF_ENDPOINT, HF_TOKEN,
    HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE (then the model is only looked up), SSL_CERT_FILE and the usual
    proxy variables.

    Args:
        name: "org/name", such as "google/siglip2-base-patch16-224".
        revision: a branch, a tag or a commit; None: "main".
        progress: True: show a progress bar (needs tqdm). A function: it is called with a PullProgress
            several times per second; what it raises ends the pull.

    Returns:
        The path of the model's folder, which `load` takes.

    Raises:
        Error: the model is unknown or you may not read it, the network keeps failing, the disk is full,
            or a file does not match what the hub says.
    """
    arguments = (name_text(name, "name"), name_text("main" if revision is None else revision, "revision"))
    with progress_bar(0, progress is True, "B", unit_scale=True) as bar:
        work = _Pull(*arguments)
        work.report_to(progress if callable(progress) else bar.show)
    if work.error is not None:
        raise work.error
    return work.folder


class _Pull(threading.Thread):
    """A pull in a thread of its own: meanwhile the caller's thread handles Ctrl-C and calls functions of users."""

    def __init__(self, name: bytes, revision: bytes) -> None:
        super().__init__(name="fovea.pull")
        self.folder = ""
        self.error: Error | None = None
        self._arguments = (name, revision)
        self._news: queue.SimpleQueue[PullProgress | None] = queue.SimpleQueue()
        self._stopped = False
        self.start()

    def run(self) -> None:
        folder = ctypes.c_char_p()
        try:
            library.fovea_pull(*self._arguments, PULL_HANDLER(self._on_progress), None, ctypes.byref(folder))
            self.folder = os.fsdecode(folder.value or b"")
        except Error as error:
            self.error = error
        finally:
            self._news.put(None)

    def report_to(self, tell: Callable[[PullProgress], Any]) -> None:
        """Calls `tell` with all progress until the thread has ended."""
        try:
            while (news := self._news.get()) is not None:
                tell(news)
        finally:
            self._stopped = True  # after an exception; the engine asks at least every second
            self.join()

    def _on_progress(self, told: Any, _context: object) -> int:
        news = told.contents
        self._news.put(PullProgress(text(news.file), news.bytes, news.total, news.received, text(news.notice)))
        return int(self._stopped)
