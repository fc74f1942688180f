"""Safe output to a terminal: text from files cannot change colours, titles or the cursor."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from dgpbench.errors import printable

# Spaces of other widths and the joiners of scripts occur in real names, and are harmless.
KEPT = "\n\t\u00a0\u2009\u202f\u3000\u200c\u200d"


class _Escaping:
    """A text stream that escapes what is not printable."""

    def __init__(self, stream: Any):
        self.rich_proxied_file = stream  # rich draws its bars on the stream with this name

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(printable(text, KEPT))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def escaping() -> Iterator[None]:
    """Escape everything that is printed within the block."""
    streams = [stream if stream is None else _Escaping(stream) for stream in (sys.stdout, sys.stderr)]
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        yield
