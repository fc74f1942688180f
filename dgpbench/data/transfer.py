"""Fetch one URL into one file: whole or not at all, in bounded time, with a bar for a large file."""

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from dgpbench.data.cache import writing
from dgpbench.errors import UserError

CONNECT_AND_READ_SECONDS = (10, 15)
ANSWER_SECONDS = 60.0  # with all redirections
LARGE_BYTES = 1_000_000
# No server can hold a run for ever or fill the disk: a body that drips is given up, as is one beyond any data set here.
LEAST_BYTES_PER_SECOND = 1000
DRIP_SECONDS = 30.0
MAX_SECONDS = 3600.0
MAX_BYTES = 4 * 1024**3


class TooLarge(Exception):
    """A body beyond ``MAX_BYTES``."""


class Unreachable(Exception):
    """A URL that did not give its file; the message is a few words.

    :param passing: whether trying again may help
    """

    def __init__(self, words: str, *, passing: bool = False):
        super().__init__(words)
        self.passing = passing


def download(url: str, target: Path) -> None:
    """Fetch a URL.

    :raises Unreachable: when it cannot be had
    :raises UserError: when it cannot be written
    """
    import requests

    try:
        _fetch(url, target)
    except TooLarge as error:
        raise Unreachable(str(error)) from error
    except requests.RequestException as error:
        raise Unreachable(_words(error), passing=_passing(error)) from error
    except (UserError, OSError):  # the disk's
        raise
    except Exception as error:  # requests, urllib3 and http.client each have their own for a header that is malformed
        raise Unreachable("its answer is malformed") from error


def _fetch(url: str, target: Path) -> None:
    import pooch

    bar = _Bar(target.name)
    fetch = pooch.HTTPDownloader(
        timeout=CONNECT_AND_READ_SECONDS,
        chunk_size=65536,
        progressbar=bar if sys.stderr.isatty() else False,
        hooks={"response": partial(_watch, time.monotonic())},
    )
    try:
        with writing(target) as unfinished:
            fetch(url, str(unfinished), None)
    finally:
        bar.close()


def _watch(asked: float, response: Any, **_: Any) -> None:
    """Have a body read as it arrives, with an eye on its rate and size; urllib3 alone waits for each chunk to fill.

    :param asked: when the first of several redirections was asked
    """
    import requests

    raw, begin = response.raw, time.monotonic()
    if begin - asked > ANSWER_SECONDS:
        raise requests.ReadTimeout("it redirects and redirects")
    if not hasattr(raw, "read1"):  # before urllib3 2.1: its own reading, whose time-out is between two packets
        return

    def stream(amount: int, decode_content: bool = True) -> Iterator[bytes]:
        size = 0
        with closing(raw):  # a body that is given up keeps no server busy
            while data := raw.read1(amount, decode_content=decode_content):
                size, seconds = size + len(data), time.monotonic() - begin
                if size > MAX_BYTES:
                    raise TooLarge(f"more than {MAX_BYTES:,} bytes")
                if seconds > MAX_SECONDS or (seconds > DRIP_SECONDS and size < LEAST_BYTES_PER_SECOND * seconds):
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
