"""Tests of finding and downloading files."""

import hashlib
from pathlib import Path

import pytest

from paper.data import DataError, data_dir
from paper.data.download import RemoteFile, checksums, file_record, find_file, resolve_path

from .conftest import Home, Site

CONTENT = b"the official file"


def remote_file(*urls: str, content: bytes = CONTENT, algorithm: str = "sha256") -> RemoteFile:
    digest = hashlib.new(algorithm, content).hexdigest()
    return RemoteFile(
        ("file.gz", "file"), ("set", "Set/raw"), f"{algorithm}:{digest}", urls, "https://page"
    )


def return_content(content: bytes, path: Path) -> bytes:
    return content


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_data_dir_is_the_environment_variable_or_the_cache(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data_dir() == home.data
    monkeypatch.delenv("FDSM_DATA")
    assert data_dir() == home.cache
    monkeypatch.setenv("FDSM_DATA", str(home.data / "typo"))
    with pytest.raises(DataError, match="typo is not a directory"):
        data_dir()


@pytest.mark.parametrize("place", ["set/file.gz", "set/file", "Set/raw/file.gz", "Set/raw/file"])
@pytest.mark.parametrize("base", ["data", "cache"])
def test_a_file_is_found_in_all_folders_under_all_names(home: Home, base: str, place: str) -> None:
    path = getattr(home, base) / place
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert remote_file().find() == path


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_download_is_stored_in_the_cache(home: Home, site: Site, algorithm: str) -> None:
    (site.folder / "file.gz").write_bytes(CONTENT)
    file = remote_file(f"{site.url}/file.gz", algorithm=algorithm)
    content, record = file.read(return_content)
    assert content == CONTENT
    assert record == {
        "file": "set/file.gz",
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "official": True,
    }
    assert files(home.cache) == ["set/file.gz"]
    assert files(home.data) == []
    (site.folder / "file.gz").unlink()
    assert file.fetch() == home.cache / "set" / "file.gz"


def test_a_bad_download_is_deleted_and_the_next_address_is_tried(home: Home, site: Site) -> None:
    (site.folder / "bad.gz").write_bytes(b"hostile")
    (site.folder / "cut.gz").write_bytes(CONTENT[:-1])
    (site.folder / "good.gz").write_bytes(CONTENT)
    bad = [f"{site.url}/{name}" for name in ("absent.gz", "bad.gz", "cut.gz")]
    with pytest.raises(DataError) as caught:
        remote_file(*bad).fetch()
    assert files(home.cache) == []
    for url in bad:
        assert url in str(caught.value)
    assert "404" in str(caught.value)
    assert str(caught.value).count("has another checksum and was deleted") == 2
    assert remote_file(*bad, f"{site.url}/good.gz").fetch().read_bytes() == CONTENT


def test_without_a_network_the_error_says_where_to_put_the_file(home: Home) -> None:
    with pytest.raises(DataError) as caught:
        remote_file("http://localhost.invalid/file.gz").fetch()
    message = str(caught.value)
    assert "tried http://localhost.invalid/file.gz" in message
    assert f"put it at {home.data / 'set' / 'file.gz'}" in message
    assert str(home.cache) in message


def test_a_file_that_cannot_be_downloaded_names_its_homepage(home: Home) -> None:
    with pytest.raises(DataError, match="Get it from https://page and put it at"):
        remote_file().fetch()


def test_an_existing_file_is_never_replaced(home: Home, site: Site) -> None:
    (site.folder / "file.gz").write_bytes(CONTENT)
    mine = home.data / "set" / "file.gz"
    mine.parent.mkdir()
    mine.write_bytes(b"my own")
    content, record = remote_file(f"{site.url}/file.gz").read(return_content)
    assert content == b"my own"
    assert isinstance(record, dict)
    assert record["official"] is False


def test_the_error_of_a_damaged_file_says_where_to_get_the_official_one(home: Home) -> None:
    path = home.data / "set" / "file.gz"
    path.parent.mkdir()
    path.write_bytes(b"damaged")

    def fail(content: bytes, path: Path) -> None:
        raise DataError("no good")

    with pytest.raises(
        DataError, match=f"no good. Delete {path} to download it again, .* https://mirror"
    ):
        remote_file("https://mirror").read(fail)
    assert path.read_bytes() == b"damaged"


def test_paths_may_be_relative_to_the_data_directory(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.data / "mine").mkdir()
    (home.data / "mine" / "a.csv").write_text("1")
    assert resolve_path("mine/a.csv") == home.data / "mine" / "a.csv"
    monkeypatch.chdir(home.data / "mine")
    assert resolve_path("a.csv") == Path("a.csv")
    with pytest.raises(DataError, match=f"b.csv does not exist.* relative to .* or {home.data}"):
        resolve_path("b.csv")


def test_a_file_is_found_by_name_or_path(home: Home) -> None:
    (home.data / "set").mkdir()
    path = home.data / "set" / "part.zip"
    path.write_bytes(CONTENT)
    assert find_file("part.zip", ("set", "")) == path
    assert find_file(str(path), ("elsewhere",)) == path
    with pytest.raises(DataError, match=f"Put it at {home.data / 'set' / 'other.zip'}"):
        find_file("other.zip", ("set",))


def test_checksums_of_bytes_and_of_files_are_those_of_hashlib(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(CONTENT)
    expected = [hashlib.sha256(CONTENT).hexdigest(), hashlib.md5(CONTENT).hexdigest()]
    assert checksums(CONTENT, "sha256", "md5") == expected
    assert checksums(path, "sha256", "md5") == expected
    record = {"file": f"{tmp_path.name}/a", "sha256": expected[0]}
    assert file_record(path) == file_record(path, CONTENT) == record


def test_a_file_is_read_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.data / "set" / "file.gz"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    opened = []
    original = Path.open
    monkeypatch.setattr(Path, "open", lambda p, *a, **k: opened.append(p) or original(p, *a, **k))
    remote_file().read(return_content)
    assert opened == [path]
