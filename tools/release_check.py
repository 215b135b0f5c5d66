"""Build the package and try it as users get it. `make release-check` runs this file.

Wheel and source distribution are built twice, from the working tree and from a fresh clone of the
last commit, and must have the same bytes. Their contents are compared with the repository. The
wheel is then installed into an empty environment, at first without extras, and used there. The
first problem ends the check with one sentence.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {"docs", "examples", "fdsm", "tests", "tools"}
"""Folders of the source distribution. Results, the reproduction and the benchmarks stay out."""

LIBRARY = """
import torch
from fdsm import SSM, Taylor, laplacian
from fdsm.models import QuadraticMLP
from fdsm.samplers import langevin

x, model = torch.randn(64, 3), QuadraticMLP(3, widths=(8, 8))
SSM(Taylor())(model, x).mean().backward()
assert all(p.grad.isfinite().all() for p in model.parameters())
torch.testing.assert_close(laplacian(lambda x: x.pow(3).sum(1), x), 6 * x.sum(1))
assert langevin(lambda x: -x, x, 5, 0.1).isfinite().all()
"""
"""A use of the library without extras."""

SIZES = """
import json
from importlib.metadata import distributions

def size(file):
    path = file.locate()
    return path.stat().st_size if path.is_file() and path.suffix != ".pyc" else 0

print(json.dumps({d.name: sum(map(size, d.files or ())) for d in distributions()}))
"""
"""Prints the size in bytes of each package of an environment."""


class ProblemError(Exception):
    """Why the package cannot be released, as one sentence."""


def check_wheel(names: Collection[str], tracked: Collection[str]) -> None:
    """Check that a wheel has the files of the package that git tracks, metadata and no more."""
    metadata = [name for name in names if re.match(r"fdsm-[^/]+\.dist-info/", name)]
    _compare("the wheel", set(names) - set(metadata), tracked)
    endings = {name.partition(".dist-info/")[2] for name in metadata}
    _require("the wheel", {"METADATA", "RECORD", "entry_points.txt", "licenses/LICENSE"}, endings)
    _require("the wheel", {"fdsm/py.typed"}, names)


def check_sdist(names: Collection[str], tracked: Collection[str]) -> None:
    """Check that a source distribution has the folders of `SOURCES` and no results."""
    folders = {name for name in names if "/" in name}
    wanted = {name for name in tracked if name.partition("/")[0] in SOURCES and "/" in name}
    _compare("the source distribution", folders, wanted)
    files = {"LICENSE", "PKG-INFO", "README.md", "CHANGELOG.md", "pyproject.toml"}
    _require("the source distribution", files, names)
    results = sorted(name for name in names if "results" in name.split("/")[:-1])
    if results:
        raise ProblemError(f"the source distribution has results, such as {results[0]}")


def _compare(archive: str, names: Collection[str], wanted: Collection[str]) -> None:
    foreign = sorted(set(names) - set(wanted))
    if foreign:
        raise ProblemError(f"{archive} has {foreign[0]}, which does not belong there")
    _require(archive, wanted, names)


def _require(archive: str, wanted: Collection[str], names: Collection[str]) -> None:
    missing = sorted(set(wanted) - set(names))
    if missing:
        raise ProblemError(f"{archive} lacks {missing[0]}")


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """Run a command, with variables added to its environment, and return what it prints."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True
    )
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        words = [Path(word).name for word in command if "\n" not in str(word)]
        raise ProblemError(f"`{' '.join(words)}` failed: {last}")
    return done.stdout


