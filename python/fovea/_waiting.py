"""Long calls of the engine, during which Ctrl-C works."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


def interruptible(work: Callable[[Callable[[], bool]], T]) -> T:
    """work(is_stopped), whose engine asks is_stopped every now and then, and fails soon after it is true. In the main
    thread, where Python handles signals, it runs in a thread of its own, and what a signal raises ends it."""
    if threading.current_thread() is not threading.main_thread():
        return work(lambda: False)
    call = _Call(work)
    call.start()
    try:
        call.ended.wait()
    finally:
        call.stopped = True
        call.join()
    if call.error is not None:
        raise call.error
    return call.results[0]


class _Call(threading.Thread, Generic[T]):
    def __init__(self, work: Callable[[Callable[[], bool]], T]) -> None:
        super().__init__(name="fovea.search")
        self.results: list[T] = []
        self.error: BaseException | None = None
        self.stopped = False
        self.ended = threading.Event()
        self._work = work

    def run(self) -> None:
        try:
            self.results.append(self._work(lambda: self.stopped))
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()
