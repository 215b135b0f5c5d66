"""Files are found where users have them, and a bad download does no harm."""

import hashlib
from pathlib import Path

import pytest

from fdsm.data import DataError, root
from fdsm.data.download import Published, named, resolved

from .conftest import Home, Site

CONTENT = b"the official file"


def published(*mirrors: str, content: bytes = CONTENT, algorithm: str = "sha256") -> Published:
    digest = hashlib.new(algorithm, content).hexdigest()
    return Published(
        ("file.gz", "file"), ("set", "Set/raw"), f"{algorithm}:{digest}", mirrors, "https://page"
    )


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_the_folder_is_the_one_of_the_variable_else_the_cache(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert root() == home.data
    monkeypatch.delenv("FDSM_DATA")
    assert root() == home.cache
    monkeypatch.setenv("FDSM_DATA", str(home.data / "typo"))
    with pytest.raises(DataError, match="typo is not a folder"):
        root()


@pytest.mark.parametrize("place", ["set/file.gz", "set/file", "Set/raw/file.gz", "Set/raw/file"])
@pytest.mark.parametrize("base", ["data", "cache"])
def test_files_are_found(home: Home, base: str, place: str) -> None:
    path = getattr(home, base) / place
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert published().find() == path


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_download_goes_to_the_cache_and_is_found_there(
    home: Home, site: Site, algorithm: str
) -> None:
    (site.folder / "file.gz").write_bytes(CONTENT)
    file = published(f"{site.url}/file.gz", algorithm=algorithm)
    content, record = file.read(Path.read_bytes)
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


def test_a_bad_download_is_deleted_and_the_next_mirror_tried(home: Home, site: Site) -> None:
    (site.folder / "bad.gz").write_bytes(b"hostile")
    (site.folder / "cut.gz").write_bytes(CONTENT[:-1])
    (site.folder / "good.gz").write_bytes(CONTENT)
    bad = [f"{site.url}/{name}" for name in ("absent.gz", "bad.gz", "cut.gz")]
    with pytest.raises(DataError) as caught:
        published(*bad).fetch()
    assert files(home.cache) == []
    for url in bad:
        assert url in str(caught.value)
    assert "404" in str(caught.value)
    assert str(caught.value).count("another checksum and was deleted") == 2
    assert published(*bad, f"{site.url}/good.gz").fetch().read_bytes() == CONTENT


def test_without_a_network_the_error_says_what_to_put_where(home: Home) -> None:
    with pytest.raises(DataError) as caught:
        published("http://localhost.invalid/file.gz").fetch()
    message = str(caught.value)
    assert "tried http://localhost.invalid/file.gz" in message
    assert f"put it at {home.data / 'set' / 'file.gz'}" in message
    assert str(home.cache) in message


def test_a_file_without_mirrors_names_its_page(home: Home) -> None:
    with pytest.raises(DataError, match="Get it from https://page and put it at"):
        published().fetch()


def test_a_file_in_use_is_never_replaced(home: Home, site: Site) -> None:
    (site.folder / "file.gz").write_bytes(CONTENT)
    mine = home.data / "set" / "file.gz"
    mine.parent.mkdir()
    mine.write_bytes(b"my own")
    content, record = published(f"{site.url}/file.gz").read(Path.read_bytes)
    assert content == b"my own"
    assert isinstance(record, dict)
    assert record["official"] is False


def test_a_damaged_file_comes_with_a_remedy(home: Home) -> None:
    path = home.data / "set" / "file.gz"
    path.parent.mkdir()
    path.write_bytes(b"damaged")

    def reader(_: Path) -> None:
        raise DataError("no good")

    with pytest.raises(
        DataError, match=f"no good. Delete {path} and load again .* https://mirror"
    ):
        published("https://mirror").read(reader)
    assert path.read_bytes() == b"damaged"


def test_own_paths_may_be_relative_to_the_folder_of_the_data(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.data / "mine").mkdir()
    (home.data / "mine" / "a.csv").write_text("1")
    assert resolved("mine/a.csv") == home.data / "mine" / "a.csv"
    monkeypatch.chdir(home.data / "mine")
    assert resolved("a.csv") == Path("a.csv")
    with pytest.raises(DataError, match=f"there is no b.csv: .* relative to {home.data}"):
        resolved("b.csv")


def test_a_named_part_is_found(home: Home) -> None:
    (home.data / "set").mkdir()
    path = home.data / "set" / "part.zip"
    path.write_bytes(CONTENT)
    expected = {"file": "set/part.zip", "sha256": hashlib.sha256(CONTENT).hexdigest()}
    assert named("part.zip", ("set", "")) == (path, expected)
    assert named(str(path), ("elsewhere",)) == (path, expected)
    with pytest.raises(DataError, match=f"put it at {home.data / 'set' / 'other.zip'}"):
        named("other.zip", ("set",))