def build_twice(folder: Path) -> tuple[Path, Path]:
    """Return wheel and source distribution, which a clone must build with the same bytes."""
    epoch = run("git", "log", "-1", "--format=%ct").strip()
    run("git", "clone", "--quiet", ROOT, folder / "clone")
    for source, out in ((ROOT, folder / "tree"), (folder / "clone", folder / "again")):
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out)]
        run(*build, cwd=source, SOURCE_DATE_EPOCH=epoch)
    (wheel,), (sdist,) = (list((folder / "tree").glob(f"*{end}")) for end in (".whl", ".tar.gz"))
    for path in (wheel, sdist):
        again = folder / "again" / path.name
        if not again.exists() or again.read_bytes() != path.read_bytes():
            raise ProblemError(f"a clone of the last commit builds another {path.name}: commit?")
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path) -> None:
    """Check the contents of both files."""
    tracked = run("git", "ls-files").splitlines()
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    check_wheel(names, {name for name in tracked if name.startswith("fdsm/")})
    with tarfile.open(sdist) as archive_of_sources:
        files = [member.name for member in archive_of_sources if member.isfile()]
    check_sdist([name.partition("/")[2] for name in files], tracked)


def try_library(bin_: Path, folder: Path) -> None:
    """Use the library without extras, and see whether the command names the one it needs."""
    run(bin_ / "python", "-I", "-W", "error", "-c", LIBRARY, cwd=folder)
    done = subprocess.run([bin_ / "fdsm", "--help"], capture_output=True, text=True)
    if not done.returncode or "pip install 'fdsm[tables]'" not in done.stderr:
        raise ProblemError("`fdsm --help` without extras does not name the extra `tables`")


def try_command(bin_: Path, folder: Path) -> None:
    """Train, score, sample and report with a small table."""
    rows = [f"{i % 7},{i % 7 * 2 + i % 3},{'ab'[i % 2]}" for i in range(200)]
    (folder / "small.csv").write_text("\n".join(["x,y,kind", *rows]), encoding="utf-8")
    run(bin_ / "fdsm", "train", "small.csv", "--iterations", "50", cwd=folder)
    run(bin_ / "fdsm", "score", "runs/small", "small.csv", cwd=folder)
    run(bin_ / "fdsm", "sample", "runs/small", "-n", "5", cwd=folder)
    run(bin_ / "fdsm", "report", "runs/small", "small.scores.csv", cwd=folder)
    written = {path.name for path in folder.rglob("*") if path.is_file()}
    _require("the folder of `fdsm train`", {"small.samples.csv", "report.html"}, written)


def main() -> None:
    """Run all checks and print the sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index-url", help="package index to install torch from")
    parser.add_argument("--tag", help="tag that must belong to the version, such as v0.3.0")
    parser.add_argument("--out", type=Path, help="folder for the two files, if they pass")
    options = parser.parse_args()
    index = ["--index-url", options.index_url] if options.index_url else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, sdist = build_twice(folder)
        check_contents(wheel, sdist)
        version = wheel.name.split("-")[1]
        if options.tag not in {None, f"v{version}"}:
            raise ProblemError(f"the tag is {options.tag}, but the version is {version}")
        for path in (wheel, sdist):
            print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, the same twice", flush=True)
        run(sys.executable, "-m", "venv", folder / "env")
        bin_ = folder / "env" / "bin"
        install = [str(bin_ / "python"), "-m", "pip", "install", "-c", f"{ROOT}/constraints.txt"]
        before = json.loads(run(bin_ / "python", "-I", "-c", SIZES))
        run(*install, "torch", *index)
        for extra in ("", "[tables]", "[tensorboard]", "[all]"):
            run(*install, f"{wheel}{extra}")
            sizes = json.loads(run(bin_ / "python", "-I", "-c", SIZES))
            added = [size for package, size in sizes.items() if package not in before]
            print(f"fdsm{extra} adds {len(added)} packages, {sum(added) / 1e6:.1f} MB", flush=True)
            before = sizes
            if extra in {"", "[tables]"}:
                (try_command if extra else try_library)(bin_, folder)
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            for path in (wheel, sdist):
                shutil.copy(path, options.out)
    print("The package can be released.")


if __name__ == "__main__":
    try:
        main()
    except ProblemError as problem:
        sys.exit(f"release-check: {problem}.")
