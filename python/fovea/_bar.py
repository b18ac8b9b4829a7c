"""Optional progress bars, shown by tqdm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fovea._pull import PullProgress


class Bar:
    """A progress bar, or a placeholder that shows nothing."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar

    def update(self, count: int) -> None:
        """Advances the bar by `count`."""
        if self._bar is not None:
            self._bar.update(count)

    def show(self, progress: PullProgress) -> None:
        """Shows the state of a pull."""
        if self._bar is not None:
            self._bar.total = progress.total
            self._bar.set_postfix_str(progress.notice or progress.file, refresh=False)
            self._bar.update(progress.bytes - self._bar.n)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def progress_bar(total: int | None, wanted: bool, unit: str, **options: Any) -> Bar:
    """Returns a bar for `total` units (None: unknown) if `wanted`, or else a bar that shows nothing."""
    if not wanted:
        return Bar()
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm: pip install tqdm") from error
    return Bar(tqdm(total=total, unit=unit, **options))
