"""Fixtures: empty data directories, a local web server, the real data."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest


@dataclass(frozen=True)
class Home:
    data: Path
    cache: Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return empty directories for FDSM_DATA and the cache. Downloads fail."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    monkeypatch.setenv("FDSM_DATA", str(data))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    for proxy in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return Home(data, cache / "fdsm")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class Site:
    folder: Path
    url: str


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Serve a folder on the loopback interface."""
    folder = tmp_path / "site"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Site(folder, f"http://127.0.0.1:{server.server_address[1]}")
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def real() -> Path:
    """Return the directory of real data, or skip the test."""
    folder = os.environ.get("FDSM_DATA")
    if not folder:
        pytest.skip("FDSM_DATA is not set")
    return Path(folder)
