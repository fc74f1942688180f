"""An empty cache for each test, a server on 127.0.0.1, and no other socket."""

import functools
import http.server
import io
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dgpbench.data import download
from dgpbench.data.published import read
from dgpbench.data.table import Table

MIRROR = Path(__file__).resolve().parents[3] / "shared" / "data" / "mirror"
TABLE = b"a,b,y\n1,2,3\n4,5,6\n7,8,10\n"


@pytest.fixture(scope="session")
def httpserver_listen_address() -> tuple[str, int]:
    return ("127.0.0.1", 0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DGPBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DGPBENCH_MIRROR", raising=False)
    monkeypatch.setattr(download, "PAUSES_SECONDS", (0, 0))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo

    def refuse(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host != "127.0.0.1":
            raise socket.gaierror(f"tests reach 127.0.0.1 only, not {host}")
        return resolve(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for variable in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def mirror() -> Path:
    if not MIRROR.is_dir():
        pytest.skip(f"the upstream files are not at {MIRROR.parent}")
    return MIRROR


@pytest.fixture
def mirror_url(mirror: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(mirror))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


def small_spec(*urls: str, **more: Any) -> dict[str, Any]:
    """Data set with the file TABLE at these URLs."""
    reader = {"format": "csv"}
    A = read(io.BytesIO(TABLE), reader)
    spec = {"name": "small", "kind": "uci", "columns": ["a", "b", "y"], "target": "y"}
    spec["digest_xy"] = Table("small", A[:, :2], A[:, 2], ("a", "b"), "y").digest_xy
    return {**spec, "sources": [{"url": url, "reader": reader} for url in urls], **more}
