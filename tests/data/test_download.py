"""Faults between a server and the cache."""

import errno
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import requests
from conftest import TABLE, small_spec
from pytest_httpserver import HTTPServer
from werkzeug import Response

from dgpbench.data import download
from dgpbench.data.datasets import load, specs
from dgpbench.errors import UserError


@pytest.fixture(autouse=True)
def what_is_not_there_is_a_404(httpserver: HTTPServer) -> None:
    httpserver.no_handler_status_code = 404


def places(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def answers(*responses: Response) -> Any:
    """A handler that gives these responses in turn, and the last one for ever."""
    left = list(responses)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def test_a_file_is_kept_below_its_host_and_path(httpserver: HTTPServer, cache: Path) -> None:
    httpserver.expect_request("/a folder/t.csv").respond_with_data(TABLE)
    table = load(small_spec(httpserver.url_for("/a%20folder/t.csv")))
    assert places(cache) == [cache / f"127.0.0.1:{httpserver.port}" / "a folder" / "t.csv"]
    assert table.y.tolist() == [3, 6, 10]
    assert table.verified == "digest"


def test_a_cached_file_is_not_fetched_again(httpserver: HTTPServer) -> None:
    httpserver.expect_ordered_request("/t.csv").respond_with_data(TABLE)
    spec = small_spec(httpserver.url_for("/t.csv"))
    assert load(spec).digest_xy == load(spec).digest_xy
    assert len(httpserver.log) == 1


def test_a_missing_url_is_not_an_error_if_another_has_the_file(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/second.csv").respond_with_data(TABLE)
    table = load(small_spec(httpserver.url_for("/first.csv"), httpserver.url_for("/second.csv")))
    assert table.sources[0].origin.endswith("/second.csv")
    assert [request.path for request, _ in httpserver.log] == ["/first.csv", "/second.csv"]  # a 404 is not retried


def test_the_mirror_is_tried_for_every_url_before_the_network(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [httpserver.url_for("/first.csv"), httpserver.url_for("/second.csv")]
    host = f"127.0.0.1:{httpserver.port}"
    httpserver.expect_request("/first.csv").respond_with_data(TABLE)
    httpserver.expect_request(f"/mirror/{host}/second.csv").respond_with_data(TABLE)
    monkeypatch.setenv("DGPBENCH_MIRROR", httpserver.url_for("/mirror/"))
    assert load(small_spec(*urls)).sources[0].origin == httpserver.url_for(f"/mirror/{host}/second.csv")


def test_a_mirror_that_is_not_a_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGPBENCH_MIRROR", "/no/such/folder")
    with pytest.raises(UserError, match="DGPBENCH_MIRROR names /no/such/folder"):
        load(small_spec("http://127.0.0.1:9/t.csv"))


@pytest.mark.parametrize(
    "bad", [TABLE.replace(b"10", b"11"), b"<html><body>Sign in</body></html>", b"", b"\x80\x04\x95"]
)
def test_wrong_content_is_removed_and_the_next_url_tried(bad: bytes, httpserver: HTTPServer, cache: Path) -> None:
    httpserver.expect_request("/bad.csv").respond_with_data(bad)
    httpserver.expect_request("/good.csv").respond_with_data(TABLE)
    load(small_spec(httpserver.url_for("/bad.csv"), httpserver.url_for("/good.csv")))
    assert [path.name for path in places(cache)] == ["good.csv"]


def test_only_wrong_content_is_refused_with_both_digests(httpserver: HTTPServer, cache: Path) -> None:
    httpserver.expect_request("/t.csv").respond_with_data(TABLE.replace(b"10", b"11"))
    spec = small_spec(httpserver.url_for("/t.csv"))
    with pytest.raises(UserError, match=f"digest [0-9a-f]{{64}} instead of {spec['digest_xy']}"):
        load(spec)
    assert not places(cache)


def test_another_hash_with_the_same_content_is_accepted_and_recorded(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/t.csv").respond_with_data(TABLE.replace(b"\n", b"\r\n"))
    spec = small_spec(httpserver.url_for("/t.csv"))
    spec["sources"][0]["sha256"] = "0" * 64
    (file,) = load(spec).sources
    assert file.pinned_sha256 == "0" * 64 != file.sha256
    assert len(file.sha256) == 64


def test_a_busy_server_is_tried_again(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/t.csv").respond_with_handler(
        answers(Response(status=503), Response(status=429), Response(TABLE))
    )
    assert load(small_spec(httpserver.url_for("/t.csv"))).num_rows == 3


def test_a_body_that_ends_early_is_fetched_again(httpserver: HTTPServer, cache: Path) -> None:
    short = Response([TABLE[:12]], headers={"Content-Length": str(len(TABLE))})
    httpserver.expect_request("/t.csv").respond_with_handler(answers(short, Response(TABLE)))
    assert load(small_spec(httpserver.url_for("/t.csv"))).num_rows == 3
    assert [path.name for path in places(cache)] == ["t.csv"]


def test_a_server_that_stays_busy_is_given_up_after_three_requests(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/t.csv").respond_with_data(b"", status=503)
    with pytest.raises(UserError, match="HTTP 503"):
        load(small_spec(httpserver.url_for("/t.csv")))
    assert len(httpserver.log) == 3


def test_a_damaged_cached_file_is_fetched_again(httpserver: HTTPServer, cache: Path) -> None:
    httpserver.expect_request("/t.csv").respond_with_data(TABLE)
    spec = small_spec(httpserver.url_for("/t.csv"))
    load(spec)
    (path,) = places(cache)
    path.write_bytes(TABLE[:-5])
    assert load(spec).num_rows == 3
    assert path.read_bytes() == TABLE


def test_a_damaged_file_in_the_users_mirror_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mirror" / "example.org" / "t.csv"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"broken")
    monkeypatch.setenv("DGPBENCH_MIRROR", str(tmp_path / "mirror"))
    with pytest.raises(UserError):
        load(small_spec("http://example.org/t.csv"))
    assert file.read_bytes() == b"broken"


def test_no_network_is_a_clean_error_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise requests.ConnectionError("no route")

    monkeypatch.setattr(requests, "get", fail)
    with pytest.raises(UserError) as refusal:
        load(specs()["concrete"])
    text = str(refusal.value)
    assert "\n" not in text
    assert all(source["url"] in text for source in specs()["concrete"]["sources"])
    assert "DGPBENCH_MIRROR" in text
    assert "dgpbench data import PATH" in text
    assert all(name in text for name in ("boston", "diabetes", "bimodal", "heteroscedastic", "step"))
    assert "kin8nm" not in text


def test_a_download_to_a_full_disk_is_a_clean_error_and_leaves_nothing(
    httpserver: HTTPServer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpserver.expect_request("/t.csv").respond_with_data(TABLE)

    def fill(url: str, title: str) -> Any:
        yield b"a,b"
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download, "body", fill)
    with pytest.raises(UserError, match=r"No space left on device.*make room, or set DGPBENCH_CACHE"):
        load(small_spec(httpserver.url_for("/t.csv")))
    assert not places(cache)


def test_a_read_only_cache_is_a_clean_error(httpserver: HTTPServer, cache: Path) -> None:
    httpserver.expect_request("/t.csv").respond_with_data(TABLE)
    cache.write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"cannot be written.*DGPBENCH_CACHE"):
        load(small_spec(httpserver.url_for("/t.csv")))


def test_a_missing_package_does_not_pass_for_a_damaged_file(
    httpserver: HTTPServer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpserver.expect_request("/t.csv").respond_with_data(TABLE)

    def missing(*args: Any, **kwargs: Any) -> None:
        raise ImportError("no pandas")

    monkeypatch.setattr("dgpbench.data.published.read", missing)
    with pytest.raises(ImportError):
        load(small_spec(httpserver.url_for("/t.csv")))
    assert places(cache)


def test_a_member_is_read_from_its_archive_without_unpacking(httpserver: HTTPServer, cache: Path) -> None:
    httpserver.expect_request("/t.zip").respond_with_data(zipped({"in/t.csv": TABLE}))
    spec = small_spec(httpserver.url_for("/t.zip"))
    spec["sources"][0]["member"] = "in/t.csv"
    assert load(spec).num_rows == 3
    assert [path.name for path in places(cache)] == ["t.zip"]


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def test_a_request_gives_up_in_time(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def slow(url: str, timeout: Any, **kwargs: Any) -> None:
        seen.append(timeout)
        raise requests.ReadTimeout("slow")

    monkeypatch.setattr(requests, "get", slow)
    with pytest.raises(UserError, match="no response in time"):
        load(small_spec(httpserver.url_for("/t.csv")))
    assert seen == [(10, 15)] * 3
