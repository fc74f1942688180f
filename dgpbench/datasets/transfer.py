"""Fetch one URL into one file: whole or not at all, again after a passing fault, with a bar for a large file."""

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from dgpbench.datasets.cache import writing

CONNECT_AND_READ_SECONDS = (10, 30)
PAUSES_SECONDS = (0.5, 2.0)
LARGE_BYTES = 1_000_000
# No server can hold a run for ever or fill the disk: a body that drips is given up, as is one beyond any data set here.
LEAST_BYTES_PER_SECOND = 1000
DRIP_SECONDS = 60.0
MAX_BYTES = 4 * 1024**3


class TooLarge(Exception):
    """A body beyond ``MAX_BYTES``."""


class Unreachable(Exception):
    """A URL that did not give its file; the message is a few words."""


def download(url: str, target: Path) -> None:
    """Fetch a URL, trying again twice when the server is busy or the body ends early.

    :raises Unreachable: when it cannot be had
    :raises Refused: when it cannot be written
    """
    import requests

    for pause in (*PAUSES_SECONDS, None):
        try:
            return _fetch(url, target)
        except TooLarge as error:
            raise Unreachable(str(error)) from error
        except requests.RequestException as error:
            if pause is None or not _passing(error):
                raise Unreachable(_words(error)) from error
            time.sleep(pause)


def _fetch(url: str, target: Path) -> None:
    import pooch

    bar = _Bar(target.name)
    fetch = pooch.HTTPDownloader(
        timeout=CONNECT_AND_READ_SECONDS,
        chunk_size=65536,
        progressbar=bar if sys.stderr.isatty() else False,
        hooks={"response": _watch},
    )
    try:
        with writing(target) as partial:
            fetch(url, str(partial), None)
    finally:
        bar.close()


def _watch(response: Any, **_: Any) -> None:
    """Have a body read as it arrives, with an eye on its rate and size; urllib3 alone waits for each chunk to fill."""
    raw, begin = response.raw, time.monotonic()
    if not hasattr(raw, "read1"):  # before urllib3 2.1: its own reading, whose time-out is between two packets
        return

    def stream(amount: int, decode_content: bool = True) -> Iterator[bytes]:
        import requests

        size = 0
        with closing(raw):  # a body that is given up keeps no server busy
            while data := raw.read1(amount, decode_content=decode_content):
                size, seconds = size + len(data), time.monotonic() - begin
                if size > MAX_BYTES:
                    raise TooLarge(f"more than {MAX_BYTES:,} bytes")
                if seconds > DRIP_SECONDS and size < LEAST_BYTES_PER_SECOND * seconds:
                    raise requests.ReadTimeout("the body drips")
                yield data

    raw.stream = stream


def _passing(error: Exception) -> bool:
    """Whether trying again may help: a busy server, a slow answer, a body that ended early; not an absent host."""
    import requests
    from urllib3.exceptions import ReadTimeoutError

    status = _status(error)
    if status is not None:
        return status == 429 or status >= 500
    if any(isinstance(each, ReadTimeoutError) for each in error.args):  # within the body, a plain ConnectionError
        return True
    return isinstance(error, requests.ReadTimeout | requests.exceptions.ChunkedEncodingError)


def _status(error: Exception) -> int | None:
    """The number of an answer that refuses; None for another error."""
    import requests

    answer = error.response if isinstance(error, requests.HTTPError) else None
    return None if answer is None else answer.status_code


def _words(error: Exception) -> str:
    import requests
    from urllib3.exceptions import ReadTimeoutError

    status = _status(error)
    if status is not None:
        return f"HTTP {status}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if any(isinstance(each, ReadTimeoutError) for each in error.args):
        return "no answer in time"
    return "the body ended early" if isinstance(error, requests.exceptions.ChunkedEncodingError) else "no connection"


class _Bar:
    """The four calls that pooch makes of a progress bar, shown by rich once the file is known to be large."""

    def __init__(self, title: str) -> None:
        self.title, self.total = title, 0
        self._progress: Any = None

    def update(self, num_bytes: int) -> None:
        if self._progress is None and self.total >= LARGE_BYTES:
            self._start()
        if self._progress is not None:
            self._progress.update(self._task, advance=num_bytes)

    def reset(self) -> None:
        if self._progress is not None:
            self._progress.reset(self._task)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task(self.title, total=self.total)
        self._progress.start()
