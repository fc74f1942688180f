"""Faults of a server are retried, skipped or refused; the cache never keeps a wrong file."""

import contextlib
import io
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Response

from dgpbench.data import download
from dgpbench.data.datasets import load
from dgpbench.data.published import read
from dgpbench.data.table import Table
from dgpbench.errors import UserError

TABLE = b"a,b,y\n1,2,3\n4,5,6\n7,8,10\n"
READER = {"format": "csv"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DGPBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DGPBENCH_MIRROR", raising=False)
    monkeypatch.setattr(download, "PAUSES_SECONDS", (0, 0))
    monkeypatch.setattr(download, "CONNECT_AND_READ_SECONDS", (1, 1))
    for variable in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "cache"


def spec(*urls: str) -> dict:
    """Data set with the file TABLE at these URLs."""
    sources = [{"url": url, "reader": READER} for url in urls]
    names = {"name": "small", "kind": "uci", "columns": ["a", "b", "y"], "target": "y"}
    return {**names, "digest_xy": digest(TABLE), "sources": sources}


def digest(text: bytes) -> str:
    A = read(io.BytesIO(text), READER)
    return Table("small", A[:, :2], A[:, 2], ("a", "b"), "y").digest_xy


def kept(cache) -> list[bytes]:
    return [path.read_bytes() for path in cache.rglob("*") if path.is_file()]


def short() -> Response:
    return Response([TABLE[:12]], headers={"Content-Length": str(len(TABLE))})


def busy() -> Response:
    return Response(status=503)


def slow() -> Response:
    time.sleep(1.5)
    return Response(TABLE)


def good() -> Response:
    return Response(TABLE)


@pytest.mark.parametrize("fault", [busy, short, slow])
def test_a_temporary_fault_is_retried(fault, httpserver: HTTPServer, cache):
    responses = [fault, good]
    httpserver.expect_request("/t.csv").respond_with_handler(lambda request: responses.pop(0)())
    assert load(spec(httpserver.url_for("/t.csv"))).num_rows == 3
    assert kept(cache) == [TABLE]


def html() -> Response:
    return Response("<html><body>Please sign in</body></html>")


def other_bytes() -> Response:
    return Response(TABLE.replace(b"10", b"11"))


def raw(status: bytes, header: bytes, body: bytes = b"") -> bytes:
    return b"HTTP/1.1 %s\r\n%s\r\nConnection: close\r\n\r\n%s" % (status, header, body)


PLACES = (b"http://[::1", b"http://\xff\xfe/", b"http://a:b:c/", b"file:///etc/passwd", b"//", b"http://" + b"a" * 300)
MALFORMED = [
    *(
        raw(b"200 OK", b"Content-Length: " + each, TABLE)
        for each in (b"many", b"-5", b"1e3", b"9" * 5000, b"", b"3, 4")
    ),
    *(raw(b"302 Found", b"Location: " + place) for place in PLACES),
    raw(b"200 OK", b"Content-Encoding: gzip", TABLE),
    raw(b"206 Partial Content", b"Content-Type: \xff; charset=\xfe", TABLE),
    raw(b"200 OK", b"Transfer-Encoding: chunked", b"many\r\n" + TABLE),
    raw(b"many OK", b"Server: none", TABLE),
    raw(b"200 OK", b"a" * 100_000, TABLE),
    b"\x00\xff" * 50,
    b"",
]


@contextlib.contextmanager
def serving(body: bytes) -> Iterator[str]:
    """Return the URL of a server that always sends these bytes, unchanged by any HTTP library."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(body)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/bad.csv"
        server.shutdown()


@pytest.mark.parametrize("bar", [False, True], ids=["plain", "terminal"])
@pytest.mark.parametrize("number", range(len(MALFORMED)))
def test_a_malformed_response_is_skipped_for_the_next_source(number, bar, httpserver, cache, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: bar, raising=False)  # a bar reads the length, too
    httpserver.expect_request("/good.csv").respond_with_data(TABLE)
    with serving(MALFORMED[number]) as url:
        assert load(spec(url, httpserver.url_for("/good.csv"))).num_rows == 3
    assert kept(cache) == [TABLE]


def test_stalled_servers_are_tried_once_each_before_any_retry(cache, monkeypatch):
    monkeypatch.setattr(download, "RETRY_SECONDS", 2.0)
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]  # none accepts
        urls = [f"http://127.0.0.1:{server.getsockname()[1]}/t.csv" for server in servers]
        start = time.monotonic()
        with pytest.raises(UserError) as refusal:
            load(spec(*urls))
    assert all(f"{url} (no response in time)" in str(refusal.value) for url in urls)
    assert 3.0 <= time.monotonic() - start < 5.0  # a second each, without retries: 9 with three tries each


@pytest.mark.parametrize(
    "fault", [busy, short, slow, html, other_bytes, lambda: Response(b""), lambda: Response(status=404)]
)
def test_a_lasting_fault_is_skipped_for_the_next_source(fault, httpserver: HTTPServer, cache):
    httpserver.expect_request("/bad.csv").respond_with_handler(lambda request: fault())
    httpserver.expect_request("/good.csv").respond_with_data(TABLE)
    table = load(spec(httpserver.url_for("/bad.csv"), httpserver.url_for("/good.csv")))
    assert table.sources[0].origin.endswith("/good.csv")
    assert kept(cache) == [TABLE]


@pytest.mark.parametrize("fault", [busy, short, slow, html, other_bytes])
def test_a_lasting_fault_of_the_only_source_is_a_clean_error(fault, httpserver: HTTPServer, cache):
    httpserver.expect_request("/t.csv").respond_with_handler(lambda request: fault())
    with pytest.raises(UserError) as refusal:
        load(spec(httpserver.url_for("/t.csv")))
    assert "\n" not in str(refusal.value)
    assert kept(cache) == []


def test_an_upstream_file_that_has_changed_is_refused_with_both_hashes(httpserver: HTTPServer, cache):
    httpserver.expect_request("/t.csv").respond_with_handler(lambda request: other_bytes())
    wanted = spec(httpserver.url_for("/t.csv"))
    changed = digest(TABLE.replace(b"10", b"11"))
    with pytest.raises(UserError, match=f"{changed} instead of {wanted['digest_xy']}"):
        load(wanted)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "no-such-host.invalid"], ids=["refuses", "unknown"])
def test_a_dead_host_is_a_clean_error(host):
    start = time.monotonic()
    with pytest.raises(UserError, match="no connection"):
        load(spec(f"http://{host}/t.csv"))
    assert time.monotonic() - start < 20


def test_a_download_slower_than_the_limit_is_given_up(httpserver: HTTPServer, cache, monkeypatch):
    """Each byte comes well within the time-out between two packets, so that alone would wait for ever."""

    tries = []

    def drip() -> Iterator[bytes]:
        tries.append(1)
        for _ in range(100):
            yield b"1"
            time.sleep(0.1)

    monkeypatch.setattr(download, "SLOW_AFTER_SECONDS", 0.5)
    httpserver.expect_request("/t.csv").respond_with_handler(
        lambda request: Response(drip(), headers={"Content-Length": "100"})
    )
    start = time.monotonic()
    with pytest.raises(UserError, match="no response in time"):
        load(spec(httpserver.url_for("/t.csv")))
    assert time.monotonic() - start < 9  # three times the limit, and then some: never the 30 s of three whole bodies
    assert len(tries) == 3  # the server has one thread: a try that held on to its connection would shut out the next
    assert kept(cache) == []


def test_a_body_without_end_is_cut_off_before_it_fills_the_disk(httpserver: HTTPServer, cache, monkeypatch):
    monkeypatch.setattr(download, "MAX_BYTES", 1000)
    httpserver.expect_request("/t.csv").respond_with_data(b"1" * 200_000)
    with pytest.raises(UserError, match="more than 1,000 bytes"):
        load(spec(httpserver.url_for("/t.csv")))
    assert kept(cache) == []


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_a_large_body_arrives_whole(encoding, httpserver: HTTPServer, tmp_path):
    """The watch on the rate reads in another way than urllib3 alone does."""
    import gzip

    data = bytes(range(256)) * 4000
    headers = {"Content-Encoding": encoding} if encoding else {}
    httpserver.expect_request("/b").respond_with_data(gzip.compress(data) if encoding else data, headers=headers)
    download.download(httpserver.url_for("/b"), tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == data


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def place(cache, url: str, content: bytes):
    path = cache / url.partition("://")[2]
    path.parent.mkdir(parents=True)
    path.write_bytes(content)


def test_offline_a_cached_table_works(offline, cache):
    place(cache, "http://example.org/t.csv", TABLE)
    assert load(spec("http://example.org/t.csv")).num_rows == 3


def test_offline_without_a_cached_table_is_a_clean_error_with_advice(offline, cache):
    with pytest.raises(UserError) as refusal:
        load(spec("http://example.org/t.csv"))
    for part in ("http://example.org/t.csv", "DGPBENCH_MIRROR", "dgpbench data import"):
        assert part in str(refusal.value)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_truncated_cache_file_is_never_used(share, offline, cache):
    place(cache, "http://example.org/t.csv", TABLE[: int(share * len(TABLE))])
    with pytest.raises(UserError):
        load(spec("http://example.org/t.csv"))


def test_a_truncated_cache_file_is_fetched_again(httpserver: HTTPServer, cache):
    httpserver.expect_request("/t.csv").respond_with_data(TABLE)
    place(cache, httpserver.url_for("/t.csv"), TABLE[:12])
    assert load(spec(httpserver.url_for("/t.csv"))).num_rows == 3
    assert kept(cache) == [TABLE]
