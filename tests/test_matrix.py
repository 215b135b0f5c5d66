"""`make matrix` and the workflow use the versions that `pyproject.toml` declares."""

import json
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def matrix(option: str) -> str:
    command = [sys.executable, str(ROOT / "tools" / "matrix.py"), option]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def test_the_matrix_starts_at_the_oldest_versions_declared() -> None:
    versions = json.loads(matrix("--json"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == f">={versions['python'][0]}"
    (torch,) = (r for r in map(Requirement, project["dependencies"]) if r.name == "torch")
    oldest, newest = versions["torch"]
    (bound,) = torch.specifier
    assert bound.operator == ">="
    assert f"{oldest}.".startswith(f"{bound.version}.")
    assert newest != oldest
    assert torch.specifier.contains(newest)


def test_the_matrix_has_the_pythons_of_the_classifiers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    prefix = "Programming Language :: Python :: 3."
    declared = [c.rpartition(" ")[2] for c in project["classifiers"] if c.startswith(prefix)]
    assert json.loads(matrix("--json"))["python"] == declared


def test_the_lowest_versions_are_allowed_and_none_below() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    texts = chain(project["dependencies"], *extras)
    declared = {r.name: r.specifier for r in map(Requirement, texts) if r.name != "fdsm"}
    lowest = {r.name: r.specifier for r in map(Requirement, matrix("--lowest").splitlines())}
    assert {name: str(s).replace(">=", "==") for name, s in declared.items()} == {
        name: str(s) for name, s in lowest.items()
    }


def test_every_package_of_a_group_or_an_extra_is_pinned() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras, groups = pyproject["project"]["optional-dependencies"], pyproject["dependency-groups"]
    lists = [pyproject["project"]["dependencies"], *extras.values(), *groups.values()]
    wanted = [Requirement(d) for packages in lists for d in packages if isinstance(d, str)]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {canonicalize_name(r.name): r.specifier for r in map(Requirement, lines)}
    for requirement in wanted:
        if requirement.name != "fdsm":
            (pin,) = pins[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(pin.version), requirement
