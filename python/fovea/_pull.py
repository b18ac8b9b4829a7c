"""pull: fetches a model from a hub into the local cache."""

from __future__ import annotations

import concurrent.futures
import ctypes
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from fovea._arguments import name_text
from fovea._bar import progress_bar
from fovea._library import PULL_HANDLER, library, text


class PullProgress(NamedTuple):
    """The progress of a pull. Sizes are in bytes.

    Attributes:
        file: the file being fetched, such as "model.safetensors".
        bytes: bytes present so far, of all files.
        total: bytes of all files whose size is known.
        received: bytes that this pull has received over the network.
        notice: a note for the user, such as that a request is retried; else "".
    """

    file: str
    bytes: int
    total: int
    received: int
    notice: str


Progress = bool | Callable[[PullProgress], Any]


def pull(name: str, *, revision: str | None = None, progress: Progress = False) -> str:
    """Fetches a model from a Hugging Face hub into the local Hugging Face cache, and checks its hashes.

    Only the files that `load` needs are fetched, and an interrupted download is resumed. Models that are in the
    cache are not fetched again. The environment variables are those of huggingface_hub: HF_ENDPOINT, HF_TOKEN,
    HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE (the model is then only looked up in the cache), SSL_CERT_FILE and the
    usual proxy variables.

    Args:
        name: "org/name", such as "google/siglip2-base-patch16-224".
        revision: a branch, a tag or a commit; None: "main".
        progress: True: show a progress bar (needs tqdm). A function: it is called with a PullProgress
            several times per second; an exception from it ends the pull.

    Returns:
        The path of the model's folder, for `load`.

    Raises:
        Error: the model is unknown or access is denied, the network keeps failing, the disk is full,
            or a file does not match the hub's hash.
    """
    arguments = (name_text(name, "name"), name_text("main" if revision is None else revision, "revision"))
    with progress_bar(0, progress is True, "B", unit_scale=True) as bar:
        return _pull(*arguments, progress if callable(progress) else bar.show)


def _pull(name: bytes, revision: bytes, report: Callable[[PullProgress], Any]) -> str:
    """Pulls in another thread, while this thread handles Ctrl-C and calls the user's function."""
    updates: queue.SimpleQueue[PullProgress | None] = queue.SimpleQueue()
    stopped = threading.Event()

    def on_progress(pointer: Any, _context: object) -> int:
        now = pointer.contents
        updates.put(PullProgress(text(now.file), now.bytes, now.total, now.received, text(now.notice)))
        return int(stopped.is_set())

    def work() -> str:
        folder = ctypes.c_char_p()
        try:
            library.fovea_pull(name, revision, PULL_HANDLER(on_progress), None, ctypes.byref(folder))
        finally:
            updates.put(None)
        return os.fsdecode(folder.value or b"")

    with concurrent.futures.ThreadPoolExecutor(1, "fovea.pull") as thread:
        call = thread.submit(work)
        try:
            while (update := updates.get()) is not None:
                report(update)
        finally:
            stopped.set()  # after an exception; the engine polls at least every second
        return call.result()
