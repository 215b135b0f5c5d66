"""The check of a release finds what is missing in an archive and what does not belong there."""

import runpy
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
CHECK = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "release_check.py")))
PACKAGE = ["fdsm/__init__.py", "fdsm/py.typed"]
TRACKED = [*PACKAGE, "docs/guide.md", "paper/results/a.json", "pyproject.toml", "tests/test_a.py"]
WHEEL = [
    *PACKAGE,
    *(f"fdsm-1.0.dist-info/{n}" for n in ("METADATA", "RECORD", "entry_points.txt")),
    "fdsm-1.0.dist-info/licenses/LICENSE",
]
SDIST = [
    *PACKAGE, "docs/guide.md", "tests/test_a.py",
    "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml",
]  # fmt: skip


def test_complete_files_pass() -> None:
    CHECK.check_wheel(WHEEL, PACKAGE)
    CHECK.check_sdist(SDIST, TRACKED)


@pytest.mark.parametrize("name", WHEEL)
def test_a_file_missing_in_the_wheel_is_named(name: str) -> None:
    wheel = [n for n in WHEEL if n != name]
    with pytest.raises(CHECK.ProblemError, match=name.partition(".dist-info/")[2] or name):
        CHECK.check_wheel(wheel, PACKAGE)


@pytest.mark.parametrize("name", SDIST)
def test_a_file_missing_in_the_source_distribution_is_named(name: str) -> None:
    with pytest.raises(CHECK.ProblemError, match=f"lacks {name}"):
        CHECK.check_sdist([n for n in SDIST if n != name], TRACKED)


@pytest.mark.parametrize("name", ["tests/test_a.py", "paper/train.py", "fdsm/draft.py", "x.pth"])
def test_a_foreign_file_in_the_wheel_is_named(name: str) -> None:
    with pytest.raises(CHECK.ProblemError, match=f"the wheel has {name}, which does not belong"):
        CHECK.check_wheel([*WHEEL, name], PACKAGE)


@pytest.mark.parametrize("name", ["paper/results/a.json", "benchmarks/a.py", "docs/draft.md"])
def test_a_foreign_file_in_the_source_distribution_is_named(name: str) -> None:
    with pytest.raises(CHECK.ProblemError, match=f"has {name}, which does not belong there"):
        CHECK.check_sdist([*SDIST, name], TRACKED)


def test_results_do_not_belong_there_even_if_git_tracks_them() -> None:
    results = "docs/results/a.json"
    with pytest.raises(CHECK.ProblemError, match=f"has results, such as {results}"):
        CHECK.check_sdist([*SDIST, results], [*TRACKED, results])


def test_a_command_that_fails_is_one_sentence() -> None:
    with pytest.raises(CHECK.ProblemError, match=r"^`git nonsense` failed: .*nonsense.*$"):
        CHECK.run("git", "nonsense")


def write_wheel(folder: Path, names: list[str]) -> Path:
    with zipfile.ZipFile(folder / "fdsm.whl", "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return folder / "fdsm.whl"


def write_sdist(folder: Path, names: list[str]) -> Path:
    with tarfile.open(folder / "fdsm.tar.gz", "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"fdsm-1.0/{name}"))
    return folder / "fdsm.tar.gz"


@pytest.mark.parametrize(
    ("wheel", "sdist", "problem"),
    [(WHEEL, SDIST, None), (WHEEL[1:], SDIST, "the wheel"), (WHEEL, SDIST[1:], "the source")],
)
def test_archives_are_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wheel: list[str],
    sdist: list[str],
    problem: str | None,
) -> None:
    check: Callable[[Path, Path], None] = CHECK.check_contents
    monkeypatch.setitem(check.__globals__, "run", lambda *command: "\n".join(TRACKED))
    files = write_wheel(tmp_path, wheel), write_sdist(tmp_path, sdist)
    if problem is None:
        check(*files)
    else:
        with pytest.raises(CHECK.ProblemError, match=f"{problem}.* lacks fdsm/__init__.py"):
            check(*files)
